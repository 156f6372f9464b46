"""Networks of question generators: one file a model, and their parts."""

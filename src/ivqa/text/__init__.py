"""The tokeniser, vocabularies, and the answer normalisation of the official VQA evaluation."""

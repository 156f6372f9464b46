"""Words, vocabularies and the official normalisation of answers."""

"""The human study of generated questions."""

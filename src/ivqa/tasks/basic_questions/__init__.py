"""Tasks about basic questions and noise."""

"""Question generators of the library transformers."""

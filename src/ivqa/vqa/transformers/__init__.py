"""VQA models of the library transformers."""

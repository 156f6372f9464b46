"""Question generators that use a VQA model."""

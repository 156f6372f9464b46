"""VQA models behind an OpenAI-compatible endpoint."""

"""VQA networks that are trained here: one file a model."""

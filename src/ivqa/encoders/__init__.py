"""Sentence encoders: questions as vectors, for ranking by LASSO and for VQA models."""

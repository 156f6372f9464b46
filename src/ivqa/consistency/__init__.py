"""Consistency of VQA models: answers that cannot all be true, without labels."""

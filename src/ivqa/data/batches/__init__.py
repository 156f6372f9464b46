"""Batches of questions, answers and image features."""

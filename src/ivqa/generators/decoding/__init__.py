"""Decoding: from a state to questions."""

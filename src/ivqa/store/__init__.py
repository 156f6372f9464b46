"""Stored results: atomic files, manifests, keys and locks."""

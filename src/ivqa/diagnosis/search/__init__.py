"""The search of a belief set (Algorithm 1)."""

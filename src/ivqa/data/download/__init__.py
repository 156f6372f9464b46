"""Official archives, and their download."""

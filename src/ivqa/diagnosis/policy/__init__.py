"""The policy: the question generator, trained on rewards."""

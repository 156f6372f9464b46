"""Configurations: composition, checks, and the sentences about their faults."""

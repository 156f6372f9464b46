"""Asks what visual question answering models believe and how easily they are shaken."""

__version__ = "0.1.0"

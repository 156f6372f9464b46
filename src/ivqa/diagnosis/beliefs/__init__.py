"""Beliefs: their types, faults, figures and the challenging set."""

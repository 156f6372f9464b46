"""Data sets of a layout of their own."""

"""Sweeps: points, trials and tables of jobs."""

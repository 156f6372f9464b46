"""Claims of speed, each against peers in the same run: python -m benchmarks."""

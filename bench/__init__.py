"""Benchmarks: what the house costs, printed as ratios to reference work of the same run."""

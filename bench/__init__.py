"""Benchmarks: what the gateway costs, printed as ratios to reference work of the same run."""

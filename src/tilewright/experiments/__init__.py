"""Experiments: one search for each combination of workload, arm and seed, and their evaluation."""

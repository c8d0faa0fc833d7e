"""Experiments: workloads x arms x seeds through the ordinary search, and what they show."""

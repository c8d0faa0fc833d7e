"""Tuning runs: the tuner, its storage and its results together. Beside `run.py` for searches."""

"""Runs of the tuner, with their storage and results. `run.py` is the counterpart for searches."""

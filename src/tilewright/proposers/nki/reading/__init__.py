"""Converts NKI code to the intermediate form, which keeps loops and has numbers for all sizes."""

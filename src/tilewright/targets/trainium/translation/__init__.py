"""Translates a kernel to NKI 2 from what a pass through it recorded."""

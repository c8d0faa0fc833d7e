"""Kernels for a set of shapes in one file that chooses by size ([docs/reuse.md])."""

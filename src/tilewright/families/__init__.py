"""Kernels for a set of shapes in one C file, with a function that chooses the kernel by size
(docs/reuse.md).
"""

"""Kernels that run on this machine: built, contained, checked and timed; see docs/targets.md.

Lies under the targets whose kernels run natively; knows no instruction set.
"""

"""Tests of a task's correctness check with wrong kernels, which the check must reject before a
search.
"""

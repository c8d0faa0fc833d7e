"""Finds the steps that are possible in a kernel, and sequences of steps that are worth an
evaluation."""

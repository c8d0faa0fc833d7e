"""Finds the steps that are possible in a loop nest, and sequences of steps that are worth an
evaluation."""

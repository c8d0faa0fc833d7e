"""The parts from which targets are built: private inputs, comparisons, error bounds, kernel folders
and texts.

The targets import this package, which contains nothing that is specific to one accelerator.
"""

"""The search for faster kernels, which repeatedly selects parents, proposes candidates and
evaluates them.
"""

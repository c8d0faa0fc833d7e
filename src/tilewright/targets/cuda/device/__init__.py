"""Level 3: kernels are checked at full size on a GPU of this machine, and timed by a clock to which
they have no access.
"""

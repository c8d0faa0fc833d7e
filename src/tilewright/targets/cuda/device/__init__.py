"""Level 3: kernels on a GPU of this machine, at full size, timed by a clock out of their reach."""

"""Which steps are possible in a kernel, and sequences of them that are worth an evaluation."""

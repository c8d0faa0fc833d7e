"""Which steps are possible in a loop nest, and sequences of them that are worth an evaluation."""

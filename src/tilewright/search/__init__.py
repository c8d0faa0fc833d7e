"""Select, propose, evaluate: the search over kernels."""

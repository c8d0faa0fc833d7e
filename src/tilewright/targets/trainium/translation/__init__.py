"""A kernel written again in NKI 2, from what its walk recorded."""

"""Reads, rewrites and prints kernels in NKI, the language of AWS Trainium."""

"""Kernels in NKI, the language of AWS Trainium: read, rewritten and printed again."""

"""Rewrites of kernels. Each finds its places and is applied at one of them."""

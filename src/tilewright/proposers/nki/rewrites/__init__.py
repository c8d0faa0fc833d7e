"""Rewrites of kernels: each finds its places and carries itself out at one."""

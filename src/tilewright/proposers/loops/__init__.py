"""Rewrites of plain C loop nests, for targets whose kernels are C without commands of their own."""

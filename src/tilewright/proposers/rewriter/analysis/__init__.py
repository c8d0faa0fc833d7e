"""Analyses of what a kernel of commands computes and which data it accesses."""

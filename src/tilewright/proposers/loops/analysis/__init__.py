"""Analyses of loops: what they change, carry from one iteration to the next, and can share between
threads."""

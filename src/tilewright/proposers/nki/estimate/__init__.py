"""Estimates the time of a kernel from its instructions, without running it."""

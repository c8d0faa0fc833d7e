"""Proposers, which write candidates."""

"""Proposers: whoever writes candidates."""

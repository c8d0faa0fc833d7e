"""Converts C text to loop IR."""

"""Reads machine code: instructions by class, loops that jumps form, and source lines."""

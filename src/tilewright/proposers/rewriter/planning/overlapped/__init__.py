"""Sequences of steps that overlap the moves of tiled products with the products."""

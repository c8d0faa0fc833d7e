"""Tensors, tiles and indices of an interpreted kernel."""

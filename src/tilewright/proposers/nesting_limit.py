"""How deep C may nest for the readers of kernels, which call themselves at every level."""

from __future__ import annotations

from tree_sitter import Node

DEEPEST = 200
"""Levels of blocks and expressions within one another; every one takes calls of a reader."""


def nested_beyond(node: Node, levels: int) -> Node | None:
    """The first node that is more than a number of levels below this one."""
    above = [(node, 0)]
    while above:
        current, depth = above.pop()
        if depth > levels:
            return current
        above.extend((child, depth + 1) for child in reversed(current.named_children))
    return None

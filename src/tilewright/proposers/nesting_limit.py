"""The maximum nesting depth of C code that can be read, because the readers of kernels are
recursive.
"""

from __future__ import annotations

from tree_sitter import Node

DEEPEST = 200
"""Maximum number of nested blocks and expressions, each of which needs recursive calls of a
reader.
"""


def nested_beyond(node: Node, levels: int) -> Node | None:
    """The first node that is more than a number of levels below this one."""
    above = [(node, 0)]
    while above:
        current, depth = above.pop()
        if depth > levels:
            return current
        above.extend((child, depth + 1) for child in reversed(current.named_children))
    return None

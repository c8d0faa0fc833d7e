"""Orders the nodes of directed graphs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol, TypeVar

Node = TypeVar("Node", bound=Hashable)


class Edges(Protocol[Node]):
    """For each node, the nodes to which its edges lead: a mapping, or a sequence by number."""

    def __getitem__(self, node: Node, /) -> Iterable[Node]: ...


def postorder(after: Edges[Node], roots: Iterable[Node]) -> list[Node]:
    """The nodes that the roots reach, each after all that it reaches, except on cycles."""
    order: list[Node] = []
    seen: set[Node] = set()
    for root in roots:
        open_ = [] if root in seen else [(root, iter(after[root]))]
        seen.add(root)
        while open_:
            node, rest = open_[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                order.append(node)
                open_.pop()
            else:
                seen.add(following)
                open_.append((following, iter(after[following])))
    return order

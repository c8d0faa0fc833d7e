"""Which functions call which: those that lead to others, their order, and those that call
themselves. The time is linear in the number of calls.

A graph maps the name of each function to the names of the functions that it calls, or to those of
its callers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from tilewright.parts.machine_code.graphs import postorder

Graph: TypeAlias = Mapping[str, Collection[str]]


def reached(graph: Graph, begin: Iterable[str]) -> set[str]:
    """The functions of `begin`, and all that can be reached from them."""
    found = set(begin)
    open_ = list(found)
    while open_:
        new = set(graph[open_.pop()]) - found
        found |= new
        open_.extend(new)
    return found


def callers_first(called: Graph) -> list[str]:
    """All functions, each one after those that call it, unless it also leads to them."""
    return postorder(called, called)[::-1]


def on_cycles(called: Graph, callers: Graph) -> set[str]:
    """The functions that call themselves, directly or through others (Kosaraju's algorithm)."""
    found = {name for name, others in called.items() if name in others}
    seen: set[str] = set()
    for name in callers_first(called):
        if name in seen:
            continue
        seen.add(name)
        group = [name]
        for one in group:  # the group grows in the loop
            new = set(callers[one]) - seen
            seen |= new
            group.extend(new)
        if len(group) > 1:
            found.update(group)
    return found

"""Iterators in kernels: generators and the results of `zip`, `enumerate`, `map` and `filter`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.frames import DEEPEST_CALL, too_deep


class KernelIterator:
    """An iterator that computes each item when it is needed, as Python does."""

    __slots__ = ("_items", "_run")

    def __init__(self, run: Execution, items: Iterable[Any]) -> None:
        self._run = run
        self._items = iter(items)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        run = self._run
        if run.depth >= DEEPEST_CALL:
            raise too_deep()
        run.step()
        line = run.line
        run.depth += 1
        try:
            return next(self._items)
        finally:
            run.depth -= 1
            run.line = line


def rest_of(items: KernelIterator, most: int) -> list[Any]:
    """The items that remain; `KernelError` if there are more than `most`."""
    found = list(islice(items, most + 1))
    if len(found) > most:
        raise KernelError("too_large", f"an iterator of more than {most:,} items")
    return found

"""Iterators in kernels: generators and the results of `zip`, `enumerate`, `map` and `filter`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any

from tilewright.targets.trainium.errors import KernelError, too_large
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.frames import DEEPEST_CALL, too_deep


class KernelIterator:
    """An iterator that computes each item when it is needed, as Python does."""

    __slots__ = ("_items", "_run", "has_started")

    def __init__(self, run: Execution, items: Iterable[Any]) -> None:
        self._run = run
        self._items = iter(items)
        self.has_started = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return self._step(next, self._items)

    def send(self, value: Any) -> Any:
        """Continue a generator, in which the `yield` that it waits at gives this value."""
        if not isinstance(self._items, Generator):
            raise KernelError("unsupported_operand", "send works only on a generator")
        if value is not None and not self.has_started:
            raise KernelError(
                "unsupported_operand", "the first value sent to a generator must be None"
            )
        return self._step(self._items.send, value)

    def close(self) -> None:
        """End a generator: its contexts and `finally` blocks are left."""
        if isinstance(self._items, Generator):
            run = self._run
            run.closing += 1
            try:
                self._items.close()
            finally:
                run.closing -= 1

    def _step(self, function: Callable[[Any], Any], value: Any) -> Any:
        run = self._run
        if run.depth >= DEEPEST_CALL:
            raise too_deep()
        run.step()
        self.has_started = True
        line = run.line
        run.depth += 1
        try:
            return function(value)
        finally:
            run.depth -= 1
            run.line = line


def rest_of(items: KernelIterator, most: int) -> list[Any]:
    """The items that remain; `KernelError` if there are more than `most`."""
    found = list(islice(items, most + 1))
    if len(found) > most:
        raise too_large(f"an iterator of more than {most:,} items")
    return found

"""The arguments of a case, which may be freed and drawn again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tilewright.parts.inputs import Array


class CaseArguments(Mapping[str, Array]):
    """Arrays by name that are drawn on first access.

    After `forget`, the next access draws the same arrays again.
    """

    def __init__(self, names: Sequence[str], draw: Callable[[], Mapping[str, Array]]) -> None:
        """`draw` returns an array for each of the names, the same ones in every call."""
        self._names, self._draw = names, draw
        self._arrays: Mapping[str, Array] | None = None

    def __getitem__(self, name: str) -> Array:
        if self._arrays is None:
            self._arrays = self._draw()
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def forget(self) -> None:
        """Free the arrays."""
        self._arrays = None

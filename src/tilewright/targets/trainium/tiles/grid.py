"""Which program of a grid runs, and the tensors that all of them share."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.tiles.buffer import Buffer, Scope
from tilewright.targets.trainium.tiles.dtypes import DType


class Grid:
    """The programs of one launch; `at` is the place of the one that runs."""

    def __init__(self, sizes: tuple[int, ...], scope: Scope) -> None:
        """`scope` is the one around the launch, which shared tensors belong to."""
        self.sizes = sizes
        self.at = (0,) * len(sizes)
        self._scope = scope
        self._shared: list[Buffer] = []
        self._made = 0

    def enter(self, number: int) -> None:
        """The next program, by its number; the last axis is the fastest."""
        places = []
        for size in reversed(self.sizes):
            number, place = divmod(number, size)
            places.append(place)
        self.at = tuple(reversed(places))
        self._made = 0

    def shared(self, shape: tuple[int, ...], dtype: DType, make: Callable[[], Buffer]) -> Buffer:
        """The tensor that the programs before this one made in its place, or a new one."""
        number, self._made = self._made, self._made + 1
        if number == len(self._shared):
            made = make()
            made.scope = self._scope
            self._shared.append(made)
        found = self._shared[number]
        if found.shape != shape or found.dtype is not dtype:
            raise KernelError(
                "unsupported_grid",
                f"the programs of a grid declare different tensors in nl.shared_hbm: "
                f"{found.dtype}{list(found.shape)} and {dtype}{list(shape)}",
            )
        return found

"""The running program of a grid, and the tensors that all programs share."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.tiles.buffer import Buffer, Scope
from tilewright.targets.trainium.tiles.dtypes import DType


class Grid:
    """The programs of one launch; `at` is the position of the running one."""

    def __init__(self, sizes: tuple[int, ...], scope: Scope) -> None:
        """`scope` is the scope around the launch, to which shared tensors belong."""
        self.sizes = sizes
        self.at = (0,) * len(sizes)
        self._scope = scope
        self._shared: list[Buffer] = []
        self._made = 0

    def enter(self, number: int) -> None:
        """Begin the next program, given by its number; the last axis changes fastest."""
        places = []
        for size in reversed(self.sizes):
            number, place = divmod(number, size)
            places.append(place)
        self.at = tuple(reversed(places))
        self._made = 0

    def shared(self, shape: tuple[int, ...], dtype: DType, make: Callable[[], Buffer]) -> Buffer:
        """The tensor that an earlier program created at the same place, or a new one."""
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

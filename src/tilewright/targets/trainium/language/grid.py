"""`kernel[2, 4](...)`: one run of a kernel for each program of a grid.

The programs run one after another on the only modelled core, as iterations of an affine loop, so
they must not depend on one another. Tensors in `nl.shared_hbm` are the same in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.tiles.grid import Grid

MOST_AXES = 3
MOST_PROGRAMS = 100_000


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel with its grid, which can be called."""

    kernel: Function
    sizes: tuple[int, ...]

    def call(self, run: Execution, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run every program, and return the result of the first one."""
        if run.grid is not None:
            raise KernelError("unsupported_grid", "a kernel with a grid launches another one")
        found = None
        grid = run.grid = Grid(self.sizes, run.scope)
        for number in run.iterate("affine", range(math.prod(self.sizes)), run.line, "program"):
            grid.enter(number)
            returned = self.kernel.call(run, args, dict(kwargs))
            found = returned if found is None else found
        run.grid = None
        return found


def launch(kernel: Function, key: Any) -> Launch:
    """`kernel[key]`."""
    items = key if isinstance(key, tuple) else (key,)
    sizes = [item for item in items if type(item) is int and item > 0]
    fits = 1 <= len(sizes) == len(items) <= MOST_AXES and math.prod(sizes) <= MOST_PROGRAMS
    if not fits:
        raise KernelError(
            "unsupported_grid",
            f"a grid must have one to {MOST_AXES} dimensions with positive sizes, and at most "
            f"{MOST_PROGRAMS:,} programs in total",
        )
    return Launch(kernel, tuple(sizes))

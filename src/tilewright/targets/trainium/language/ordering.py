"""Orders items as `sorted` and `list.sort` do, also by the comparison methods of a kernel's
classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.arithmetic import bounded, compare, truth
from tilewright.targets.trainium.language.calling import call


@dataclass(frozen=True, slots=True)
class _Ordered:
    """A key with the order of the kernel's own comparison."""

    run: Execution
    key: Any

    def __lt__(self, other: _Ordered) -> bool:
        return truth(compare(self.run, "<", self.key, other.key))


def sorted_items(run: Execution, items: Sequence[Any], key: Any, reverse: Any) -> list[Any]:
    """The items in order."""
    keys = [item if key is None else call(run, key, [item], {}) for item in items]
    if not all(isinstance(found, (int, float, str)) for found in keys):
        keys = [_Ordered(run, bounded(found)) for found in keys]
    try:
        order = sorted(range(len(items)), key=keys.__getitem__, reverse=truth(reverse))
    except TypeError as error:
        raise KernelError("unsupported_operand", f"sorted: {error}") from None
    return [items[at] for at in order]


def sort_in_place(run: Execution, items: list[Any], key: Any, reverse: Any) -> None:
    """`list.sort`."""
    items[:] = sorted_items(run, list(items), key, reverse)

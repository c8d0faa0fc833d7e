"""What the core's code outside of loops of commands uses, and what it leaves in arrays."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping

from tilewright.proposers.rewriter.analysis.core_functions import used_by
from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import (
    Body,
    Kernel,
    Opaque,
    arrays_of,
    commands,
    core_names,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.bounds import bounds
from tilewright.proposers.rewriter.raising.data import Data, Greatest
from tilewright.proposers.rewriter.raising.execute import Event, NotRaised, executed
from tilewright.proposers.rewriter.raising.own_arrays import numbered
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


def names_of(body: Body) -> frozenset[str]:
    """The names in statements: of the arrays of commands, and all names in the core's code."""
    found = {name for command in commands(body) for name in arrays_of(command)}
    for stmt in walk(body):
        if isinstance(stmt, Opaque):
            found |= set(re.findall(r"[A-Za-z_]\w*", stmt.text))
        else:
            found |= core_names(stmt)
    return frozenset(found)


def called(body: Body, kernel: Kernel) -> frozenset[str]:
    """The names in the functions that the core's code calls."""
    return used_by(names_of(body), kernel.before + kernel.after)


def limits(alone: Kernel, machine: Machine) -> Mapping[str, int]:
    """The largest absolute values of the elements of arrays that a kernel fills completely.

    The kernel consists of the core's code only. Elements that it reads may have any values.
    """
    try:
        events = executed(emit(alone), machine, data=True).events
    except NotRaised:
        return {}
    stores = defaultdict[int, list[Event]](list)
    for event in events:
        stores[event[2] // SPACING].append(event)
    found: dict[str, int] = {}
    for number, array in numbered(alone).items():
        size = SIZES.get(array.element, 0)
        filled = {address for _, _, address, _, _ in stores[number]}
        whole = len(filled) == math.prod(array.shape) > 0
        if whole and all(bytes_ == size for _, _, _, bytes_, _ in stores[number]):
            found[array.name] = max(_largest(data, size) for *_, data in stores[number])
    return found


def _largest(data: Data | Greatest, size: int) -> int:
    """The largest absolute value that a store of `size` bytes may leave in memory."""
    if isinstance(data, Greatest):
        return 1 << (8 * size - 1)
    low = sum(-(1 << (8 * term.bytes - 1)) for term in data.terms)
    found = bounds(data.value, low, -low - len(data.terms))
    return min(max(map(abs, found)), 1 << (8 * size - 1))

"""What an analysis knows about the code and the data around a kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.native.conditions.call_graph import reached
from tilewright.native.conditions.listing import Listing

_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Names of functions and variables, as patterns that fit the whole name.

    Attributes:
        entries: functions that are called with addresses of arrays, and with sizes.
        launchers: functions that pass only such values on, as do functions that call one of them:
            what they read through a pointer is no data.
        without_data: functions outside the kernel whose results are addresses, or do not depend on
            memory.
        of_values: functions outside the kernel with at most four arguments that matter, all whole
            numbers, whose results depend on data only if one of these does.
        keep_memory: functions outside the kernel that write no data to an array of their caller.
        known: variables that contain no data.
        addresses: functions whose results are addresses.
        remembers: whether what a call leaves in static variables counts as data in later calls.
        only_own_lines: whether conditions count only if they have a line of the kernel's source.
            Of all others, the results are recorded like whole numbers.
        floats_in_memory: whether floats that are written to memory are recorded like whole numbers.
        sums_of_data: whether sums of two floats that both depend on data are recorded.
    """

    entries: re.Pattern[str]
    without_data: re.Pattern[str]
    launchers: re.Pattern[str] = _NOTHING
    of_values: re.Pattern[str] = _NOTHING
    keep_memory: re.Pattern[str] = _NOTHING
    known: re.Pattern[str] = _NOTHING
    addresses: re.Pattern[str] = _NOTHING
    remembers: bool = False
    only_own_lines: bool = False
    floats_in_memory: bool = True
    sums_of_data: bool = True


OF_C = Surroundings(
    entries=re.compile("kernel"),
    without_data=re.compile(r"mem(?:cpy|move|set)|omp_\w+|GOMP_\w+"),
    remembers=True,
)
"""A kernel in C, whose function `kernel` is called by the harness."""


def launchers_of(listing: Listing, around: Surroundings) -> set[str]:
    """The functions of a listing that only pass addresses and sizes on."""
    callers: dict[str, set[str]] = {}
    for name, function in listing.functions.items():
        for one in function.code:
            if one.name.startswith(("call", "jmp")) and one.operands:
                callers.setdefault(one.operands[0].partition("@")[0], set()).add(name)
    names = {*callers, *listing.functions}
    graph = {name: callers.get(name, set()) for name in names}
    return reached(graph, filter(around.launchers.fullmatch, names))

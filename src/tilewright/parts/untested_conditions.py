"""Why a kernel is refused that has conditions on input values with one result in all checks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.core.records import Failed, KernelLanguage

MORE_TURNS = 3
"""How often each distribution is drawn for a kernel that has untested conditions otherwise."""
UNTESTED = "untested_condition"
"""The kind of these failures."""
LOWEST = 256
"""Arrays of a GPU begin at multiples of this number, so smaller remainders of an address are the
same in each process."""
NO_SEQUENCE = 0
"""The hash of a sequence without values."""
Kind = Literal["condition", "number", "jump", "kept", "address", "distance"]
"""What was found: a condition that always had the same result, a number that is computed without a
condition and was always the same, a jump to an address that depends on input values, or any
condition or number that depends on what earlier calls kept, on an address, or on the distance
between two variables.
"""


@dataclass(frozen=True, slots=True)
class Untested:
    """A place of a kernel that no check has tested. `line` is its line of the source, if that is
    known.
    """

    line: int | None
    kind: Kind = "condition"


def is_same_in_all(sequences: Collection[int]) -> bool:
    """Whether an instruction had the same sequence of values in all calls, given a hash of the
    sequence of each call. False if there were no values in a call.
    """
    return len(set(sequences)) == 1 and NO_SEQUENCE not in sequences


def refusal(found: Sequence[Untested], calls: int, language: KernelLanguage) -> Failed:
    """The failure of a kernel with at least one untested condition after so many calls."""
    first = min(found, key=lambda one: (one.kind != "jump", one.line or 1 << 30))
    more = len({one.line for one in found}) - 1
    others = f" ({more} further line{'s' * (more > 1)} as well)" * (more > 0)
    if first.kind == "jump":
        log = "the kernel jumps to an address that depends on input values."
    elif first.kind == "address":
        log = (
            "a condition or a number depends on the address of an array, a variable, a stream or "
            f"an event, which is different in each process{others}. Of an address, test only "
            f"whether it is zero or divisible by at most {LOWEST}, and compare or subtract only "
            "addresses in the same array."
        )
    elif first.kind == "distance":
        log = (
            "a condition or a number depends on where the compiler has placed a variable, which "
            f"differs between the code that is examined and the code that is timed{others}. "
            "Compare or subtract only addresses in the same variable, and do not test the "
            "alignment of a variable."
        )
    elif first.kind == "kept":
        log = (
            "a condition or a number depends on what earlier calls left in memory, which changes "
            f"from call to call{others}. Compute the outputs of each call from its inputs only."
        )
    elif first.kind == "number":
        log = (
            f"a number is computed from input values without a condition, and was the same in all "
            f"{calls} calls on inputs of every distribution, or took the same values in the same "
            f"order in each call, so results with other values are untested{others}. Remove the "
            "special case."
        )
    else:
        log = (
            f"a condition depends on input values, and had the same result in all {calls} "
            f"calls on inputs of every distribution, or both results in the same order in each "
            f"call, so the code for other results is untested{others}. Remove the special case, "
            "or compute all elements in the same way."
        )
    return Failed("check", UNTESTED, language.located(log, first.line), first.line)


def accepted_because_of_start(
    log: str, start: str = "has an untested condition or cannot be examined"
) -> str:
    """The warning about a kernel that would have been refused with this log."""
    return f"Not refused, because the starting kernel {start}, too: {log}"


def unexamined(why: str, line: int | None = None) -> Failed:
    """The failure of a kernel that cannot be examined, for a reason that is a sentence."""
    log = f"the kernel could not be examined for conditions that its checks do not test: {why}"
    return Failed("check", UNTESTED, log, line)

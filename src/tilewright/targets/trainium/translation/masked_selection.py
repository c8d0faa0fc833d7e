"""Instructions under a comparison of indices that leaves no boxes of elements, such as a triangle.

NKI 2 has no masks. The instruction is executed for all elements, and `affine_select` sets the
elements outside of the mask to their previous values. This is possible if these values are a
constant. If they were never written, nothing else is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from tilewright.parts.languages.python import literal
from tilewright.targets.trainium.execution import BY_ELEMENT
from tilewright.targets.trainium.recording import Recorded
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.trace import Access
from tilewright.targets.trainium.translation.clipping import UntranslatableError, mask_of, places
from tilewright.targets.trainium.translation.lines import (
    COMPARISONS,
    Line,
    Value,
    line_of,
    lines,
)

_OPPOSITE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}


class Choosing:
    """The recorded instructions, of which some are executed for more elements than they were."""

    def __init__(self, entries: Sequence[Recorded]) -> None:
        self._entries = entries

    def lines(self, number: int, error: UntranslatableError) -> list[Line]:
        """The effect of instruction `number` as selections; raises `error` if this is not
        possible.
        """
        entry = self._entries[number]
        result = entry.writes[0]
        mask = mask_of(entry)
        plain = entry.instruction.opcode in BY_ELEMENT or (
            entry.instruction.opcode == "activation" and len(entry.writes) == 1
            and not entry.instruction.attributes.get("reduce_command")
        )  # fmt: skip
        if mask is None or mask.comparison is None or not plain or result.memory != "sbuf":
            raise error
        if not all(_is_inside(view) for view in (*entry.reads, *entry.writes)):
            raise error
        symbol, index = mask.comparison
        index = index.extended(len(result.shape))
        if not index.is_affine or len(index.steps) != len(result.shape):
            raise error
        writes = tuple(view.unmasked() for view in entry.writes)
        ((reads, written),) = places(replace(entry, mask=None, writes=writes))
        kept: object = entry.instruction.attributes.get("value")
        found: list[Line] = []
        if entry.instruction.opcode == "memset":
            symbol = _OPPOSITE[symbol]
        else:
            found += lines(entry, reads, written, None)
            content = self._content(number, entry.instruction.writes[0])
            if content is None:
                return found
            if content is False:
                raise error
            kept = content
        pairs = [[s, n] for s, n in zip(index.steps[1:], result.shape[1:], strict=True)]
        select: dict[str, Value | None] = {
            "dst": written[0], "pattern": str(pairs), "offset": int(index.offset),
            "channel_multiplier": str(index.steps[0]), "on_true_tile": written[0],
            "on_false_value": literal(kept), "cmp_op": f"nl.{COMPARISONS[symbol]}",
        }  # fmt: skip
        return [*found, line_of("affine_select", select)]

    def _content(self, number: int, region: Access) -> object:
        """The constant that a region contains; None if the region was never written, False for
        other data.
        """
        for at in reversed(self._writers.get(region.tensor.id, ())):
            if at >= number:
                continue
            entry = self._entries[at]
            for access in entry.instruction.writes:
                if access.tensor is not region.tensor or not _overlap(access, region):
                    continue
                is_fill = entry.instruction.opcode == "memset" and mask_of(entry) is None
                if is_fill and _covers(access, region):
                    return entry.instruction.attributes["value"]
                return False
        return None

    @cached_property
    def _writers(self) -> Mapping[int, Sequence[int]]:
        """The numbers of the instructions that write each tensor."""
        found: dict[int, list[int]] = {}
        for number, entry in enumerate(self._entries):
            for access in entry.instruction.writes:
                found.setdefault(access.tensor.id, []).append(number)
        return found


def _is_inside(view: View) -> bool:
    gather = view.gather
    return gather is None or gather.inside is None or bool(gather.inside.all())


def _overlap(one: Access, other: Access) -> bool:
    (first, end), (begin, stop) = one.span, other.span
    rows, others = _rows(one), _rows(other)
    return max(first, begin) < min(end, stop) and max(rows[0], others[0]) < min(rows[1], others[1])


def _covers(one: Access, other: Access) -> bool:
    """Whether a region without gaps contains all of another one."""
    (first, end), (begin, stop) = one.span, other.span
    rows, others = _rows(one), _rows(other)
    dense = one.pattern.run == one.pattern.elements and one.lanes in (1, one.partitions)
    return (
        dense and first <= begin and stop <= end and rows[0] <= others[0] and others[1] <= rows[1]
    )


def _rows(access: Access) -> tuple[int, int]:
    """First and one past the last partition."""
    return access.start_partition, access.start_partition + max(access.partitions, access.lanes)

"""The lines that differ between two texts, in bounded time: the texts may have hundreds of
thousands of lines, chosen so that an exact comparison would take hours.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_AT_ONCE = 250_000
"""Maximum number of pairs of lines that are compared exactly at once."""
_TOGETHER = 4_000_000
"""Maximum number of pairs of lines that are compared exactly in two texts."""


class LineChanges(SequenceMatcher[str]):
    """The changes between two sequences of lines, with the methods of `SequenceMatcher`.

    Long texts are first divided at lines that occur once in each of them. The changes between two
    such lines are exact if few lines are between them; otherwise, all lines between them count as
    changed.
    """

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__(None, (), ())
        self.a, self.b = before, after
        self.opcodes = _joined(_changes(before, after))


Change = tuple[str, int, int, int, int]


def _changes(before: Sequence[str], after: Sequence[str]) -> Iterator[Change]:
    left = _TOGETHER
    first, begin = 0, 0
    is_short = len(before) * len(after) <= _AT_ONCE
    anchors = [] if is_short else _anchors(before, after)
    for last, end in [*anchors, (len(before), len(after))]:
        pairs = (last - first) * (end - begin)
        if 0 < pairs <= min(_AT_ONCE, left):
            left -= pairs
            exact = SequenceMatcher(None, before[first:last], after[begin:end], autojunk=False)
            for what, i, j, k, m in exact.get_opcodes():
                yield what, first + i, first + j, begin + k, begin + m
        elif pairs or last > first or end > begin:
            what = "replace" if pairs else "delete" if last > first else "insert"
            yield what, first, last, begin, end
        if last < len(before):
            yield "equal", last, last + 1, end, end + 1
        first, begin = last + 1, end + 1


def _anchors(before: Sequence[str], after: Sequence[str]) -> list[tuple[int, int]]:
    """The equal lines at the beginning and at the end, and the most lines in the same order that
    occur once in each text between them.
    """
    shorter = min(len(before), len(after))
    head = 0
    while head < shorter and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < shorter - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    ends = len(before) - tail, len(after) - tail
    inside, other = before[head : ends[0]], after[head : ends[1]]
    times, other_times = Counter(inside), Counter(other)
    where = {line: at for at, line in enumerate(other)}
    pairs = [
        (at, where[line])
        for at, line in enumerate(inside)
        if times[line] == 1 and other_times[line] == 1
    ]
    between = [(head + at, head + place) for at, place in _longest_increasing(pairs)]
    return [
        *((at, at) for at in range(head)),
        *between,
        *((ends[0] + n, ends[1] + n) for n in range(tail)),
    ]


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The most pairs in order whose second numbers increase."""
    ends: list[int] = []  # for each length, the least second number with which a series ends
    last: list[int] = []  # and the index of its pair
    previous: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        previous.append(last[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            last.append(index)
        else:
            ends[length], last[length] = place, index
    found = []
    at = last[-1] if last else -1
    while at >= 0:
        found.append(pairs[at])
        at = previous[at]
    return found[::-1]


def _joined(changes: Iterator[Change]) -> list[Change]:
    """The changes without neighbours of the same kind."""
    found: list[Change] = []
    for what, first, last, begin, end in changes:
        if found and found[-1][0] == what:
            found[-1] = what, found[-1][1], last, found[-1][3], end
        else:
            found.append((what, first, last, begin, end))
    return found

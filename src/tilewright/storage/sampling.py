"""Which trials of a very long run are shown: reading a million of them would take minutes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from tilewright.storage.schema import trials

WHOLE = 20_000
"""Runs of so many trials are shown with all of them."""
SPREAD = 3_000
"""Trials at even distances that stand for the others of a longer run."""
NEWEST = 300
"""Trials at the end of such a run that are shown in any case."""
MOST = 12_000
"""Trials of a sample, with those that they were made from."""
AT_ONCE = 10_000
"""Values that one query names: SQLite takes 32,766 of them, PostgreSQL 65,535."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sample:
    """Trials of a run that stand for all of them, by their indices in ascending order.

    They are the start, each trial that was the fastest so far, trials at even distances, the
    newest ones, and all that these were made from. Of `total` trials, `correct` have a latency.
    """

    indices: tuple[int, ...]
    total: int
    correct: int


def in_parts(named: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """What one query names at a time."""
    return (named[at : at + AT_ONCE] for at in range(0, len(named), AT_ONCE))


def sample_of(connection: Connection, run_id: str) -> Sample | None:
    """The trials to show of a run; None where all of them are shown."""
    of_run = trials.c.run_id == run_id
    last = connection.execute(select(func.max(trials.c.index)).where(of_run)).scalar_one()
    if last is None or last < WHOLE:
        return None
    width = -(-(last + 1) // SPREAD)
    stretch = (trials.c.index // width).label("stretch")
    counted = connection.execute(
        select(stretch, func.min(trials.c.latency), func.count(trials.c.latency))
        .where(of_run, trials.c.index <= last)
        .group_by(stretch)
        .order_by(stretch)
    ).all()
    wanted = [0, *_fastest_so_far(connection, of_run, counted, width)]
    wanted += [number * width for number, _, _ in counted]
    wanted += range(last + 1 - NEWEST, last + 1)
    indices = _with_ancestors(connection, run_id, dict.fromkeys(wanted))
    return Sample(tuple(sorted(indices)), last + 1, sum(correct for _, _, correct in counted))


def ancestors_of(
    connection: Connection, run_id: str, candidate_ids: Iterable[str], known: Iterable[int]
) -> list[int]:
    """Indices of the first trials of these candidates and of all that they were made from.

    Those of `known` trials, whose ancestors are known as well, are left out.
    """
    found: dict[int, str | None] = {}
    seen, asked = set(known), set(candidate_ids)
    while asked:
        rows = _first_trials(connection, run_id, sorted(asked))
        new = {index: parent for index, parent in rows.values() if index not in seen}
        found |= new
        seen |= new.keys()
        asked = {parent for parent in new.values() if parent is not None}
    return sorted(found)


def _fastest_so_far(
    connection: Connection, of_run: Any, counted: Sequence[Any], width: int
) -> list[int]:
    """Trials that were faster than all before them, of which only few stretches have any."""
    best, found = float("inf"), []
    for number, fastest, _ in counted:
        if fastest is None or fastest >= best:
            continue
        wanted = (
            select(trials.c.index, trials.c.latency)
            .where(of_run, trials.c.index >= number * width, trials.c.index < (number + 1) * width)
            .order_by(trials.c.index)
        )
        for index, latency in connection.execute(wanted):
            if latency is not None and latency < best:
                best = latency
                found.append(index)
    return found


def _with_ancestors(connection: Connection, run_id: str, wanted: Iterable[int]) -> set[int]:
    """These trials and those they were made from; without those at the end that are too many."""
    order = list(wanted)
    by_index: dict[int, str | None] = {}
    for part in in_parts(order):
        by_index |= dict(
            tuple(row)
            for row in connection.execute(
                select(trials.c.index, trials.c.parent_id).where(
                    trials.c.run_id == run_id, trials.c.index.in_(part)
                )
            )
        )
    made_from: dict[str, tuple[int, str | None]] = {}
    asked = {parent for parent in by_index.values() if parent is not None}
    while asked and len(made_from) < MOST:
        found = _first_trials(connection, run_id, sorted(asked))
        made_from |= found
        asked = {p for _, p in found.values() if p is not None} - made_from.keys()
    chosen: set[int] = set()
    for index in order:
        chain = _chain(index, by_index[index], made_from) if index in by_index else None
        if chain is not None and len(chosen) + len(chain) <= MOST:
            chosen.update(chain)
    return chosen


def _chain(
    index: int, parent: str | None, made_from: Mapping[str, tuple[int, str | None]]
) -> list[int] | None:
    """A trial and all it was made from; None where that is not known to the end."""
    chain, passed = [index], set[str]()
    while parent is not None and parent not in passed:
        if parent not in made_from:
            return None
        passed.add(parent)
        index, parent = made_from[parent]
        chain.append(index)
    return chain


def _first_trials(
    connection: Connection, run_id: str, candidate_ids: Sequence[str]
) -> dict[str, tuple[int, str | None]]:
    """By candidate: its first trial in the run, and the candidate that it was made from."""
    # The run is compared here: asked for it as well, SQLite walks through all trials of the run.
    wanted = select(
        trials.c.candidate_id, trials.c.index, trials.c.parent_id, trials.c.run_id
    ).order_by(trials.c.index.desc())
    return {
        candidate_id: (index, parent_id)
        for part in in_parts(candidate_ids)
        for candidate_id, index, parent_id, of_run in connection.execute(
            wanted.where(trials.c.candidate_id.in_(part))
        )
        if of_run == run_id
    }

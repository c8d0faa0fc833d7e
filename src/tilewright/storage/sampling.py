"""Selects the trials of a very long run that are shown, because reading a million trials would take
minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sqlalchemy import Connection, func, select

from tilewright.storage.schema import trials

WHOLE = 20_000
"""Number of trials up to which all trials of a run are shown."""
SPREAD = 3_000
"""Number of evenly spaced trials in the sample of a longer run."""
NEWEST = 300
"""Number of the newest trials that are always in the sample."""
MOST = 12_000
"""Maximum number of trials of a sample, including the ancestors."""
AT_ONCE = 10_000
"""Maximum number of parameters of one query. SQLite allows 32,766, and PostgreSQL 65,535."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of a run's trials, by their indices in ascending order.

    It contains the starting kernel, each trial that was the fastest at its time, trials at even
    distances, the newest trials, and all ancestors of these. Of the run's `total` trials,
    `measured` have a latency.
    """

    indices: tuple[int, ...]
    total: int
    measured: int


def in_parts(named: Sequence[_T]) -> Iterator[Sequence[_T]]:
    """The values, divided into parts that are small enough for one query."""
    return (named[at : at + AT_ONCE] for at in range(0, len(named), AT_ONCE))


def sample_of(connection: Connection, run_id: str) -> Sample | None:
    """The sample of a run's trials; None if all trials are shown."""
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
    return Sample(tuple(sorted(indices)), last + 1, sum(measured for _, _, measured in counted))


def ancestors_of(
    connection: Connection, run_id: str, candidate_ids: Iterable[str], known: Iterable[int]
) -> list[int]:
    """Indices of the first trials of these candidates and of all their ancestors.

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
    """The trials that were faster than all earlier ones."""
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
    """These trials and their ancestors, without the last ones if there are too many."""
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
    """A trial and all its ancestors; None if an ancestor is not known."""
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
    """For each candidate, its first trial in the run, and the candidate from which it was made."""
    # The run is compared here, because with the comparison in the query, SQLite reads all trials of
    # the run.
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

"""An index of the kernels from which candidates can be made, in order, which a history updates."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush, merge
from itertools import islice
from typing import NamedTuple

from tilewright.core.records import Candidate, History, Measured, Trial

SAME_FAMILY = 0.005
"""Share of the latency below which the difference between related kernels makes them variations of
one kernel.
"""

_Place = tuple[float, int]
"""Latency and index of a trial, for sorting."""


class _Entry(NamedTuple):
    latency: float
    number: int
    binary: str
    family: str
    trial: Trial


class Ranking:
    """Measured kernels that are faster than their parents, the best first, in cells.

    Of kernels with the same binary, only the fastest trial is listed. A kernel and its children
    that are barely faster form a family, and so do equally fast kernels of one plan and all
    instances of one template. A template that is slower than its parent begins a family, because
    other values may be faster. Of a family, only the fastest kernel is listed. A kernel that is no
    longer listed is never listed again, so each cell is a heap from which outdated entries are
    removed when they reach its top.
    """

    def __init__(self, cell: Callable[[Trial], str] = lambda trial: "") -> None:
        self._cell = cell
        self._begins: dict[str, str] = {}  # kernel -> the first kernel of its family
        self._of_plan: dict[tuple[str, str], Trial] = {}
        self._fastest_binary: dict[str, _Place] = {}
        self._fastest_of_family: dict[str, _Place] = {}
        self._cells: dict[str, list[_Entry]] = {}

    def add(self, trial: Trial, history: History) -> None:
        """Take in the last trial of a history."""
        if trial.latency is None or not has_improved(trial, history):
            return
        binary, family = _binary(trial), self._family(trial, history)
        place = trial.latency, trial.index
        is_fastest = place < self._fastest_binary.get(binary, _LAST)
        if is_fastest:
            self._fastest_binary[binary] = place
        if place < self._fastest_of_family.get(family, _LAST):
            self._fastest_of_family[family] = place
        else:
            is_fastest = False
        if is_fastest:
            cell = self._cells.setdefault(self._cell(trial), [])
            heappush(cell, _Entry(*place, binary, family, trial))

    def best(self, count: int) -> list[Trial]:
        """The `count` best kernels of all cells."""
        ranked = merge(*(self._best_of(cell, count) for cell in self._cells.values()))
        return [entry.trial for entry in islice(ranked, count)]

    def best_of_cells(self, count: int) -> list[Trial]:
        """`count` kernels: the best one of each cell, in order of latency, and then the best of the
        others.
        """
        ranked = [self._best_of(cell, count) for cell in self._cells.values()]
        heads = sorted(entries[0] for entries in ranked if entries)
        others = sorted(entry for entries in ranked for entry in entries[1:])
        return [entry.trial for entry in (*heads, *others)[:count]]

    def _best_of(self, cell: list[_Entry], count: int) -> list[_Entry]:
        found: list[_Entry] = []
        while cell and len(found) < count:
            entry = heappop(cell)
            place = entry.latency, entry.number
            fastest = self._fastest_binary[entry.binary], self._fastest_of_family[entry.family]
            if fastest == (place, place):
                found.append(entry)
        for entry in found:
            heappush(cell, entry)
        return found

    def _family(self, trial: Trial, history: History) -> str:
        """The first candidate of the kernel's family."""
        candidate, plan = trial.candidate, trial.candidate.plan
        parent = history.get(candidate.parent_id or "")
        if plan is not None and plan.is_instance:
            first = str(plan.parameters["instance"])
            self._begins[candidate.id] = self._begins.get(first, first)
            return self._begins[candidate.id]
        if plan is not None and plan.brings_template and _is_slower(trial, parent):
            return self._begins.setdefault(candidate.id, candidate.id)
        relatives = [parent]
        if plan is not None:
            key = plan.parent_id, plan.base_text
            relatives.append(self._of_plan.setdefault(key, trial))
        near = [r.candidate.id for r in relatives if r is not None and _alike(trial, r)]
        begins = next((self._begins[r] for r in near if r in self._begins), candidate.id)
        self._begins[candidate.id] = begins
        return begins


_LAST: _Place = (float("inf"), 0)


def begins_anew(candidate: Candidate) -> bool:
    """Whether a candidate is kept even if it is slower than its parent, because it was written
    without the parent's schedule.

    This also applies to the first instance of a template, because other values may be much faster.
    """
    plan = candidate.plan
    return plan is not None and (plan.begins_anew or plan.brings_template)


def has_improved(trial: Trial, history: History) -> bool:
    """Whether a trial is the first one of its candidate, was measured, and is the starting kernel
    or faster than its parent.
    """
    if trial.latency is None or history.get(trial.candidate.id) is not trial:
        return False
    if begins_anew(trial.candidate):
        return True
    parent = history.get(trial.candidate.parent_id or "")
    limit = parent.latency if parent else None
    return limit is None or trial.latency < limit


def _alike(left: Trial, right: Trial) -> bool:
    faster, slower = sorted((left.latency or 0.0, right.latency or 0.0))
    return slower - faster < SAME_FAMILY * slower


def _is_slower(trial: Trial, other: Trial | None) -> bool:
    latency = other.latency if other is not None else None
    return latency is not None and (trial.latency or 0.0) >= latency


def _binary(trial: Trial) -> str:
    """The identity of a kernel: its binary, or its source if the binary is not known."""
    digest = trial.outcome.artifact_digest if isinstance(trial.outcome, Measured) else ""
    return digest or trial.candidate.id

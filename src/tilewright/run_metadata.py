"""Reads the data that are stored with a run in addition to its trials, such as baselines and
label.
"""

from __future__ import annotations

from tilewright.confirming import confirmed
from tilewright.core.records import Baseline, LeftAlone
from tilewright.core.roles import Storage
from tilewright.core.run_notes import Baselines, Label, Survey
from tilewright.search.summary import Summary, summarize


def baselines(storage: Storage, run_id: str) -> tuple[Baseline, ...]:
    """The baselines of a run; empty until its starting kernel has been measured."""
    found = storage.kept(run_id, Baselines)
    return found[0].kernels if found else ()


def left_alone(storage: Storage, run_id: str) -> tuple[LeftAlone, ...]:
    """The code of a run's starting kernel that the built-in rewriter does not understand."""
    found = storage.kept(run_id, Survey)
    return found[0].parts if found else ()


def label_of(storage: Storage, run_id: str) -> Label:
    """The last tags and note of a run."""
    return [Label(), *storage.kept(run_id, Label)][-1]


def summary_of(storage: Storage, run_id: str) -> Summary:
    """The summary of a run so far."""
    return summarize(
        storage.run(run_id),
        storage.history(run_id),
        baselines(storage, run_id),
        confirmed(storage, run_id),
        left_alone(storage, run_id),
    )

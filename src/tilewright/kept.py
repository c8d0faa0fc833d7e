"""What is kept of a run beside its trials, read back: baselines, what was left alone, its label."""

from __future__ import annotations

from tilewright.confirming import confirmed
from tilewright.core.records import Baseline, LeftAlone
from tilewright.core.roles import Storage
from tilewright.core.run_notes import Baselines, Label, Survey
from tilewright.search.summary import Summary, summarize


def baselines(storage: Storage, run_id: str) -> tuple[Baseline, ...]:
    """What a run is compared with; empty until its starting kernel is measured."""
    found = storage.kept(run_id, Baselines)
    return found[0].kernels if found else ()


def left_alone(storage: Storage, run_id: str) -> tuple[LeftAlone, ...]:
    """The code of a run's starting kernel that the built-in rewriter does not understand."""
    found = storage.kept(run_id, Survey)
    return found[0].parts if found else ()


def label_of(storage: Storage, run_id: str) -> Label:
    """What the user last said of a run."""
    return [Label(), *storage.kept(run_id, Label)][-1]


def summary_of(storage: Storage, run_id: str) -> Summary:
    """A run so far: its trials, what they are compared with, and what was confirmed."""
    return summarize(
        storage.run(run_id),
        storage.history(run_id),
        baselines(storage, run_id),
        confirmed(storage, run_id),
        left_alone(storage, run_id),
    )

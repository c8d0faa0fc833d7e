"""Roles of the storage of runs and of calls to models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from tilewright.core.records import CallRecord, History, Outcome, RunRecord, Trial
from tilewright.core.run_notes import Note, RunNote
from tilewright.core.tuning_records import TunedKernel


class Storage(Protocol):
    """Stores runs, trials, artifacts and cached outcomes. Data is durable when a call returns."""

    def create_run(self, run: RunRecord) -> None:
        """Record a new run."""
        ...

    def update_run(self, run_id: str, *, status: str, stop_reason: str, wall_s: float) -> None:
        """Set a run's status (running, finished, interrupted), stop reason and wall seconds."""
        ...

    def run(self, run_id: str) -> RunRecord:
        """The run with this id or prefix ("latest" for the newest), or `UnknownNameError`."""
        ...

    def runs(self) -> list[RunRecord]:
        """All runs, newest first."""
        ...

    def delete_run(self, run_id: str) -> None:
        """Remove the run with this full id and its own data; cached outcomes are kept."""
        ...

    def unfinished(self, identity: str) -> RunRecord | None:
        """The newest run with this identity that is not finished."""
        ...

    def append_trial(self, run_id: str, trial: Trial) -> None:
        """Append one trial; its index must be the next one."""
        ...

    def amend_trial(self, run_id: str, index: int, outcome: Outcome) -> None:
        """Replace the outcome of a trial, because a later check refuted or completed it."""
        ...

    def history(self, run_id: str) -> History:
        """All trials of a run."""
        ...

    def cached_outcome(self, key: str) -> Outcome | None:
        """Outcome stored under a content key, if any."""
        ...

    def store_outcome(self, key: str, outcome: Outcome) -> None:
        """Store an outcome under a content key.

        A stored outcome is kept. Only a lower bound ("slower_than_limit") is replaced, by a higher
        bound or by a complete outcome.
        """
        ...

    def put_artifact(self, data: bytes, kind: str) -> str:
        """Store bytes, and return their SHA-256, which identifies them."""
        ...

    def artifact(self, digest: str) -> bytes:
        """The bytes with this SHA-256. Raises `UnknownNameError` if none are stored."""
        ...

    def keep(self, run_id: str, note: RunNote) -> None:
        """Add a note to a run, after its earlier notes of the same class."""
        ...

    def kept(self, run_id: str, kind: type[Note]) -> list[Note]:
        """A run's notes of this class, oldest first."""
        ...

    def append_event(self, run_id: str, kind: str, data: Mapping[str, object]) -> None:
        """Append one line to a run's event log, with the current time."""
        ...

    def events(self, run_id: str) -> list[tuple[str, str, Mapping[str, object]]]:
        """A run's event log, oldest first: time (UTC, ISO 8601), kind, data."""
        ...

    def close(self) -> None:
        """Release the database. Idempotent."""
        ...


@runtime_checkable
class KeepsTunedKernels(Protocol):
    """A storage that also contains kernels of the tuner."""

    def tuned_kernels(self, workload: str, device: str) -> list[TunedKernel]:
        """For each method of search, the newest kernel of the runs with the most trials, by the
        tuner's name of the workload and the name of the GPU."""
        ...


class CallStore(Protocol):
    """Stores calls to models. Thread-safe; data is durable when a method returns."""

    def reply(self, key: str) -> Mapping[str, object] | None:
        """The recorded reply to this call, no matter which run of the project made the call."""
        ...

    def intend(self, call: CallRecord, request: Mapping[str, object]) -> None:
        """Record that a call is about to be made, in place of an earlier such record of the run."""
        ...

    def finish(self, call: CallRecord, reply: Mapping[str, object] | None) -> None:
        """Record how a call ended; `reply` is None if the call failed."""
        ...

    def annotate(self, run_id: str, key: str, note: str) -> None:
        """Record why the reply of a finished call could not be used."""
        ...

    def calls(self, run_id: str) -> list[CallRecord]:
        """A run's calls, in the order in which they were made."""
        ...

    def exchanges(
        self, run_id: str
    ) -> list[tuple[str, Mapping[str, object], Mapping[str, object]]]:
        """Key, request and reply of each answered call of a run, in the order of the calls."""
        ...

    def close(self) -> None:
        """Release the database. Idempotent."""
        ...

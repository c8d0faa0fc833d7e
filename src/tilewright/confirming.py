"""Evaluates a run's winner again on fresh inputs, and adds notes of the compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from tilewright.core.config import Settings
from tilewright.core.records import Failed, Measured, Trial
from tilewright.core.roles import Attackable, Checkpoint, ExplainsCode, Storage
from tilewright.core.run_notes import Rechecked
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.code_notes import with_notes
from tilewright.evaluation.screening import out_of_time, refutation
from tilewright.verification import as_winner, recheck

Notes = Callable[[str], tuple[str, ...]]
"""The notes of a compiler on a kernel, from its source."""


def confirmed(storage: Storage, run_id: str) -> str | None:
    """The id of the candidate that was confirmed as the run's best on fresh inputs, if any."""
    found = storage.kept(run_id, Rechecked)
    return found[-1].candidate if found and found[-1].confirmed else None


class Winner:
    """The fastest correct kernel of a run whose search has ended.

    Args:
        time_left: returns the remaining seconds of the run's budget; None without a time limit.
        checkpoint: called often while kernels are evaluated; an exception from it ends this.
    """

    def __init__(
        self,
        storage: Storage,
        run_id: str,
        opened: OpenTask,
        settings: Settings,
        time_left: Callable[[], float | None],
        checkpoint: Checkpoint,
    ) -> None:
        self._storage = storage
        self._run_id = run_id
        self._opened = opened
        self._settings = settings
        self._time_left = time_left
        self._checkpoint = checkpoint

    def confirm(self) -> None:
        """Evaluate the winner again on fresh inputs. If it fails, evaluate the next best kernel,
        and so on.

        If latencies vary, the second measurement replaces the first, because the best of many noisy
        measurements looks better than it is. If another kernel is then the fastest, it is evaluated
        again too, or left out if the budget does not allow this.
        """
        if not isinstance(self._opened.task, Attackable):
            return  # its inputs may not be derived from a seed
        held: set[str] = set()
        took_s = 0.0
        while (best := self._storage.history(self._run_id).best) is not None:
            if best.index == 0 or confirmed(self._storage, self._run_id) == best.candidate.id:
                return
            if best.candidate.id in held:
                self._storage.keep(self._run_id, Rechecked(best.candidate.id, confirmed=True))
                return
            assert isinstance(best.outcome, Measured)
            if held and self._ends_within(took_s):
                self._refute(best, out_of_time(best.outcome))
                continue
            began = monotonic()
            settings = as_winner(self._settings.recorded())
            again = recheck(
                self._opened.name, settings, best.candidate, checkpoint=self._checkpoint
            )
            took_s = monotonic() - began
            refuted = refutation(best.outcome, again)
            if refuted is not None:
                self._refute(best, refuted)
                continue
            note = Rechecked(best.candidate.id, confirmed=True)
            if isinstance(again, Measured) and again.quantity == "measured":
                held.add(best.candidate.id)
                note = replace(note, first=best.outcome)
                self._storage.amend_trial(self._run_id, best.index, again)
            self._storage.keep(self._run_id, note)

    def explain(self, create_notes: Callable[[], Notes]) -> None:
        """Add the compiler's notes on the winner to its feedback, if the target provides such
        notes.

        For other kernels, notes are made only if a model receives them. `create_notes` constructs
        the object that makes notes, if it is needed.
        """
        best = self._storage.history(self._run_id).best
        if best is None or not isinstance(best.outcome, Measured):
            return
        if not isinstance(self._opened.task, ExplainsCode) or self._ends_within(0.0):
            return
        notes = create_notes()(best.candidate.source)
        if notes and notes[-1] not in best.outcome.feedback:
            explained = with_notes(best.outcome, notes)
            self._storage.amend_trial(self._run_id, best.index, explained)

    def _refute(self, trial: Trial, why: Failed) -> None:
        """Record that a trial was not confirmed, and store its first measurement in a note."""
        note = Rechecked(trial.candidate.id, confirmed=False)
        if isinstance(trial.outcome, Measured):
            note = replace(note, refuted=trial.outcome)
        self._storage.amend_trial(self._run_id, trial.index, why)
        self._storage.keep(self._run_id, note)

    def _ends_within(self, seconds: float) -> bool:
        """Whether the wall-clock time of the budget will be used up within these seconds."""
        left_s = self._time_left()
        return left_s is not None and seconds > left_s

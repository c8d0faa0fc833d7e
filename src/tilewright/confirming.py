"""A run's winner: evaluated again on fresh inputs, and explained by its compiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from tilewright.core.config import Settings
from tilewright.core.records import Failed, Measured, Trial
from tilewright.core.roles import Attackable, ExplainsCode, Storage
from tilewright.core.run_notes import Rechecked
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.code_notes import with_notes
from tilewright.evaluation.screening import out_of_time, refutation
from tilewright.verification import as_winner, recheck

Notes = Callable[[str], tuple[str, ...]]
"""What a compiler says of a kernel, by its source."""


def confirmed(storage: Storage, run_id: str) -> str | None:
    """Id of the candidate that fresh inputs confirmed as the run's best, if any."""
    found = storage.kept(run_id, Rechecked)
    return found[-1].candidate if found and found[-1].confirmed else None


class Winner:
    """The fastest correct kernel of a run whose search is over.

    Args:
        time_left: seconds of the run's budget; None where it sets none.
    """

    def __init__(
        self,
        storage: Storage,
        run_id: str,
        opened: OpenTask,
        settings: Settings,
        time_left: Callable[[], float | None],
    ) -> None:
        self._storage = storage
        self._run_id = run_id
        self._opened = opened
        self._settings = settings
        self._time_left = time_left

    def confirm(self) -> None:
        """Evaluate the winner again on fresh inputs; one that fails gives way to the next best.

        Of a latency that varies, the second measurement is kept: the best of many noisy ones looks
        better than it is. Where another kernel is then ahead, that one is evaluated again too, and
        is out of the race if the budget does not allow for that.
        """
        if not isinstance(self._opened.task, Attackable):
            return  # its inputs are not known to follow from a seed
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
            again = recheck(self._opened.name, settings, best.candidate)
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

    def explain(self, asking: Callable[[], Notes]) -> None:
        """Add to the winner's feedback what the compiler says of it, where the target tells that.

        No other kernel of the run pays for it, but those that a model is asked about. `asking`
        starts what asks the compiler, where that is needed.
        """
        best = self._storage.history(self._run_id).best
        if best is None or not isinstance(best.outcome, Measured):
            return
        if not isinstance(self._opened.task, ExplainsCode) or self._ends_within(0.0):
            return
        notes = asking()(best.candidate.source)
        if notes and notes[-1] not in best.outcome.feedback:
            explained = with_notes(best.outcome, notes)
            self._storage.amend_trial(self._run_id, best.index, explained)

    def _refute(self, trial: Trial, why: Failed) -> None:
        """Record that a trial's speed was not borne out; what it was measured with is noted."""
        note = Rechecked(trial.candidate.id, confirmed=False)
        if isinstance(trial.outcome, Measured):
            note = replace(note, refuted=trial.outcome)
        self._storage.amend_trial(self._run_id, trial.index, why)
        self._storage.keep(self._run_id, note)

    def _ends_within(self, seconds: float) -> bool:
        """Whether the wall time of the budget will then be over."""
        left_s = self._time_left()
        return left_s is not None and seconds > left_s

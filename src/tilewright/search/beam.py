"""Beam search: the B best kernels that each improved on their parent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.core.records import History, Measured, Trial

SAME_FAMILY = 0.005
"""A difference in latency, as a share, below which relatives count as variations of one kernel."""


@dataclass(frozen=True, slots=True)
class BeamSearch:
    """The `SearchStrategy` of plan-then-implement beam search; a pure function of the history.

    Attributes:
        width: B, parents kept.
        iterations: T, iterations at most (they count from 1; the starting kernel is 0).
        patience: stop when the best kernel did not improve for this many iterations. One whose
            parents gave no new candidate does not count: it cost nothing and tried nothing. Twice
            as many of those in a row end the search too.
    """

    width: int = 6
    iterations: int = 15
    patience: int = 4

    def select(self, history: History) -> list[Trial]:
        """The beam, best first: measured kernels that improved on their parent.

        Earlier members compete again, so the best kernel never leaves the beam. Kernels with
        the same binary are the same kernel: the first one stands for all. A kernel and the
        children that are barely faster are one family, and so are equally fast kernels of one
        plan: the fastest stands for all, so that variations of one idea do not fill the beam.
        """
        improved = _improved(history)
        families = _families(improved, history)
        kept: list[Trial] = []
        seen: set[str] = set()
        for trial in sorted(improved, key=lambda t: (t.latency, t.index)):
            marks = {_binary(trial), families[trial.candidate.id]}
            if not marks & seen:
                kept.append(trial)
            seen |= marks
        return kept[: self.width]

    def limit_latency(self, parent: Trial) -> float | None:
        """The parent's latency: a child that does not beat it is not kept."""
        return parent.latency

    def should_stop(self, history: History, iteration: int) -> str | None:
        """Why the search is over before `iteration` starts, or None."""
        if iteration > self.iterations:
            return f"all {self.iterations} iterations done"
        best = history.best
        since = {t.iteration for t in history if best and t.iteration > best.iteration}
        if len(since) >= self.patience:
            return f"no better kernel for {self.patience} iterations"
        idle = iteration - 1 - max((t.iteration for t in history), default=0)
        if idle >= 2 * self.patience:
            return f"nothing new was proposed for {idle} iterations"
        return None


def _improved(history: History) -> list[Trial]:
    """First trials of measured kernels that are a start or faster than their parent."""
    found: list[Trial] = []
    for trial in history:
        if trial.latency is None or history.get(trial.candidate.id) is not trial:
            continue
        parent_id = trial.candidate.parent_id
        parent = history.get(parent_id) if parent_id else None
        limit = parent.latency if parent else None
        if limit is None or trial.latency < limit:
            found.append(trial)
    return found


def _families(improved: Sequence[Trial], history: History) -> dict[str, str]:
    """The candidate that begins each kernel's family, by candidate; parents come first."""
    begins: dict[str, str] = {}
    of_plan: dict[tuple[str, str], Trial] = {}
    for trial in improved:
        candidate = trial.candidate
        relatives = [history.get(candidate.parent_id or "")]
        if candidate.plan is not None:
            plan = candidate.plan.parent_id, candidate.plan.text
            relatives.append(of_plan.setdefault(plan, trial))
        near = [r for r in relatives if r is not None and _alike(trial, r)]
        own = candidate.id
        begins[own] = next((begins[r.candidate.id] for r in near if r.candidate.id in begins), own)
    return begins


def _alike(left: Trial, right: Trial) -> bool:
    faster, slower = sorted((left.latency or 0.0, right.latency or 0.0))
    return slower - faster < SAME_FAMILY * slower


def _binary(trial: Trial) -> str:
    """What makes two kernels the same: the binary, or the source where none is known."""
    digest = trial.outcome.artifact_digest if isinstance(trial.outcome, Measured) else ""
    return digest or trial.candidate.id

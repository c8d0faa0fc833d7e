"""Lists the changes that have helped in a run so far, and those that failed, from all authors."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core.records import Trial
from tilewright.tools.comparing import attempt
from tilewright.tools.records import Attempt
from tilewright.tools.text import attempt_text

MOST_TOLD = 8
"""Maximum number of changes that made kernels faster, and of those that did not."""


def findings(trials: Sequence[Trial]) -> str:
    """The changes with the largest gains over their parents, and the latest changes that failed.

    Empty if nothing was tried yet.
    """
    by_id = {trial.candidate.id: trial for trial in trials}
    made = [
        attempt(trial, by_id[trial.candidate.parent_id])
        for trial in by_id.values()
        if trial.candidate.parent_id in by_id
    ]
    paid = sorted((a for a in made if a.share is not None and a.share < 0), key=_share)
    failed = [a for a in made if a.latency is None]
    return "\n".join(
        [
            *_listed(
                "Changes that made kernels faster, the largest gains first:", paid[:MOST_TOLD]
            ),
            *_listed("Changes that failed, the latest last:", failed[-MOST_TOLD:]),
        ]
    )


def _share(one: Attempt) -> float:
    return one.share or 0.0


def _listed(title: str, attempts: Sequence[Attempt]) -> list[str]:
    return [title, *(f"- {attempt_text(one)}" for one in attempts)] if attempts else []

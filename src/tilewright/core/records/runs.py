"""The data that a run stores in addition to its trials: its identity, and its calls to language
models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tilewright.core.records.identity import content_id

NOTHING_WORTHWHILE = "nothing worthwhile"
"""How the note on a reply begins in which a model says that it expects no change to help."""


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The identity of a run: its task, its settings, and the versions that produced it.

    `task` is the workload's registered name or the folder. `settings` contains the complete
    configuration (compatible with JSON). `identity` is a hash of the task and the configuration, so
    that the same command finds its run again.
    """

    id: str
    task: str
    target: str
    settings: Mapping[str, object]
    versions: Mapping[str, str]
    created_at: str
    status: Literal["running", "finished", "interrupted"] = "running"
    stop_reason: str = ""
    wall_s: float = 0.0

    @property
    def identity(self) -> str:
        """Hash of task and settings."""
        return content_id(self.task, repr(sorted(self.settings.items(), key=lambda kv: kv[0])))


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call to a model, as a run stores it.

    Calls that are `cached` were answered with the reply of an earlier run, and cost nothing. Tokens
    and dollars are None if they are unknown. `counted_usd` and `counted_tokens` are the amounts
    that the budget counted, which are the real or the reserved amounts. If a run has stopped
    and a call is still "intended", the call was in progress, and cost at most the counted amounts.
    `served_by` is the name that the model gives itself. `note` says why the call failed or why its
    reply gave no plan or kernel, and begins with `NOTHING_WORTHWHILE` if the model expects no gain.
    """

    run_id: str
    key: str
    model: str
    phase: str
    state: Literal["intended", "replied", "failed"] = "intended"
    cached: bool = False
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    usd: float | None = None
    counted_usd: float = 0.0
    counted_tokens: int = 0
    served_by: str = ""
    attempts: int = 1
    note: str = ""

    @property
    def is_unused(self) -> bool:
        """Whether a reply was not accepted. The answer that no change is worth making is used: it
        ends the work on a kernel."""
        refused = self.note and not self.note.startswith(NOTHING_WORTHWHILE)
        return self.state == "replied" and bool(refused)

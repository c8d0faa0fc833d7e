"""Whether a task and a result hold: attacks on the task before a run, fresh checks after it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, WorkloadError
from tilewright.core.records import AttackResult, content_id
from tilewright.core.roles import Attackable
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluation.preflight.examine import VERSION, refusal
from tilewright.evaluation.preflight.session import preflight as examine


def preflight(task: str, settings: Settings) -> tuple[str, list[AttackResult]]:
    """The task's full name, and what its own check makes of deliberately wrong kernels."""
    opened = open_task(task, settings.recorded())
    if not isinstance(opened.task, Attackable):
        raise InputError(
            f"tasks of target {opened.target.name} cannot be examined: the target does not open "
            "its comparisons (the role Attackable)."
        )
    return opened.name, examine(opened.name, settings.recorded())


def require_preflight(
    opened: OpenTask, settings: Settings, project: Path, versions: Mapping[str, str]
) -> None:
    """Examine a task once per project; `WorkloadError` if its check accepts a wrong kernel."""
    from tilewright.storage.project import passed_preflight, remember_preflight

    if not isinstance(opened.task, Attackable):
        return
    inputs = (settings.input_seed, settings.checks)
    key = content_id(opened.name, VERSION, repr(sorted(versions.items())), repr(inputs))
    if passed_preflight(project, key):
        return
    problem = refusal(opened.name, examine(opened.name, settings.recorded()))
    if problem is not None:
        raise WorkloadError(f"{problem} See all attacks: tilewright preflight {opened.name}")
    remember_preflight(project, key)

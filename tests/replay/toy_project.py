"""A project in which the toy kernel is optimised, by a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tilewright.core.records import Trial
from tilewright.storage.project import open_project

SCRIPT = Path(__file__).with_name("toy_run.py")


def start(project: Path, seed: int, delay_s: float) -> subprocess.Popen[str]:
    project.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPT), str(project), str(seed), str(delay_s)]
    return subprocess.Popen(
        [*command, str(project / "log")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def recorded(project: Path) -> list[Trial]:
    """Trials of the project's first run, without what may differ: seconds and cache hits.

    A process that starts after its run was finished repeats it from the cache; all must be equal.
    """
    storage = open_project(project)
    histories = []
    for run in storage.runs():
        assert run.status == "finished"
        trials = storage.history(run.id)
        histories.append([Trial(t.index, t.iteration, t.candidate, t.outcome) for t in trials])
    storage.close()
    assert all(history == histories[0] for history in histories[1:])
    return histories[-1]

"""Optimises the toy kernel in a process of its own: toy_run.py PROJECT SEED DELAY_S LOG.

Every kernel that is evaluated (not looked up) is a line of LOG, written after its outcome is
stored.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from tilewright import run, session
from tilewright.core import plugins, tasks
from tilewright.core.config import Settings
from tilewright.core.roles import Executor, Storage
from tilewright.core.tasks import OpenTask
from tilewright.testing.toy import ToyExecutor, ToyProposer, ToyTarget

SETTINGS = {"beam": 3, "plans": 4, "iterations": 5}


def enter(delay_s: str, log: str) -> None:
    """Let this process open, propose and evaluate nothing but the toy."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell ignores it
    lines = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def create_executor(
        opened: OpenTask, settings: object, workers: int | None, storage: Storage | None
    ) -> Executor:
        assert storage is not None
        return ToyExecutor(
            delay_s=float(delay_s),
            lookup=storage.cached_outcome,
            store=storage.store_outcome,
            on_evaluated=lambda source: os.write(lines, f"{source}\n".encode()) and None,
        )

    tasks.load_target = lambda name: ToyTarget()
    plugins.load_proposer = lambda name: ToyProposer()
    session.create_executor = create_executor


def main(project: str, seed: str, delay_s: str, log: str) -> None:
    enter(delay_s, log)
    settings = Settings(seed=int(seed), **SETTINGS)
    summary = run.optimize("toy:digits", settings, project=Path(project))
    print(summary.status, summary.stop_reason, sep=": ")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Stops runs with an interrupt, as Ctrl-C does, and resumes them in a separate process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Thread

from tilewright.core.errors import InputError, StorageError
from tilewright.core.records import RunRecord
from tilewright.run import standing
from tilewright.storage.lock import take
from tilewright.storage.project import FOLDER, run_lock

EARLY_S = 3.0
"""Seconds within which a run that cannot be resumed prints an error."""
_LAST = 600
"""Number of characters of this error that are shown."""


def stop(folder: Path, run: RunRecord) -> None:
    """Interrupt the process that works on a run; `InputError` if there is no such process.

    The run ends with its best kernel so far, and can be resumed.
    """
    if standing(folder, run) != "running":
        raise InputError(f"run {run.id} is not running: there is nothing to stop.")
    lock = run_lock(folder, run.identity)
    process = lock.holder()
    if process is None:
        raise InputError(
            f"process {lock.where() or 'unknown'} works on run {run.id}, but it cannot be "
            "identified from here: it may be on another machine, in a container, or of another "
            "project folder. End it with Ctrl-C where it was started."
        )
    if _ignores_interrupts(process):
        raise InputError(
            f"process {process} ignores interrupts, like every program that a script starts in the "
            f"background. End it with `kill {process}`; you can then resume the run."
        )
    os.kill(process, signal.SIGINT)


def resume(folder: Path, run: RunRecord) -> None:
    """Start `tilewright runs resume` in a separate process, which continues after this process has
    ended.

    Does nothing while a process that this started earlier still runs. Raises `InputError` with its
    output if it ends immediately.
    """
    if standing(folder, run) not in ("interrupted", "killed"):
        raise InputError(f"run {run.id} is not interrupted: there is nothing to resume.")
    log = folder / FOLDER / "serve" / f"{run.id}.log"
    words = ("-m", "tilewright.cli", "runs", "resume", run.id, "--no-color")
    try:
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            # The lock is the process's own as soon as that has the open file, and ends with it.
            if not take(output.fileno()):
                return
            output.truncate(0)
            process = subprocess.Popen(
                [sys.executable, "-P", *words, "--project", str(folder.resolve())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise StorageError(f"run {run.id} cannot be resumed: {error}.") from error
    try:
        code = process.wait(EARLY_S)
    except subprocess.TimeoutExpired:
        Thread(target=process.wait, daemon=True).start()  # so that it does not stay as a zombie
        return
    if code:
        said = log.read_text(errors="replace").strip()[-_LAST:]
        raise InputError(f"run {run.id} did not continue: {said or f'exit code {code}'}")


def _ignores_interrupts(process: int) -> bool:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith("SigIgn:")]
    return bool(masks and masks[0] >> (signal.SIGINT - 1) & 1)

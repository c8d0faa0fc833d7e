"""Stops runs through their database, and resumes them in a separate process."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Thread

from tilewright.core.errors import InputError, StorageError
from tilewright.core.records import RunRecord
from tilewright.run import open_project, standing
from tilewright.stopping import request_stop
from tilewright.storage.lock import take
from tilewright.storage.project import FOLDER

EARLY_S = 3.0
"""Seconds within which a run that cannot be resumed prints an error."""
_LAST = 600
"""Number of characters of this error that are shown."""


def stop(folder: Path, run: RunRecord) -> None:
    """Ask the process that works on a run to stop; `InputError` if there is no such process.

    The run ends with its best kernel so far, and can be resumed.
    """
    if standing(folder, run) != "running":
        raise InputError(f"run {run.id} is not running: there is nothing to stop.")
    with closing(open_project(folder)) as storage:
        request_stop(storage, run.id)


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

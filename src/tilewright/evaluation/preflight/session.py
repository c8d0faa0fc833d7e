"""Tests a task in a worker process, because the test runs user code and hostile kernels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.core.codec import from_json
from tilewright.core.errors import InternalError, WorkloadError
from tilewright.core.records import AttackResult
from tilewright.core.roles import Checkpoint
from tilewright.evaluation.local import CHECKPOINT_EVERY_S, START_TIMEOUT_S, readable
from tilewright.evaluation.replies import raised
from tilewright.evaluation.timeouts import Allowance, load_in_words
from tilewright.evaluation.worker_process import WorkerProcess, start_worker

TIMEOUT_S = 600.0
"""Time limit in seconds, which suffices for a large workload with a slow reference."""
_SHOWN = 300
"""Number of characters of the process's last line of output that a message shows."""


def preflight(
    task: str, settings: Mapping[str, object], checkpoint: Checkpoint | None = None
) -> list[AttackResult]:
    """The result of every attack on the task with this name; see `examine`.

    An exception from `checkpoint` ends the test.
    """
    worker = start_worker(task, settings)
    log = ""
    try:
        worker.send({"open": {"task": task, "settings": dict(settings)}})
        _answer(worker, task, START_TIMEOUT_S, checkpoint)
        worker.send({"preflight": {}})
        return list(from_json(_answer(worker, task, TIMEOUT_S, checkpoint)["preflight"]))
    except EOFError:
        pass  # it ended without a result
    finally:
        log = worker.kill()
    what = f"the process that examined {task} {worker.exit_text}"
    said = [line.strip() for line in log.splitlines() if line.strip()]
    if said:
        what += f" (its last output: {said[-1][:_SHOWN].rstrip('.')})"
    if Path(task).is_absolute():
        raise WorkloadError(
            f"{what}. If its reference ends the process that calls it, or needs more memory than "
            "this machine has, correct the reference; otherwise, report a defect."
        )
    raise InternalError(f"{what}. Please report this defect.")


def _answer(
    worker: WorkerProcess, task: str, timeout_s: float, checkpoint: Checkpoint | None
) -> Mapping[str, Any]:
    allowance = Allowance(timeout_s)
    while not readable([worker], CHECKPOINT_EVERY_S):
        if checkpoint is not None:
            checkpoint()
        if not allowance.is_used():
            continue
        raise WorkloadError(
            f"the examination of {task} took more than {timeout_s:g} s (load of the machine: "
            f"{load_in_words()}). Make its reference faster, or its shapes smaller."
        )
    reply: Mapping[str, Any] = worker.receive()
    if "error" in reply:
        raise raised(reply["error"])
    return reply

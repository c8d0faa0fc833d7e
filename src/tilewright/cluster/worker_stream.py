"""Notices that a worker no longer receives the messages of its scheduler.

The stream from the scheduler to a worker may stop although both run normally, for instance because
the clock of the scheduler's machine was set back. The worker then ends, and another one connects.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Worker

ASK_EVERY_S = 10.0
"""Seconds between two questions to the scheduler about the messages of this worker."""
ANSWER_S = 30.0
"""Maximum number of seconds for its answer."""


async def silence(worker: Worker) -> None:
    """Return when the scheduler has said twice that this worker works on a message which the worker
    has not received.
    """
    missing: set[str] = set()
    while True:
        await asyncio.sleep(ASK_EVERY_S)
        try:
            question = worker.scheduler.processing(workers=[worker.address])
            answer = await asyncio.wait_for(question, ANSWER_S)
        except Exception:  # dask itself notices when a scheduler ends
            missing = set()
            continue
        listed = {key for keys in answer.values() for key in keys}
        before, missing = missing, {key for key in listed if key not in worker.state.tasks}
        if before & missing:
            return

"""Receives the answers to the messages of a search, and reports messages without an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed import Client, Future


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a message: its bytes, and the worker that sent it."""

    key: str
    message: object
    worker: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A message that will not be answered. `died` is true if its workers ended one after another.
    `worker` is then the last of them, or else the one whose answer was lost, or "" if it is not
    known.
    """

    key: str
    died: bool
    worker: str = ""


Report = Callable[[Answered | Lost], None]


async def fetch_all(
    client: Client, futures: Sequence[Future[bytes]], report: Report, identify: bool
) -> None:
    """Fetch the answers to these messages as they arrive. Answers that have arrived at the same
    time are fetched together.

    If `identify` is true, the scheduler is asked for the worker that sent each answer.
    """
    from distributed import as_completed

    completed = as_completed(futures, loop=client.loop)
    try:
        async for first in completed:
            ready = [first, *completed.next_batch(block=False)]
            await _fetch(client, ready, report, identify)
    except Exception:  # an error of dask; `Connection.receive` ignores what was reported before
        for future in futures:
            report(Lost(str(future.key), died=False))


async def _fetch(
    client: Client, ready: Sequence[Future[bytes]], report: Report, identify: bool
) -> None:
    futures = {str(future.key): future for future in ready}
    status = {key: future.status for key, future in futures.items()}
    finished = {str(f.key): f for f in ready if f.status == "finished"}
    answers: Mapping[str, object] = {}
    holders: Mapping[str, Sequence[str]] = {}
    if finished:
        with suppress(Exception):  # then they are lost, which is reported below
            if identify:
                holders = await client.scheduler.who_has(keys=list(finished))
            answers = await _gathered(client, list(finished))
    for key, known in status.items():
        worker = next(iter(holders.get(key, ())), "")
        if known == "error":
            last = await _last_worker(futures[key])
            report(Lost(key, died=True, worker=last if identify else ""))
        elif answers.get(key) is None or (identify and not worker):
            # without a worker, the origin of the answer is unknown
            report(Lost(key, died=False, worker=worker))
        else:
            report(Answered(key, answers[key], worker))


async def _gathered(client: Client, keys: list[str]) -> Mapping[str, object]:
    """The answers to these messages, without those that cannot be fetched.

    The client's own `gather` would ask for an answer that a worker sends in a form which is refused
    again and again, and for all others together with it.
    """
    response = await client.scheduler.gather(keys=keys)
    if response["status"] != "OK":
        rest = sorted(set(keys) - set(response["keys"]))
        response = await client.scheduler.gather(keys=rest) if rest else {"data": {}}
    found: Mapping[str, object] = response.get("data", {})
    return found


async def _last_worker(future: Future[bytes]) -> str:
    """The last worker that ended while it had this message."""
    from distributed.scheduler import KilledWorker

    error = await future.exception(asynchronous=True)
    return str(error.last_worker.address) if isinstance(error, KilledWorker) else ""

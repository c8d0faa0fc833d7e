"""The connection of a search to a scheduler, which sends messages, receives answers and lists the
workers.

`distributed` transports bytes and chooses the worker that receives them. Only the client's own
thread waits for the network; the thread of the search only reads a queue.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from typing import TYPE_CHECKING, Any

from tilewright.cluster.identity import read_identity
from tilewright.cluster.remote import evaluate
from tilewright.cluster.settings import require_distributed, security
from tilewright.core.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

AWAY_S = 30.0
"""Seconds for which a scheduler may be unavailable before a search ends."""
LOOK_EVERY_S = 1.0
"""Minimum number of seconds between two requests for the list of workers."""
ASK_S = 5.0
"""Maximum number of seconds for the answer of a scheduler about single messages."""
LOOKED_AT = 100
"""Maximum number of workers per second about which the scheduler is asked, because its answers grow
with their number.
"""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """The information of the scheduler about one worker process."""

    address: str
    host: str
    threads: int
    offers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Answered:
    """The answer to a message: its bytes, and the worker that sent it."""

    key: str
    message: object
    worker: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A message that will not be answered. `died` is true if its workers ended one after
    another; `worker` is then the last of them, or "" if it is not known.
    """

    key: str
    died: bool
    worker: str = ""


class Connection:
    """A connection to the scheduler at `address` ("tcp://HOST:PORT"); `ClusterError` if no
    scheduler answers.

    Args:
        address: the address with its protocol.
        shown: the name of the scheduler in messages.
        identify: ask the scheduler for the worker that sent each answer, which costs one request
        per answer.
    """

    def __init__(self, address: str, shown: str, *, identify: bool = False) -> None:
        require_distributed()
        from distributed import Client

        # No SimpleQueue: in CPython its `get` with a short time-out can wait forever.
        self._arrived = Queue[Answered | Lost]()
        self._workers: tuple[WorkerInfo, ...] = ()
        self._identify = identify
        self._futures: dict[str, Future[bytes] | None] = {}
        self._session = secrets.token_hex(6)
        self._sent = 0
        read_identity(address, shown, workers=0)
        try:
            self._client: Client = Client(
                address, timeout=AWAY_S, security=security(), set_as_default=False
            )
        except (OSError, ValueError, RuntimeError) as error:
            raise ClusterError(
                f"the scheduler at {shown} does not answer like a dask scheduler "
                f"({_first_line(error)}). Correct the address."
            ) from error
        self._loop = self._client.loop.asyncio_loop
        self._looking = asyncio.run_coroutine_threadsafe(self._look(), self._loop)

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler is unavailable."""
        return bool(self._client.status != "running")

    @property
    def workers(self) -> tuple[WorkerInfo, ...]:
        """The workers of a moment ago; empty while the scheduler is unavailable."""
        return () if self.is_lost else self._workers

    def send(
        self,
        messages: Sequence[bytes],
        needs: Mapping[str, float],
        among: Iterable[str] | None = None,
    ) -> list[str]:
        """Send messages to workers that offer the required resources, and return the keys of the
        messages.

        If `among` is given, only these workers or hosts may answer.
        """
        keys = [f"tilewright-{self._session}-{self._sent + n}" for n in range(len(messages))]
        self._sent += len(messages)
        try:
            futures = self._client.map(
                evaluate,
                messages,
                key=keys,
                resources=dict(needs) or None,
                workers=None if among is None else sorted(among),
                pure=False,
            )
        except (OSError, RuntimeError):  # the scheduler ended at this moment
            self._futures.update(dict.fromkeys(keys))
            for key in keys:
                self._arrived.put(Lost(key, died=False))
            return keys
        self._futures.update(zip(keys, futures, strict=True))
        asyncio.run_coroutine_threadsafe(self._fetch_all(futures), self._loop)
        return keys

    def receive(self, timeout_s: float) -> list[Answered | Lost]:
        """The answers that have arrived. Waits for the first one up to this number of seconds."""
        found = list[Answered | Lost]()
        with suppress(Empty):
            found.append(self._arrived.get(timeout=timeout_s))
            while True:
                found.append(self._arrived.get_nowait())
        wanted = []
        for item in found:
            if item.key in self._futures:
                del self._futures[item.key]  # the scheduler may forget the worker
                wanted.append(item)
        return wanted

    def holders(self, keys: Iterable[str]) -> dict[str, str]:
        """The workers that have these messages and have not answered them, by the message. Asks the
        scheduler; empty if it does not answer.
        """
        wanted = set(keys)
        asked = asyncio.run_coroutine_threadsafe(self._held(), self._loop)
        try:
            held = asked.result(ASK_S)
        except Exception:  # the scheduler has ended, or is overloaded
            asked.cancel()
            return {}
        return {key: worker for worker, found in held.items() for key in wanted.intersection(found)}

    async def _held(self) -> Mapping[str, Sequence[str]]:
        held: Mapping[str, Sequence[str]] = await self._client.scheduler.processing(workers=None)
        return held

    def give_up(self, keys: Iterable[str]) -> None:
        """Cancel these messages, and end their evaluations."""
        futures = [self._futures.pop(key, None) for key in keys]
        with suppress(Exception):  # if the scheduler cannot be reached, there is nothing to end
            if not self.is_lost:
                self._client.cancel([future for future in futures if future is not None])

    def close(self) -> None:
        """Close the connection. May be called again."""
        self._futures.clear()
        self._looking.cancel()
        with suppress(Exception):
            self._client.close(timeout=2)

    async def _look(self) -> None:
        while True:
            with suppress(Exception):  # whatever happens, the next attempt may succeed
                info = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), AWAY_S)
                self._workers = tuple(map(_worker, info["workers"].values()))
            await asyncio.sleep(max(LOOK_EVERY_S, len(self._workers) / LOOKED_AT))

    async def _fetch_all(self, futures: Sequence[Future[bytes]]) -> None:
        """Fetch the answers to the messages of one call of `send` as they arrive. Answers that have
        arrived at the same time are fetched together.
        """
        from distributed import as_completed

        completed = as_completed(futures, loop=self._client.loop)
        try:
            async for first in completed:
                await self._fetch([first, *completed.next_batch(block=False)])
        except Exception:  # an error of dask; `receive` ignores what was reported before
            for future in futures:
                self._arrived.put(Lost(str(future.key), died=False))

    async def _fetch(self, ready: Sequence[Future[bytes]]) -> None:
        futures = {str(future.key): future for future in ready}
        status = {key: future.status for key, future in futures.items()}
        finished = {str(f.key): f for f in ready if f.status == "finished"}
        answers: Mapping[str, object] = {}
        holders: Mapping[str, Sequence[str]] = {}
        if finished:
            with suppress(Exception):  # then they are lost, which is reported below
                if self._identify:
                    holders = await self._client.scheduler.who_has(keys=list(finished))
                answers = await self._client.gather(finished, errors="skip", asynchronous=True)
        for key, known in status.items():
            if answers.get(key) is None:
                last = await _last_worker(futures[key]) if known == "error" else ""
                self._arrived.put(Lost(key, known == "error", last if self._identify else ""))
                continue
            worker = next(iter(holders.get(key, ())), "")
            if self._identify and not worker:  # it has left, so nobody knows whose answer this is
                self._arrived.put(Lost(key, died=False))
            else:
                self._arrived.put(Answered(key, answers[key], worker))


async def _last_worker(future: Future[bytes]) -> str:
    """The last worker that ended while it had this message."""
    from distributed.scheduler import KilledWorker

    error = await future.exception(asynchronous=True)
    return str(error.last_worker.address) if isinstance(error, KilledWorker) else ""


def _worker(info: Mapping[str, Any]) -> WorkerInfo:
    return WorkerInfo(
        address=str(info["id"]),
        host=str(info["host"]),
        threads=int(info["nthreads"]),
        offers=frozenset(info.get("resources", {})),
    )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")

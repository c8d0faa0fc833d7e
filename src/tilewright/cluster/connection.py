"""The connection of a search to a scheduler, which sends messages, receives answers and lists the
workers.

`distributed` transports bytes and chooses the worker that receives them. Only the client's own
thread waits for the network; the thread of the search only reads a queue.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, Queue
from time import monotonic
from typing import TYPE_CHECKING, Any

from tilewright.cluster.arrivals import Answered, Lost, fetch_all
from tilewright.cluster.dask_processes import create_client
from tilewright.cluster.identity import read_identity
from tilewright.cluster.remote import evaluate
from tilewright.cluster.settings import require_distributed, unavailable
from tilewright.core.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

AWAY_S = 30.0
"""Seconds without an answer after which a scheduler counts as unavailable."""
OPEN_S = 60.0
"""Maximum number of seconds until a connection is open."""
LOOK_EVERY_S = 1.0
"""Minimum number of seconds between two requests for the list of workers."""
ASK_S = 5.0
"""Maximum number of seconds for the answer of a scheduler about single messages."""
LOOKED_AT = 100
"""Maximum number of workers per second about which the scheduler is asked, because its answers grow
with their number.
"""
WAITING = frozenset({"processing", "waiting", "queued", "no-worker"})
"""dask's states of a message that will still be answered."""


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """The information of the scheduler about one worker process."""

    address: str
    host: str
    threads: int
    offers: frozenset[str]


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
        self._address, self._shown, self._identify = address, shown, identify
        # No SimpleQueue: in CPython its `get` with a short time-out can wait forever.
        self._arrived = Queue[Answered | Lost]()
        self._workers: tuple[WorkerInfo, ...] = ()
        self._futures: dict[str, Future[bytes] | None] = {}
        self._session = secrets.token_hex(6)
        self.others: Mapping[str, frozenset[str]] = {}
        """By worker, the messages of other searches that it had at the last call of `held`, for the
        workers with messages of this search.
        """
        self._sent = 0
        read_identity(address, shown, workers=0)
        self._begin()

    def _begin(self) -> None:
        self._client = _client(self._address, self._shown)
        self._loop = self._client.loop.asyncio_loop
        # When the list of workers was requested, if no answer has come since.
        self._asked_s: float | None = None
        self._looking = asyncio.run_coroutine_threadsafe(self._look(), self._loop)

    @property
    def is_lost(self) -> bool:
        """Whether the scheduler is unavailable: it has ended, or does not answer."""
        asked_s = self._asked_s
        is_mute = asked_s is not None and monotonic() - asked_s > AWAY_S
        return is_mute or bool(self._client.status != "running")

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
            self._lose(keys)
            return keys
        self._futures.update(zip(keys, futures, strict=True))
        fetching = fetch_all(self._client, futures, self._arrived.put, self._identify)
        asyncio.run_coroutine_threadsafe(fetching, self._loop)
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

    def held(self, keys: Iterable[str]) -> dict[str, str] | None:
        """Those of these messages that will still be answered, with the worker that has each of
        them ("" if it waits for a worker). None if the scheduler does not say.
        """
        asked = asyncio.run_coroutine_threadsafe(self._held(list(keys)), self._loop)
        try:
            return asked.result(ASK_S)
        except Exception:  # the scheduler has ended, or is overloaded
            asked.cancel()
            return None

    async def _held(self, keys: list[str]) -> dict[str, str]:
        states = await self._client.scheduler.get_task_status(keys=keys)
        waiting = {key: "" for key, state in states.items() if state in WAITING}
        processing = await self._client.scheduler.processing(workers=None)
        for worker, found in processing.items():
            waiting.update((key, worker) for key in waiting.keys() & found)
        own = f"tilewright-{self._session}-"
        self.others = {
            worker: frozenset(key for key in map(str, processing[worker]) if own not in key)
            for worker in set(waiting.values()) - {""}
        }
        return waiting

    def give_up(self, keys: Iterable[str]) -> None:
        """Cancel these messages, and end their evaluations."""
        futures = [self._futures.pop(key, None) for key in keys]
        with suppress(Exception):  # if the scheduler cannot be reached, there is nothing to end
            if not self.is_lost:
                self._client.cancel([future for future in futures if future is not None])

    def reopen(self) -> None:
        """Connect again, because the scheduler sends no answers. All messages are lost."""
        self._end()
        try:
            self._begin()
        except ClusterError as error:
            raise ClusterError(unavailable(self._shown)) from error
        finally:
            self._lose(list(self._futures))

    def close(self) -> None:
        """Close the connection. May be called again."""
        self._futures.clear()
        self._end()

    def _end(self) -> None:
        self._looking.cancel()
        stream = self._client.scheduler_comm
        with suppress(Exception):
            self._client.close(timeout=2)
        with suppress(Exception):  # the scheduler must notice the end also if dask waits
            self._loop.call_soon_threadsafe(stream.abort)

    def _lose(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._arrived.put(Lost(key, died=False))

    async def _look(self) -> None:
        while True:
            self._asked_s = self._asked_s or monotonic()
            with suppress(Exception):  # whatever happens, the next attempt may succeed
                info = await asyncio.wait_for(self._client.scheduler.identity(n_workers=-1), AWAY_S)
                self._workers = tuple(map(_worker, info["workers"].values()))
                self._asked_s = None
            await asyncio.sleep(max(LOOK_EVERY_S, len(self._workers) / LOOKED_AT))


def _client(address: str, shown: str) -> Client:
    """dask's client. dask limits the seconds of each step of its start, but not of all together."""
    opened: Queue[Client | Exception] = Queue()
    is_late = threading.Event()

    def open_client() -> None:
        try:
            client = create_client(address, AWAY_S)
        except Exception as error:
            opened.put(error)
            return
        opened.put(client)
        if is_late.is_set():
            client.close()

    threading.Thread(target=open_client, daemon=True).start()
    try:
        found = opened.get(timeout=OPEN_S)
    except Empty:
        is_late.set()
        found = TimeoutError(f"no connection within {OPEN_S:g} s")
    if isinstance(found, OSError | ValueError | RuntimeError):
        raise ClusterError(
            f"the scheduler at {shown} does not answer like a dask scheduler "
            f"({_first_line(found)}). Correct the address."
        ) from found
    if isinstance(found, Exception):
        raise found
    return found


def _worker(info: Mapping[str, Any]) -> WorkerInfo:
    return WorkerInfo(
        address=str(info["id"]),
        host=str(info["host"]),
        threads=int(info["nthreads"]),
        offers=frozenset(info.get("resources", {})),
    )


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")

"""Workers of a cluster on this machine: processes that announce what they can evaluate.

`python -m tilewright.cluster.local_workers worker|scheduler CHANNEL PARENT ...` is one of these
processes. `Workers` supervises several of them, and restarts those that end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Self

from tilewright.cluster.dask_processes import create_worker
from tilewright.cluster.identity import read_identity
from tilewright.cluster.schedulers import schedule
from tilewright.cluster.settings import has_certificates, require_distributed
from tilewright.cluster.worker_stream import silence
from tilewright.core.errors import ClusterError, TilewrightError
from tilewright.core.text import counted
from tilewright.evaluation.worker import die_with_parent
from tilewright.sandbox.child import Channel, Child

START_S = 120.0
"""Maximum number of seconds until a new process has imported its modules and reported that it is
ready.
"""
AGAIN_AFTER_S = 1.0
"""Seconds before a worker that has ended is started again."""
ALIVE_EVERY_S = 2.0
"""Seconds between two messages with which a worker shows that it is running."""
HANG_S = 30.0
"""Seconds without such a message after which a worker is replaced."""
LOOK_EVERY_S = 0.2
"""Seconds between two tests of whether workers have ended."""
EXIT_NO_SCHEDULER, EXIT_SILENCE = 3, 4
ENDS = {
    EXIT_NO_SCHEDULER: "cannot reach the scheduler",
    EXIT_SILENCE: "no longer receives messages from the scheduler",
}
"""Exit statuses of workers."""
SCHEDULER_S = 60.0
"""Seconds for which a worker tries to reach its scheduler before the worker is restarted."""
_MODULE = "tilewright.cluster.local_workers"


@dataclass(slots=True)
class _Place:
    """One of the worker processes, or the place for the next one. `heard` is the time of its last
    message.
    """

    child: Child | None = None
    heard: float = 0.0
    has_begun: bool = False
    ended: float = -AGAIN_AFTER_S


class Workers:
    """Worker processes of one scheduler, at `address` with its protocol; they end with the thread
    that started them. A worker that ends, or sends no message for `hang_s` seconds, is replaced at
    the next `look`.
    """

    def __init__(
        self,
        address: str,
        count: int,
        offers: Mapping[str, Mapping[str, str]],
        hang_s: float = HANG_S,
    ) -> None:
        self._arguments = ("worker", str(os.getpid()), address, json.dumps(offers))
        self._hang_s = hang_s
        self._places = [_Place() for _ in range(count)]
        self.look()

    def look(self) -> list[str]:
        """Start workers that are missing or have ended, and return how they ended."""
        ends = []
        for place in self._places:
            end = self._end(place)
            if end:
                ends.append(end)
            if place.child is None and monotonic() - place.ended >= AGAIN_AFTER_S:
                place.child, place.heard = Child(_MODULE, *self._arguments), monotonic()
                place.has_begun = False
        return ends

    def _end(self, place: _Place) -> str | None:
        """How a worker ended since the last look, if it did."""
        child = place.child
        if child is None:
            return None
        try:
            while child.has_message(0.0):
                child.receive_json()
                place.heard, place.has_begun = monotonic(), True
        except EOFError:
            child.kill()
            known = (end for status, end in ENDS.items() if child.exit_text.endswith(f" {status}"))
            end = next(known, child.exit_text)
        else:
            if monotonic() - place.heard <= (self._hang_s if place.has_begun else START_S):
                return None
            child.kill()
            end = "stopped sending messages and was killed"
        place.child, place.ended = None, monotonic()
        return f"worker {child.pid} {end}"

    @property
    def pids(self) -> list[int]:
        """The workers that are connected."""
        return [place.child.pid for place in self._places if place.child is not None]

    def close(self) -> None:
        """End them. Idempotent."""
        for place in self._places:
            if place.child is not None:
                place.child.kill()
            place.child = None


class LocalCluster:
    """A scheduler and workers that are started on this machine and end with this process."""

    def __init__(self, count: int, offers: Mapping[str, Mapping[str, str]]) -> None:
        own = str(os.getpid())
        scheduler = Child(_MODULE, "scheduler", own)
        self._children = [scheduler]
        try:
            if not scheduler.has_message(START_S):
                raise ClusterError(f"no scheduler could be started within {START_S:g} s.")
            started = scheduler.receive_json()
            if "error" in started:
                raise ClusterError(started["error"])
            self.address: str = started["address"]
        except EOFError:
            self.close()
            raise ClusterError(f"the scheduler {scheduler.exit_text} at its start.") from None
        except BaseException:
            self.close()
            raise
        # There is one more process in between, which starts workers again during a search.
        keeper = Child(_MODULE, "keeper", own, self.address, str(count), json.dumps(offers))
        self._children.append(keeper)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the scheduler and all workers. May be called again."""
        while self._children:
            self._children.pop().kill()


def serve(
    address: str,
    count: int,
    offers: Mapping[str, Mapping[str, str]],
    say: Callable[[str], None],
) -> None:
    """Run this number of workers for the scheduler at `address` until Ctrl-C."""
    names = ", ".join(name for name in offers if "@" not in name)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    say(f"{counted(count, 'worker')} for {address}, which can evaluate {names}; Ctrl-C ends this")
    try:
        _say_if_away(address, say)
        with closing(Workers(address, count, offers)) as workers:
            while True:
                time.sleep(LOOK_EVERY_S)
                for end in workers.look():
                    say(f"{end}; another one is started")
    except KeyboardInterrupt:
        say("no longer evaluating")


def _say_if_away(address: str, say: Callable[[str], None]) -> None:
    """On many machines, workers are started before the scheduler."""
    try:
        read_identity(address, address, workers=0)
    except ClusterError as error:
        say(f"{error} The workers try again until it answers.")


def main(arguments: list[str]) -> None:
    """Run one process until its parent or its scheduler ends."""
    descriptor, mode, parent, *rest = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    die_with_parent(int(parent))
    channel = Channel(int(descriptor))
    if mode == "keeper":
        _keep(rest[0], int(rest[1]), json.loads(rest[2]))
        return
    require_distributed()
    if mode == "scheduler":
        _schedule(channel)
    else:
        try:
            asyncio.run(_work(channel, rest[0], json.loads(rest[1])))
        except OSError:
            try:
                read_identity(rest[0], rest[0], workers=0)
            except ClusterError:  # `serve` says so
                sys.exit(EXIT_NO_SCHEDULER)
            raise  # something else is wrong here, such as a full disk


def _keep(address: str, count: int, offers: Mapping[str, Mapping[str, str]]) -> None:
    workers = Workers(address, count, offers)
    while True:
        time.sleep(LOOK_EVERY_S)
        workers.look()


def _schedule(channel: Channel) -> None:
    def on_start(address: str) -> None:
        channel.send_json({"address": address})

    try:
        protocol = "tls" if has_certificates("scheduler") else "tcp"
        asyncio.run(schedule("127.0.0.1", 0, protocol, on_start))
    except TilewrightError as error:
        channel.send_json({"error": str(error)})


async def _work(channel: Channel, address: str, offers: Mapping[str, Mapping[str, str]]) -> None:
    worker = create_worker(
        address,
        nthreads=1,  # one evaluation at a time, because others would disturb it
        resources=dict.fromkeys(offers, 1),
        memory_limit=0,  # the sandbox limits the memory of candidates
        death_timeout=SCHEDULER_S,
        metrics={"tilewright": lambda worker: offers},
    )
    alive = asyncio.create_task(_say_alive(channel))
    async with worker:
        ends = [asyncio.create_task(end) for end in (worker.finished(), silence(worker))]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if not ends[0].done():
            os._exit(EXIT_SILENCE)  # a regular end would tell the scheduler, and could wait for it
        ends[1].cancel()
        await ends[0]
    alive.cancel()


async def _say_alive(channel: Channel) -> None:
    while True:
        channel.send_json("alive")
        await asyncio.sleep(ALIVE_EVERY_S)


if __name__ == "__main__":
    main(sys.argv[1:])

"""A cluster whose parts can be killed, stopped, cut off, and given another time of day.

Its workers and its searches reach the scheduler through a relay of ours, which stands for the
network. Every Python process with `import_path` of the plug-ins on its path reads the time of day
from a file there, if there is one (`jump_clock`).
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from tilewright.cluster.local_workers import Workers

CLOCK = """import os, time as _time
_real, _file = _time.time, os.path.join(os.path.dirname(__file__), "clock")
def _shifted():
    try:
        with open(_file) as stream:
            return _real() + float(stream.read() or 0)
    except (OSError, ValueError):
        return _real()
_time.time = _shifted
"""
"""Of the plug-ins' `sitecustomize`: processes import it before anything else."""


class Network:
    """Carries bytes from a port of its own to the scheduler that `file` names, while it is there;
    `cut` stops it for a while.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._loop = asyncio.new_event_loop()
        self._writers = set[asyncio.StreamWriter]()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.port = int(asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30))

    async def _listen(self) -> int:
        self._is_whole = asyncio.Event()
        self._is_whole.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return int(self._server.sockets[0].getsockname()[1])

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._is_whole.wait()
        try:
            written = json.loads(self._file.read_text())
            address = written.get("scheduler") or written["address"]
            port = int(address.rpartition(":")[2])
            there = await asyncio.open_connection("127.0.0.1", port)
        except (
            OSError,
            ValueError,
            KeyError,
        ):  # it has not started, or not written its whole address yet
            writer.transport.abort()
            return
        await asyncio.gather(self._carry(reader, there[1]), self._carry(there[0], writer))

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                await self._is_whole.wait()
                writer.write(data)
                await writer.drain()
        self._writers.discard(writer)
        with suppress(OSError):
            writer.close()

    def cut(self, seconds: float, for_good: bool) -> None:
        """Nothing gets through for so long; then connections go on, or are ended `for_good`."""
        self._loop.call_soon_threadsafe(self._is_whole.clear)
        time.sleep(seconds)
        if for_good:
            for writer in list(self._writers):
                self._loop.call_soon_threadsafe(writer.transport.abort)
        self._loop.call_soon_threadsafe(self._is_whole.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)


class DisturbedCluster:
    """A scheduler, and `count` workers that are started again when they end."""

    def __init__(
        self,
        offers: dict[str, dict[str, str]],
        plugins: Path,
        *,
        preload: Path | None = None,
        count: int = 2,
    ) -> None:
        self._preload = preload
        self._clock = plugins / "clock"
        (plugins / "sitecustomize.py").write_text(CLOCK)
        self._file = plugins / "scheduler.json"
        self._scheduler = self._start()
        self._network = Network(self._file)
        self.address = f"127.0.0.1:{self._network.port}"
        self.workers = Workers(f"tcp://{self.address}", count, offers, hang_s=8)

    def _start(self) -> subprocess.Popen[bytes]:
        """At a port that the system chooses, so no other program can have taken it.

        With a `preload`, it is dask's own scheduler.
        """
        self._file.unlink(missing_ok=True)
        file = str(self._file)
        options = ["--host", "127.0.0.1", "--port", "0"]
        if self._preload is None:
            command = ["tilewright.cli", "cluster", "scheduler", *options, "--json", file]
        else:
            command = ["distributed.cli.dask_scheduler", *options, "--no-dashboard"]
            command += ["--scheduler-file", file, "--preload", str(self._preload)]
        return subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "6 s"},
        )

    def wait_for_scheduler(self) -> None:
        """Until it has written its address."""
        while not self._file.exists():
            time.sleep(0.05)

    def kill_scheduler(self, rng: random.Random) -> None:
        self._scheduler.kill()
        self._scheduler.wait()
        time.sleep(rng.uniform(0, 1))
        self._scheduler = self._start()

    def kill_worker(self, rng: random.Random) -> None:
        if self.workers.pids:
            os.kill(rng.choice(self.workers.pids), signal.SIGKILL)

    def stop_worker(self, rng: random.Random) -> None:
        """One that hangs for good."""
        if self.workers.pids:
            os.kill(rng.choice(self.workers.pids), signal.SIGSTOP)

    def cut_network(self, rng: random.Random) -> None:
        self._network.cut(rng.uniform(0.2, 3), rng.random() < 0.5)

    def jump_clock(self, rng: random.Random) -> None:
        """By up to a day, forwards or backwards."""
        self.set_clock(rng.uniform(-86400, 86400))

    def set_clock(self, ahead_s: float) -> None:
        """For every process of the cluster and searches."""
        new = self._clock.with_suffix(".new")
        new.write_text(str(ahead_s))
        new.rename(self._clock)

    def close(self) -> None:
        self.workers.close()
        self._scheduler.kill()
        self._scheduler.wait()
        self._network.close()

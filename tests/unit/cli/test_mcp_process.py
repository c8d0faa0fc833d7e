"""`tilewright mcp` as a process of its own, on a workload for the CPU of this machine."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.tasks import open_task
from tilewright.storage.project import open_project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs the package mcp"),
]
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}
START = open_task("host-c:gemm-64x64x64", {}).task.start


def waiting(turns: int) -> str:
    """The starting kernel, which waits first."""
    return START.replace("{", f"{{\n  for (volatile long t = 0; t < {turns}; t++);", 1)


ANSWERED, LONG = waiting(10), waiting(4_000_000_000_000)


class Served:
    """One server, and a client that writes and reads lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._sent = 0
        self.ask("initialize", HELLO)
        self.send("notifications/initialized")

    def send(self, method: str, **more: object) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", "method": method, **more}) + "\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: object) -> dict[str, Any]:
        self._sent += 1
        self.send(method, id=self._sent, params=params)
        assert self.process.stdout is not None
        found = json.loads(self.process.stdout.readline())
        assert found["id"] == self._sent
        return dict(found)

    def evaluate(self, kernel: str) -> dict[str, Any]:
        found = self.ask("tools/call", {"name": "evaluate", "arguments": {"kernel": kernel}})
        return dict(found["result"]["structuredContent"])


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    command = [sys.executable, "-m", "tilewright.cli", "mcp", "host-c:gemm-64x64x64"]
    command += ["--budget", "5 evaluations", "--project", str(folder)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield Served(process)
        finally:
            process.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_a_long_evaluation_and_keeps_what_was_paid(
    tmp_path: Path, number: signal.Signals
) -> None:
    with served(tmp_path) as server:
        assert server.evaluate(ANSWERED)["left"] == 3
        arguments = {"name": "evaluate", "arguments": {"kernel": LONG}}
        server.send("tools/call", id="long", params=arguments)
        time.sleep(2.0)  # it is being simulated
        workers = workers_of(server.process.pid)
        assert workers
        server.process.send_signal(number)
        assert server.process.wait(120) == 0, server.process.communicate()
        assert not any(Path(f"/proc/{worker}").exists() for worker in workers)
    with closing(open_project(tmp_path)) as storage:
        (run,) = storage.runs()
        assert run.status == "interrupted"
        assert [t.candidate.source for t in storage.history(run.id)][1:] == [ANSWERED]
    with served(tmp_path) as server:
        again = server.evaluate(ANSWERED)
        assert (again["known"], again["left"]) == (True, 3)


def workers_of(process: int) -> list[int]:
    """The processes that a server has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == process:
            found.append(int(status.parent.name))
    return found

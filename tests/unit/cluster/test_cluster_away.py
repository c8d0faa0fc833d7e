"""A scheduler that is away, or is none, is reported in a sentence and without a traceback."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys

import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from tilewright.cluster import connection, identity
from tilewright.cluster.connection import Connection
from tilewright.core.errors import ClusterError


def test_a_program_that_is_no_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found before dask's client begins, which can wait for it without end."""
    monkeypatch.setattr(identity, "ANSWER_S", 0.5)
    monkeypatch.setattr(connection, "_client", lambda *_: pytest.fail("dask's client begins"))
    with socket.create_server(("127.0.0.1", 0)) as mute:
        address = f"127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(ClusterError, match=f"{address} does not answer like a dask scheduler"):
            Connection(f"tcp://{address}", address)


def test_dask_prints_nothing_about_interrupted_connections() -> None:
    program = (
        "import logging; from tilewright.cluster.settings import require_distributed as r; r();"
        "[logging.getLogger(n).error('x') for n in ('distributed.batched', 'distributed.client')]"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_workers_say_that_they_wait_for_their_scheduler() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "tilewright.cli", "cluster", "worker", address, "--jobs", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout
    first, said = process.stdout.readline(), process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=60)[0]
    assert "Ctrl-C ends this" in first
    assert f"{address} cannot be reached (Connection refused)" in said
    assert "try again until it answers" in said
    assert "Traceback" not in rest
    assert process.returncode == 0

"""A server of tools ends properly: when its client leaves, and when it is told to end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

from tilewright.parts.source_rules import MAX_SOURCE_BYTES
from tilewright.tools.mcp_shutdown import Ending

pytestmark = pytest.mark.skipif(find_spec("mcp") is None, reason="needs the package mcp")
SERVER = """
import asyncio, resource, sys, time
from tilewright.core.errors import InputError
from tilewright.tools.main_thread import MainThread
from tilewright.parts.source_rules import MAX_SOURCE_BYTES
from tilewright.tools.mcp_shutdown import Ending
from tilewright.tools.mcp_http import bound, serve_http
from tilewright.tools.mcp_server import create_server, serve

def call(name, arguments):
    if name == "evaluate":
        print("evaluates", file=sys.stderr, flush=True)
    try:
        # Short waits, as in evaluations: a signal just before one long sleep would not end it.
        for _ in range(6000 if name == "evaluate" else 3):
            time.sleep(0.1)
    except KeyboardInterrupt:
        time.sleep(arguments.get("stops_after_s", 0))
        raise
    return {"text": "x" * 200_000, "answer": {}, "refused": False}

ending, main = Ending(), MainThread()
with ending.on_signals(main.interrupt):
    server = create_server("w", "t", {}, call, main)
    if sys.argv[1] == "http":
        listener = bound(0)
        print(listener.getsockname()[1], flush=True)
        serving = serve_http(server, listener, "t" * 20, ending)
    else:
        serving = serve(server, ending, main.give_up)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        main.serve_from_main_thread(lambda: asyncio.run(serving))
    except InputError as error:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        sys.exit(f"{error} {grown >> 10} MiB")
print("ended properly", file=sys.stderr)
"""
HELLO = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@contextmanager
def served(how: str) -> Iterator[subprocess.Popen[bytes]]:
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", SERVER, how]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process: subprocess.Popen[bytes], method: str, **more: object) -> None:
    assert process.stdin is not None
    message = {"jsonrpc": "2.0", "method": method, **more}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def begin(process: subprocess.Popen[bytes], tool: str = "facts") -> None:
    """Say hello, and call a tool that answers later."""
    send(process, "initialize", id=1, params=HELLO)
    assert process.stdout is not None
    assert b'"id":1' in process.stdout.readline()
    send(process, "notifications/initialized")
    send(process, "tools/call", id=2, params={"name": tool, "arguments": {}})


def ended(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    assert process.wait(120) == 0, process.stderr.read().decode()
    assert process.stderr.read() == b"ended properly\n"


def test_a_client_that_leaves_before_it_has_its_answer_is_no_error() -> None:
    with served("stdio") as process:
        begin(process)
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.close()
        process.stdin.close()
        ended(process)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted in other units")
@pytest.mark.parametrize("waits_s", [0, 1])  # after a second, an answer waits to be read
def test_a_line_of_200_mb_is_refused_in_little_memory(waits_s: int) -> None:
    with served("stdio") as process:
        begin(process)
        assert process.stdin is not None
        time.sleep(waits_s)
        with pytest.raises(BrokenPipeError):
            process.stdin.write(b"x" * 200_000_000)
        assert process.stderr is not None
        said = process.stderr.read().decode()
        assert process.wait(120) == 1, said
    refused, grown = re.fullmatch(r"(.*\.) (\d+) MiB\n", said).groups()  # type: ignore[union-attr]
    assert refused == (
        "the client sent a line of more than 8192 KiB, so the server has ended; the same command "
        "continues the run."
    )
    assert int(grown) < 100


def test_the_longest_kernel_is_no_line_too_long() -> None:
    with served("stdio") as process:
        begin(process)
        kernel = "\x01" * MAX_SOURCE_BYTES  # six bytes each
        params = {"name": "facts", "arguments": {"kernel": kernel}}
        send(process, "tools/call", id=3, params=params)
        assert process.stdout is not None
        assert {json.loads(process.stdout.readline())["id"] for _ in range(2)} == {2, 3}
        process.stdout.close()
        assert process.stdin is not None
        process.stdin.close()
        ended(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_while_its_client_stays(number: signal.Signals) -> None:
    with served("stdio") as process:
        begin(process)
        assert process.stdout is not None
        assert b'"id":2' in process.stdout.readline()
        process.send_signal(number)
        ended(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("waiting", [0, 3])
def test_a_signal_ends_a_long_evaluation(number: signal.Signals, waiting: int) -> None:
    with served("stdio") as process:
        begin(process, "evaluate")
        for more in range(waiting):
            params = {"name": "evaluate", "arguments": {}}
            send(process, "tools/call", id=10 + more, params=params)
        assert process.stderr is not None
        assert process.stderr.readline() == b"evaluates\n"
        process.send_signal(number)
        ended(process)


# After a second, the SDK gives up the answer to an evaluation that is slow to stop.
@pytest.mark.parametrize("stops_after_s", [0, 2])
def test_a_signal_ends_it_while_its_client_does_not_read(stops_after_s: int) -> None:
    with served("stdio") as process:
        begin(process)
        for more in range(20):  # more answers than a pipe holds
            params = {"name": "facts", "arguments": {}}
            send(process, "tools/call", id=10 + more, params=params)
        evaluate = {"name": "evaluate", "arguments": {"stops_after_s": stops_after_s}}
        send(process, "tools/call", id=40, params=evaluate)
        assert process.stderr is not None
        assert process.stderr.readline() == b"evaluates\n"
        process.send_signal(signal.SIGTERM)
        ended(process)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_over_http(number: signal.Signals) -> None:
    with served("http") as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), 120) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 401"
        process.send_signal(number)
        ended(process)


def test_who_is_asked_before_there_is_a_server_ends_it_at_once() -> None:
    ending, calls = Ending(), []
    before = signal.getsignal(signal.SIGTERM)
    with ending.on_signals():
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is before  # a second one acts as usual
    ending.ends(lambda: calls.append("ended"))
    assert calls == ["ended"]

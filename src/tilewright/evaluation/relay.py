"""Evaluates for another machine: passes lines of JSON from standard input to a worker, and its
replies to standard output.

The worker is a process like those of a search on this machine, with a clean environment. The worker
is ended when all requests of the input are answered, or when the reader of the answers has closed
the stream.
"""

from __future__ import annotations

import json
import os
import select
import sys
import threading
from contextlib import suppress
from typing import BinaryIO

from tilewright.evaluation.worker_process import WorkerProcess

LOOK_EVERY_S = 0.2
"""Seconds between two tests of whether the answers are still read."""


class Relay:
    """Passes the answers of one worker to one reader."""

    def __init__(self, replies: BinaryIO) -> None:
        self._replies = replies
        self._worker = WorkerProcess()
        self._asked = 0
        self._answered = 0
        self._ended = threading.Event()
        self._answering = threading.Thread(target=self._answer, daemon=True)
        self._answering.start()

    def serve(self, requests: BinaryIO) -> int:
        """Pass messages until `requests` ends, and return the exit status, which is 1 for a line
        that is not a JSON object, or if the worker ended by itself.
        """
        reading = threading.Thread(target=self._read, args=(requests,), daemon=True)
        reading.start()
        while not self._ended.is_set():
            if not reading.is_alive() and self._answered >= self._asked:
                break
            if _is_deserted(self._replies):
                break
            self._ended.wait(LOOK_EVERY_S)
        failed = self._ended.is_set()
        log = self._worker.kill()
        if failed:
            print(log.strip(), file=sys.stderr)
        return int(failed)

    def _read(self, requests: BinaryIO) -> None:
        for line in requests:
            try:
                message = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                message = line
            if message is None:
                continue
            if not isinstance(message, dict):
                print("expected one JSON object in each line of the input.", file=sys.stderr)
                self._ended.set()
                return
            self._asked += 1
            self._worker.send(message)

    def _answer(self) -> None:
        with suppress(OSError, ValueError, EOFError):
            while True:
                reply = self._worker.receive()
                self._replies.write(json.dumps(reply).encode() + b"\n")
                self._replies.flush()
                self._answered += "stage" not in reply
        self._ended.set()


def relay(requests: BinaryIO, replies: BinaryIO) -> None:
    """Pass messages, and then end this process, even if a thread still waits for a line."""
    status = Relay(replies).serve(requests)
    sys.stderr.flush()
    os._exit(status)


def _is_deserted(stream: BinaryIO) -> bool:
    """Whether the reader of this stream has closed it."""
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))

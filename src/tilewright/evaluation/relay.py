"""Evaluates for another machine: lines of JSON on standard input go to a worker, its replies back.

The worker is a process like those of a search on this machine, with a clean environment. When the
input ends, so does the worker, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import BinaryIO

from tilewright.evaluation.worker_process import WorkerProcess


def relay(requests: BinaryIO, replies: BinaryIO) -> None:
    """Serve until `requests` end. A line that is no JSON object ends it too."""
    worker = WorkerProcess()
    threading.Thread(target=_answer, args=(worker, replies), daemon=True).start()
    try:
        for line in requests:
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            if not isinstance(message, dict):
                print("expected one JSON object in each line of the input.", file=sys.stderr)
                break
            worker.send(message)
    finally:
        worker.kill()


def _answer(worker: WorkerProcess, replies: BinaryIO) -> None:
    """Pass on what the worker says, until it ends: then this process does."""
    try:
        while True:
            replies.write(json.dumps(worker.receive()).encode() + b"\n")
            replies.flush()
    except (EOFError, OSError, ValueError):
        print(worker.kill(), file=sys.stderr, flush=True)
        os._exit(1)  # the thread that reads the input waits for a line

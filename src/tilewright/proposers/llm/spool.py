"""A folder for calls that continue after the process which started them has ended.

`KEY.claim` says that a call has begun, and in which call process; `KEY.reply` contains its reply.
If a run was killed, the resumed run finds the replies in this folder. If a call is still in
progress in an earlier call process, the run waits for it instead of making the call again.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from tilewright.core.files import read_bytes
from tilewright.proposers.llm.failures import CallAbandonedError
from tilewright.proposers.llm.messages import Reply, Request, reply_from_json, reply_to_json

POLL_S = 0.02
MOST_BYTES = 64 << 20
"""Maximum size of a stored reply, which is larger than any real one."""


class Spool:
    """One folder, which the call processes of all sessions of a run use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._name = f"{os.getpid()}-{time.monotonic_ns()}"
        self._alive: TextIO | None = None
        self._stopped = threading.Event()

    def enter(self) -> None:
        """Register this process as a call process, with a lock that it holds until it ends for any
        reason.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        self._alive = (self._folder / f"{self._name}.process").open("w")
        fcntl.flock(self._alive, fcntl.LOCK_EX)

    def leave(self) -> None:
        """Undo `enter`."""
        if self._alive is not None:
            (self._folder / f"{self._name}.process").unlink(missing_ok=True)
            self._alive.close()

    def stop(self) -> None:
        """Start no more calls, and drop calls that wait for another call process.

        The run has ended. If such a call were made after the other process's call was settled, it
        would be billed twice.
        """
        self._stopped.set()

    def around(self, request: Request, call: Callable[[], Reply]) -> Reply:
        """The stored reply of an earlier call with this key, or the reply of `call`, which is
        stored.
        """
        key = request.key
        while not self._claim(key):
            if self._stopped.is_set():
                raise CallAbandonedError("the run was stopped while it waited for a call.")
            reply = self.find(key)
            if reply is not None:
                return reply
            if not self._owner_lives(key):
                self.discard(key)
            time.sleep(POLL_S)
        try:
            reply = call()
        except BaseException:
            self.discard(key)  # no reply arrived, so the next session asks again
            raise
        partial = self._folder / f"{key}.partial"
        partial.write_text(json.dumps(reply_to_json(reply)), encoding="utf-8")
        partial.replace(self._reply(key))
        return reply

    def find(self, key: str) -> Reply | None:
        """The stored reply to a call, if there is one. A reply that cannot be read is deleted."""
        try:
            return reply_from_json(json.loads(read_bytes(self._reply(key), MOST_BYTES)))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError):
            self.discard(key)
            return None

    def discard(self, key: str) -> None:
        """Delete the files of a call, because its reply is recorded elsewhere, or there is no
        reply.
        """
        self._reply(key).unlink(missing_ok=True)
        self._claimed(key).unlink(missing_ok=True)

    def _claim(self, key: str) -> bool:
        """Claim the call for this process, and return whether this succeeded. The claim file is
        created atomically.
        """
        draft = self._folder / f"{key}.{self._name}"
        draft.write_text(self._name)
        try:
            self._claimed(key).hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            draft.unlink()
        return True

    def _owner_lives(self, key: str) -> bool:
        """Whether the process that claimed the call is still running, which is the case if its lock
        is held.
        """
        try:
            owner = self._claimed(key).read_text()
            with (self._folder / f"{owner}.process").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return self._reply(key).exists()
        return self._reply(key).exists()

    def _claimed(self, key: str) -> Path:
        return self._folder / f"{key}.claim"

    def _reply(self, key: str) -> Path:
        return self._folder / f"{key}.reply"

"""A process that starts an agent, monitors its resources, and ends it with all its processes.

    supervisor.py CHANNEL

The first message describes the agent (`Start`), and the last message, to the parent, says how it
ended. The supervisor becomes the parent of every descendant whose own parent ends, so no process
can escape by starting its own session. The supervisor ends all descendants when the agent ends or
exceeds a limit, and when the channel is closed, which also happens if the parent is killed.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import subprocess
import sys
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Any

from tilewright.sandbox.child import Channel
from tilewright.sandbox.deleted_files import deleted_bytes
from tilewright.sandbox.descendants import adopt_orphans, descendants, end_descendants
from tilewright.sandbox.hidden_paths import hide, why_not
from tilewright.sandbox.total_limits import disk_bytes

LOOK_S = 0.2
"""Seconds between two measurements of an agent's resources. Between two measurements, an agent may
exceed a limit.
"""
MOST_PROCESSES = 512
MOST_OUTPUT = 64 << 20
"""Maximum number of bytes that an agent may print."""
KEPT_OUTPUT = 16 << 10
"""Number of bytes of the end of the output that are kept."""
_RESIDENT_PAGES = 21
"""Field of /proc/PID/stat after the name, see proc(5)."""


@dataclass(frozen=True, slots=True)
class Start:
    """The command to start, with the file `prompt` as its standard input, in the folder `folder`.

    Files and folders in `hidden` are replaced by the empty file `nothing` and the empty folder
    `empty`, so it cannot read them.
    """

    command: tuple[str, ...]
    folder: str
    prompt: str
    disk_bytes: int
    hidden: tuple[str, ...] = ()
    empty: str = ""
    nothing: str = ""

    def message(self) -> dict[str, Any]:
        """The description as a message."""
        return asdict(self)


def main(channel: Channel) -> None:
    """Start and supervise one agent."""
    start = Start(**channel.receive_json())
    adopt_orphans()
    unhidden = why_not() if start.hidden else ""
    try:
        process = _started(start, hides=bool(start.hidden) and not unhidden)
    except (OSError, subprocess.SubprocessError) as error:
        detail = (
            getattr(error, "strerror", None)
            or "this system cannot hide the files that the agent must not read"
        )
        channel.send_json({"how": "not started", "detail": detail, "output": ""})
        return
    assert process.stdout is not None
    output = _Output(process.stdout)
    how, detail = _watch(process, start, output, channel)
    end_descendants()
    with contextlib.suppress(OSError):  # the parent has ended
        said = {"how": how, "detail": detail, "output": output.tail()}
        channel.send_json({**said, "unhidden": unhidden})


def _started(start: Start, hides: bool) -> subprocess.Popen[bytes]:
    def before() -> None:
        if hides:
            hide([Path(path) for path in start.hidden], Path(start.nothing), Path(start.empty))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        most = start.disk_bytes if hard == resource.RLIM_INFINITY else min(start.disk_bytes, hard)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))

    with Path(start.prompt).open("rb") as prompt:
        return subprocess.Popen(
            start.command,
            cwd=start.folder,
            stdin=prompt,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=before,
        )


class _Output:
    """Count the output of an agent and keep its end."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self.count = 0
        self._kept: deque[bytes] = deque()
        self._pipe = pipe
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        kept = 0
        with contextlib.suppress(OSError, ValueError):
            while part := os.read(self._pipe.fileno(), 1 << 16):
                self.count += len(part)
                self._kept.append(part)
                kept += len(part)
                while kept - len(self._kept[0]) >= KEPT_OUTPUT:
                    kept -= len(self._kept.popleft())

    def tail(self) -> str:
        """The end of the output, after no process has the pipe open any more."""
        self._reader.join(1.0)
        return b"".join(tuple(self._kept))[-KEPT_OUTPUT:].decode(errors="replace")


def _watch(
    process: subprocess.Popen[bytes], start: Start, output: _Output, channel: Channel
) -> tuple[str, str]:
    """How the agent ended or why it has to."""
    page = os.sysconf("SC_PAGE_SIZE")
    half_of_memory = page * os.sysconf("SC_PHYS_PAGES") // 2
    while True:
        if select.select([channel], [], [], LOOK_S)[0]:
            return "ended", "its time limit was reached"
        status = process.poll()
        if status is not None:
            return "exited", f"exit code {status}" if status >= 0 else f"signal {-status}"
        if output.count > MOST_OUTPUT:
            return "flooded", f"it printed more than {MOST_OUTPUT >> 20} MiB"
        found = list(descendants())
        if len(found) > MOST_PROCESSES:
            return "forked", f"it had more than {MOST_PROCESSES} processes"
        if sum(int(fields[_RESIDENT_PAGES]) * page for _, fields in found) > half_of_memory:
            return "memory", "its processes took more than half of the memory"
        allowed = f"{start.disk_bytes >> 20} MiB"
        in_folder = disk_bytes(Path(start.folder), start.disk_bytes)
        if in_folder > start.disk_bytes:
            return "disk", f"its folder has more than {allowed}, or folders that cannot be read"
        if in_folder + deleted_bytes(process for process, _ in found) > start.disk_bytes:
            return "disk", f"its folder and deleted files in use have more than {allowed}"


if __name__ == "__main__":
    main(Channel(int(sys.argv[1])))

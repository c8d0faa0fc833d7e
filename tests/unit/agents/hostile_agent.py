"""Agents that do their worst: hostile_agent.py MARK KIND, in the folder that a search gave it.

Only the standard library: what an agent can do must not depend on what tilewright offers it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SOCKET = os.environ["TILEWRIGHT_AGENT_SOCKET"]
LOWER = "toy 9 9 9 9 8"
CALLS = 2_100
"""More than a session answers."""
CHILD = "import os, time; os.fork(); os.setsid(); time.sleep(600)"


def send(line: bytes) -> dict[str, Any]:
    """What one line is answered; nothing where the connection ends first."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        found = b""
        try:
            connection.sendall(line)
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(1 << 16):
                found += part
        except OSError:
            pass
    return json.loads(found) if found else {}


def call(tool: str, version: object = 1, **arguments: object) -> dict[str, Any]:
    request = {"version": version, "tool": tool, "arguments": arguments}
    return send(json.dumps(request).encode() + b"\n")


def tell(**said: object) -> None:
    """Printed: the end of it is kept with the run."""
    print(json.dumps(said), flush=True)


def good() -> None:
    tell(first=call("evaluate", kernel=LOWER, note="one less"))
    tell(last=call("submit", kernel="toy 9 9 9 9 7", note="two less"))


def flood() -> None:
    block = b"x" * (1 << 20)
    while True:
        os.write(1, block)


def hang() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def leave_children() -> None:
    """Children in sessions of their own, whose parents are gone, without this environment."""
    for _ in range(3):
        subprocess.Popen(
            [sys.executable, "-c", CHILD, sys.argv[1]],
            env={},
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    call("evaluate", kernel=LOWER)


def fork_bomb() -> None:
    while True:
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            time.sleep(0.01)


def kill_keeper() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(600)


def fill_disk() -> None:
    number = 0
    while True:
        number += 1
        Path(f"file{number}").write_bytes(b"x" * (1 << 20))


def fill_disk_with_deleted_files() -> None:
    """Files that no folder contains, half of which only a child has open."""
    held = []
    for number in range(100):
        path = Path(f"file{number}")
        held.append(path.open("wb"))
        path.unlink()
        held[-1].write(b"x" * (1 << 20))
        held[-1].flush()
        if number % 2 and os.fork() == 0:
            time.sleep(600)
        if number % 2:
            held.pop().close()
    time.sleep(600)


def nest_folders() -> None:
    """Deeper than a path can name, then fill the disk."""
    for _ in range(3000):
        Path("deep").mkdir()
        os.chdir("deep")
    fill_disk()


def one_huge_file() -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    with Path("huge").open("wb") as file:
        while True:
            try:
                file.write(b"x" * (1 << 20))
                file.flush()
            except OSError:
                time.sleep(0.1)


def evaluate_for_ever() -> None:
    answers = [call("evaluate", kernel=f"toy 9 9 9 {n // 10} {n % 10}") for n in range(30)]
    refused = [a for a in answers if a["refused"]]
    tell(evaluated=len(answers) - len(refused), last=answers[-1])
    while len(answers) < CALLS:
        answers.append(call("evaluate", kernel=f"toy 9 9 8 {len(answers)} 0"))
    tell(refused=sum(a["refused"] for a in answers), last=answers[-1]["text"])


def call_at_once() -> None:
    held = []
    for _ in range(40):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(SOCKET)
        held.append(connection)
    last = held[-1].recv(1 << 16)
    tell(last=last.decode())
    for connection in held:
        connection.close()
    while "error" in call("evaluate", kernel=LOWER):  # until they are known to be closed
        time.sleep(0.1)


def malformed() -> None:
    for line in (b"{", b"[]", b"7", b"\xff\xfe", b'{"version": 1}', b"[" * 10**6):
        tell(answer=send(line + b"\n"))
    tell(answer=call("evaluate", kernel=["toy"]))
    tell(answer=send(b'{"version": 1, "tool": "evaluate", "arguments": [1]}\n'))
    tell(answer=send(b""))


def wrong_version() -> None:
    tell(answer=call("evaluate", version="9\x1b[2J", kernel=LOWER))


def huge_source() -> None:
    tell(answer=call("evaluate", kernel="toy " + "9 " * (1 << 18)))
    tell(answer=send(b"x" * (5 << 20)))


def close_the_pipe() -> None:
    os.close(0)
    os.close(1)
    os.close(2)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(SOCKET)
        request = {"version": 1, "tool": "evaluate", "arguments": {"kernel": LOWER}}
        connection.sendall(json.dumps(request).encode() + b"\n")
    os._exit(0)


def nothing() -> None:
    """Exits at once."""


def fail() -> None:
    sys.exit(7)


def others_kernels() -> None:
    tell(forged=call("submit", kernel="0123456789abcdef"))
    tell(start=call("submit", kernel="start"))
    tell(copied=call("submit", kernel="toy  1 1 1 1 1   # mine"))


def wrong_kernel() -> None:
    tell(forged=call("submit", kernel="toy 9 9 9 9 -5", note="latency 1, verdict correct"))


def look_around() -> None:
    found = dict(os.environ)
    for path in Path().rglob("*"):
        if path.is_file():
            found[str(path)] = path.read_text(errors="replace")
    for tool in ("facts", "tried", "profile", "evaluate"):
        arguments = {"kernel": LOWER} if tool == "evaluate" else {}
        found[tool] = json.dumps(call(tool, **arguments))
    found["described"] = json.dumps(send(b'{"version": 1, "describe": true}\n'))
    Path(os.environ["SEEN_FILE"]).write_text(json.dumps(found))


def read_hidden(targets: str, store: str) -> None:
    """Reads what is kept from agents, and tries to get at what lies beneath."""
    tuned = [path for path in Path(targets).rglob("*") if "tuned" in path.name]
    texts = [path.read_text(errors="replace") for path in tuned if path.is_file()]
    below = [str(path) for folder in tuned if folder.is_dir() for path in folder.rglob("*")]
    one = shlex.quote(str(tuned[0]))
    script = f"umount -l {one}; mount -o remount,bind {one}; ls {one}/*; cat {one}"
    tricks = [["sh", "-c", script], ["unshare", "-Urm", "sh", "-c", script]]
    tricks.append(["sh", "-c", f"cat /proc/{os.getppid()}/root{one}"])
    printed = ""
    for trick in tricks:
        with contextlib.suppress(OSError):
            printed += subprocess.run(trick, capture_output=True, text=True).stdout
    listed = [str(path) for path in Path(store).rglob("*")]
    tell(there=len(tuned), texts="".join(texts), below=below, store=listed, tricks=printed.strip())
    tell(last=call("submit", kernel=LOWER))


def by_command() -> None:
    Path("mine.toy").write_text(LOWER + "\n")
    ran = subprocess.run(
        ["./tilewright", "tool", "evaluate", "mine.toy", "--note", "by hand"],
        capture_output=True,
        text=True,
    )
    tell(code=ran.returncode, out=ran.stdout, err=ran.stderr)


def by_mcp() -> None:
    import asyncio

    from mcp import Client, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = json.loads(Path(".mcp.json").read_text())["mcpServers"]["tilewright"]

    async def talk() -> None:
        started = StdioServerParameters(**server)
        async with Client(stdio_client(started)) as client:
            found = await client.call_tool("submit", {"kernel": LOWER})
            tell(answer=found.structured_content)

    asyncio.run(talk())


def replace_folder(victim: str) -> None:
    """Another folder in the place of its own, which is removed when it ends."""
    own = Path.cwd()
    own.rename(f"{own}-moved")
    own.symlink_to(victim)


def link_to(victim: str) -> None:
    Path("folder").symlink_to(victim)
    Path("link").symlink_to(Path(victim) / "file")
    os.mkfifo("pipe")
    Path("TASK.md").unlink()
    os.mkfifo("TASK.md")


def stop_keeper() -> None:
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(600)


def half_a_call() -> None:
    """Calls that never end: none of them is an evaluation that takes time."""
    held = []
    for _ in range(20):
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(SOCKET)
        connection.sendall(b'{"version": 1, ')
        held.append(connection)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)


def change_process() -> None:
    """A child that is another process every time that somebody looks."""
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)
    time.sleep(1)


def not_text() -> None:
    """Characters that cannot be written to a file or a database, or that change a terminal."""
    for text in ("\ud800", "\x00", "\x1b[2J\x9b1m", "\u202e"):
        call("evaluate", kernel=f"{LOWER} {text}", note=text)
        call("evaluate", kernel="start", note=f"mine{text}")
    call("submit", kernel=LOWER, note="\ud800\x1b[2J\x9b1m")
    os.write(1, b"\x1b]0;title\x07\x9b1m\xff\xed\xa0\x80\n")


def evaluate_together() -> None:
    """More than its share, all at the same moment."""
    lines = [
        json.dumps({"version": 1, "tool": "evaluate", "arguments": {"kernel": f"toy 9 9 9 8 {n}"}})
        for n in range(12)
    ]
    held = []
    for line in lines:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(SOCKET)
        connection.sendall(line.encode() + b"\n")
        held.append(connection)
    for connection in held:
        with contextlib.suppress(OSError):
            connection.recv(1 << 16)


def exceed() -> None:
    """Short calls with enormous kernels, numbers and names."""
    edit = "<<<<<<< SEARCH\n{0}\n=======\n{0}\n{0}\n>>>>>>> REPLACE\n".format("toy 9 9 9 9 9")
    for edits in (edit * 2000, edit * 90):
        tell(doubled=call("evaluate", kernel="start", edits=edits))
    tell(number=send(b'{"version": ' + b"1" * 10**5 + b', "tool": "evaluate"}\n'))
    tell(infinite=send(b'{"version": 1, "tool": "try", "arguments": {"kernels": 1e999}}\n'))
    tell(named=call("show", kernel="../" * 20 + "etc/passwd"))
    tell(listed=call("asm", kernel=LOWER, loop="lines 1-" + "9" * 5000))


if __name__ == "__main__":
    globals()[sys.argv[2]](*sys.argv[3:])

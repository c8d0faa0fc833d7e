"""Forked processes: each has its own session, environment and files, inherits nothing of another,
and ends with what started it.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.sandbox import forking
from tilewright.sandbox.child import Child
from tilewright.sandbox.forking import Prepared, prepared

pytestmark = pytest.mark.skipif(
    prepared([], {}) is None, reason="this system has no descriptors of processes"
)

PROGRAM = """
import ctypes, os, random, resource, subprocess, sys, tempfile, threading
from tilewright.sandbox.child import Channel

imported_in = os.getpid()
tempfile.gettempdir()  # Python keeps the answer
print("imported", file=sys.stderr, flush=True)

def seen(what):
    return {
        "imported here": imported_in == os.getpid(),
        "environment": dict(os.environ),
        "first environment": open("/proc/self/environ").read(),
        "descriptors": sorted(int(d) for d in os.listdir("/proc/self/fd")),
        "folder": os.getcwd(),
        "temporary": tempfile.gettempdir(),
        "session": [os.getsid(0), os.getpgid(0)],
        "random": random.random(),
        "random of numpy": "numpy" in sys.modules and sys.modules["numpy"].random.random(),
        "arguments": sys.argv,
        "limit": resource.getrlimit(resource.RLIMIT_CORE)[0],
    }

def holds(text):
    # The text is sent backwards, so that this process does not hold it for this reason.
    found, wanted = 0, text[::-1].encode()
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps.read().splitlines():
            begin, end = (int(n, 16) for n in line.split()[0].split("-"))
            if line.split()[1][:2] == "rw":
                memory.seek(begin)
                found += memory.read(end - begin).count(wanted)
    return found - sys.getrefcount(wanted) * 0

def main(words):
    channel = Channel(int(words[0]))
    for message in channel.each_json():
        if message == "crash":
            ctypes.string_at(0)
        elif message == "leave":
            sys.exit(7)
        elif message == "start":
            channel.send_json([subprocess.Popen(["sleep", "600"]).pid])
        elif message == "print":
            print("said", flush=True)
            channel.send_json([])
        elif isinstance(message, list):
            channel.send_json(holds(message[0]))
        else:
            channel.send_json(seen(message))

if __name__ == "__main__":
    main(sys.argv[1:])
"""
THREAD = (
    "import threading, time\nthreading.Thread(target=time.sleep, args=[600], daemon=True).start()"
)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with modules, in which no server has begun yet."""
    (tmp_path / "forked_program.py").write_text(PROGRAM)
    (tmp_path / "with_a_thread.py").write_text(THREAD)
    (tmp_path / "not_importable.py").write_text("raise SystemExit(3)")
    (tmp_path / "no_forks.py").write_text(
        "import os\ndef fork():\n    raise BlockingIOError(11, 'no more processes')\nos.fork = fork"
    )
    before = set(forking._servers)
    yield tmp_path
    for key in set(forking._servers) - before:
        for server in forking._servers.pop(key):
            server.end()


def path(folder: Path) -> str:
    return os.pathsep.join((str(folder), *filter(None, [os.environ.get("PYTHONPATH")])))


def begun(
    folder: Path, *modules: str, output: Any = None, arguments: tuple[str, ...] = (), **more: str
) -> Child:
    environment = {"PYTHONPATH": path(folder)}
    return Child(
        "forked_program",
        *arguments,
        environment={**environment, **more},
        output=output,
        preparation=Prepared(("forked_program", *modules), environment),
    )


def asked(child: Child, message: object = None) -> Any:
    child.send_json(message)
    return child.receive_json()


def server(child: Child) -> int:
    """The process that forked a child."""
    status = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
    return int(status[1])


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def wait_for_end(*pids: int) -> None:
    deadline = time.monotonic() + 60.0
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_processes_of_the_same_modules_have_one_server(folder: Path) -> None:
    first, second = begun(folder), begun(folder)
    assert server(first) == server(second) != os.getpid()
    assert not asked(first)["imported here"]
    other = begun(folder, "json")
    assert server(other) != server(first)
    for child in (first, second, other):
        child.kill()


def test_a_process_gets_what_it_is_given_and_nothing_else(folder: Path) -> None:
    children = [begun(folder, NUMBER=str(number), TMPDIR=str(folder)) for number in range(3)]
    for number, child in enumerate(children):
        found = asked(child)
        given = {"PYTHONPATH": path(folder), "NUMBER": str(number), "TMPDIR": str(folder)}
        assert found["environment"] == given
        assert "NUMBER" not in found["first environment"]
        assert found["temporary"] == str(folder)
        assert found["folder"] == str(Path.cwd())
        assert found["session"] == [child.pid, child.pid]
        # The last is the folder that is listed.
        assert found["descriptors"][:3] == [0, 1, 2]
        assert len(found["descriptors"]) == 5
    assert len({asked(child)["random"] for child in children}) == 3
    for child in children:
        child.kill()


def test_nothing_that_another_process_is_told_is_in_its_memory(folder: Path) -> None:
    secret = secrets.token_hex(20)
    first = begun(folder, SOME_API_KEY=secret)
    assert asked(first, [secret[::-1]]) > 1, "the test finds no secrets"
    second = begun(folder)
    own = asked(second, ["0123456789" * 4])
    assert asked(second, [secret[::-1]]) <= own, "the secret of another process was found"
    first.kill()
    second.kill()


def test_it_begins_in_the_folder_with_the_limits_and_the_mask_of_now(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import resource

    first = begun(folder)
    before = asked(first)
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    monkeypatch.chdir(tmp_path)
    other = 4096 if soft != 4096 and hard != 0 else 0
    resource.setrlimit(resource.RLIMIT_CORE, (other, hard))
    try:
        second = begun(folder)
        found = asked(second)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))
    assert (found["folder"], found["limit"]) == (str(tmp_path), other)
    assert before["limit"] == soft
    first.kill()
    second.kill()


@pytest.mark.parametrize(
    ("message", "status", "words"),
    [("crash", -signal.SIGSEGV, "was killed by SIGSEGV"), ("leave", 7, "ended with status 7")],
)
def test_its_end_is_reported_and_harms_no_other(
    folder: Path, message: str, status: int, words: str
) -> None:
    first, second = begun(folder), begun(folder)
    asked(second)
    first.send_json(message)
    assert first.wait() == status
    with pytest.raises(EOFError):
        first.receive_json()
    first.kill()
    assert first.exit_text == words
    assert asked(second)["session"] == [second.pid, second.pid]
    second.kill()


def test_what_it_started_ends_with_it(folder: Path) -> None:
    killed, left, other = begun(folder), begun(folder), begun(folder)
    (one,), (two,), (three,) = (asked(child, "start") for child in (killed, left, other))
    killed.kill()
    assert killed.exit_text == "was killed by SIGKILL"
    left.send_json("leave")
    assert left.wait() == 7
    wait_for_end(one, two)
    assert is_running(three)
    left.kill()
    other.kill()


def test_it_prints_where_it_is_told(folder: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        with (tmp_path / name).open("w+b") as log:
            child = begun(folder, output=log)
            asked(child, "print")
            child.kill()
    assert (tmp_path / "first").read_text() == "imported\nsaid\n"
    assert (tmp_path / "second").read_text() == "said\n"


def test_a_killed_server_ends_its_processes_and_is_replaced(folder: Path) -> None:
    first = begun(folder)
    asked(first)
    pid = first.pid
    os.kill(server(first), signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    wait_for_end(pid)
    first.kill()
    second = begun(folder)
    assert asked(second)["session"] == [second.pid, second.pid]
    second.kill()


def test_a_server_that_does_not_begin_says_why(folder: Path, tmp_path: Path) -> None:
    (folder / "sitecustomize.py").write_text(
        "import os\nprint('no start', flush=True)\nos._exit(9)"
    )
    for _ in range(2):
        with (tmp_path / "log").open("w+b") as log:
            child = begun(folder, output=log)
            with pytest.raises(EOFError):
                child.receive_json()
            assert child.wait() == 9
            with pytest.raises(ProcessLookupError):
                child.pid  # noqa: B018
            child.kill()
        assert "no start" in (tmp_path / "log").read_text()


def test_a_server_that_ended_before_it_received_a_request_says_why(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(forking.ForkServer):
        def fork(self, channel: int, output: int, errors: int) -> forking.Forked:
            self._process.wait(60.0)
            return super().fork(channel, output, errors)

    monkeypatch.setattr(forking, "ForkServer", Late)
    test_a_server_that_does_not_begin_says_why(folder, tmp_path)


def test_a_server_that_cannot_fork_says_why(folder: Path, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+b") as log:
        child = begun(folder, "no_forks", output=log)
        assert child.wait() == 1
        child.kill()
    assert "a process cannot be started: no more processes" in (tmp_path / "log").read_text()


def test_only_modules_of_this_package_are_imported_before_a_process_is_forked() -> None:
    preparation = prepared(["somebody.s_target", "tilewright.targets.host_c"], {})
    assert preparation is not None
    assert preparation.modules == ("tilewright.targets.host_c",)


def test_the_random_numbers_of_numpy_differ_between_processes(folder: Path) -> None:
    (folder / "uses_numpy.py").write_text("import numpy\nnumpy.random.random()")
    variables = {"PYTHONPATH": path(folder), "OPENBLAS_NUM_THREADS": "1"}  # without threads
    preparation = Prepared(("forked_program", "uses_numpy"), variables)
    children = [
        Child("forked_program", environment=variables, preparation=preparation) for _ in range(2)
    ]
    answers = [asked(child) for child in children]
    assert not any(answer["imported here"] for answer in answers)
    assert len({answer["random of numpy"] for answer in answers}) == 2
    for child in children:
        child.kill()


def test_modules_that_cannot_be_imported_are_left_to_the_process(folder: Path) -> None:
    child = begun(folder, "not_importable", "no_such_module")
    assert not asked(child)["imported here"]
    child.kill()


def test_modules_that_start_threads_are_imported_in_each_process(folder: Path) -> None:
    child = begun(folder, "with_a_thread", arguments=("word",))
    found = asked(child)
    assert found["imported here"]
    assert found["arguments"][-1] == "word"
    assert found["session"] == [child.pid, child.pid]
    assert found["environment"]["PYTHONPATH"] == path(folder)
    child.kill()


def test_imports_that_do_not_end_can_be_given_up(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "endless.py").write_text("import time\ntime.sleep(600)")
    monkeypatch.setattr(forking, "_START_S", 0.1)
    monkeypatch.setattr(forking, "_END_S", 0.1)
    child = begun(folder, "endless")
    child.kill()
    assert child.exit_text == "was killed by SIGKILL"


def test_an_idle_server_ends_and_is_replaced(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "short.py").write_text(
        "import sys\nsys.modules['__main__'].IDLE_S = 0.2  # of the server"
    )
    child = begun(folder, "short")
    first = server(child)
    time.sleep(0.5)
    assert asked(child), "a server with a process has ended"
    child.kill()
    wait_for_end(first)
    child = begun(folder, "short")
    assert server(child) != first
    child.kill()


PARENT = """
import os, sys, time
sys.path.insert(0, {here!r})
from test_forking import begun, asked, server
from pathlib import Path
child = begun(Path({folder!r}))
(started,) = asked(child, "start")
print(child.pid, server(child), started, flush=True)
{end}
"""


@pytest.mark.parametrize(
    "end", ["time.sleep(600)", "pass", "os.kill(os.getpid(), 9)", "os.fork() or time.sleep(9)"]
)
def test_nothing_is_left_of_a_parent_that_ends(folder: Path, end: str) -> None:
    program = PARENT.format(here=str(Path(__file__).parent), folder=str(folder), end=end)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        pids = [int(word) for word in process.stdout.readline().split()]
        assert len(pids) == 3
        if "600" in end:
            process.kill()
    wait_for_end(*pids[:2])
    wait_for_end(*pids)


def test_a_forked_copy_of_this_process_has_its_own_servers(folder: Path) -> None:
    mine = begun(folder)
    reading, writing = os.pipe()
    copy = os.fork()
    if copy == 0:
        status = 1
        try:
            child = begun(folder)
            os.write(writing, f"{server(child)}".encode())
            child.kill()
            forking._end_servers()
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    theirs = int(os.read(reading, 100))
    os.close(reading)
    assert os.waitpid(copy, 0)[1] == 0
    assert theirs != server(mine)
    assert asked(mine)
    mine.kill()


@pytest.mark.slow
def test_processes_are_started_and_killed_in_many_threads(folder: Path) -> None:
    failed: list[BaseException] = []

    def use() -> None:
        try:
            for _ in range(5):
                child = begun(folder)
                assert asked(child)["session"] == [child.pid, child.pid]
                child.kill()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_nothing_of_a_process_is_left_in_this_one(folder: Path) -> None:
    begun(folder).kill()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    for _ in range(3):
        begun(folder).kill()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208

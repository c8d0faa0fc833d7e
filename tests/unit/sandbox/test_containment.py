"""Every level this machine offers: what a contained command may not do, and how it is ended."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import re
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from plain_user import in_child

from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder, read_output
from tilewright.sandbox.confine import Level, levels
from tilewright.sandbox.seccomp import create_filter, denied_numbers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containment is Linux's")

PATH = {"PATH": "/usr/bin:/bin"}


@dataclass(frozen=True)
class Setting:
    """A level, for this user or for one without rights."""

    level: Level
    plain: bool

    def __str__(self) -> str:
        return f"{self.level.name}{' as a plain user' * self.plain}"


def _working() -> list[Level]:
    found = []
    for level in levels():
        with open_folder("tilewright-test-") as folder:
            try:
                ended = Sandbox(level).run(["/bin/true"], Path(folder), Limits(10.0))
            except Exception:
                continue
            if ended.status == 0:
                found.append(level)
    return found


WORKING = _working()
SETTINGS = [Setting(level, False) for level in WORKING]
if os.geteuid() == 0:
    SETTINGS += [Setting(level, True) for level in in_child(_working, plain=True)]
STRONG = [setting for setting in SETTINGS if setting.level.kind != "rlimits"]


def shell(setting: Setting, script: str, bounds: Limits | None = None) -> tuple[int | None, str]:
    def run() -> tuple[int | None, str]:
        with open_folder("tilewright-test-") as folder:
            ended = Sandbox(setting.level).run(
                ["/bin/sh", "-c", script], Path(folder), bounds or Limits(20.0), PATH
            )
        return ended.status, ended.output.decode(errors="replace")

    return in_child(run, plain=True) if setting.plain else run()


@pytest.fixture(params=SETTINGS, ids=str)
def level(request: pytest.FixtureRequest) -> Setting:
    found: Setting = request.param
    return found


@pytest.fixture(params=STRONG, ids=str)
def strong(request: pytest.FixtureRequest) -> Setting:
    if not STRONG:
        pytest.skip("neither bubblewrap nor Landlock works here")
    found: Setting = request.param
    return found


def test_a_plain_user_is_contained_as_strongly() -> None:
    """The same kind of level is found, and its processes are counted where Linux can."""
    plain = [setting.level for setting in SETTINGS if setting.plain]
    if not plain:
        pytest.skip("the tests run as a plain user themselves")
    assert plain[0].kind == WORKING[0].kind
    assert not any(level.own_user for level in plain)
    assert in_child(find_sandbox, plain=True).level == plain[0]


def test_a_command_works_in_its_folder(level: Setting) -> None:
    status, output = shell(level, "echo one > file && cat file && pwd")
    assert status == 0, output
    assert output.startswith("one\n/")


def test_the_environment_is_not_passed_on(level: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    _, output = shell(level, "env")
    assert "PATH=/usr/bin:/bin" in output
    assert "secret" not in output


def test_time_ends_a_command_and_its_children(level: Setting) -> None:
    started = time.monotonic()
    status, _ = shell(level, "sleep 100 & sleep 100", Limits(0.5))
    assert status is None
    assert time.monotonic() - started < 60


def test_a_child_left_behind_is_killed(level: Setting) -> None:
    seconds = f"{60 + random.random():.9f}"  # by which it is known again
    status, _ = shell(level, f"sleep {seconds} & exit 0")
    assert status == 0
    deadline = time.monotonic() + 120
    while any(seconds.encode() in line for line in _command_lines()):
        assert time.monotonic() < deadline, "the child lives on"
        time.sleep(0.05)


def _command_lines() -> Iterator[bytes]:
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield (process / "cmdline").read_bytes()


def test_printing_and_files_are_bounded(level: Setting) -> None:
    bounds = Limits(20.0, file_bytes=1 << 20, output_bytes=1 << 10)
    status, output = shell(level, "yes > file; ls -l file; yes", bounds)
    assert len(output) == 1 << 10
    assert "1048576" in output
    assert status != 0


def test_memory_is_bounded(level: Setting) -> None:
    bounds = Limits(20.0, memory_bytes=256 << 20)
    status, _ = shell(level, "dd if=/dev/zero of=/dev/null bs=1000M count=1", bounds)
    assert status != 0


@pytest.mark.parametrize("of_all", [False, True])
def test_memory_is_bounded_in_sum(level: Setting, of_all: bool) -> None:
    """Four processes of 20 MB and more each, and every one within its own bound."""
    bounds = Limits(60.0, total_memory_bytes=(64 if of_all else 1024) << 20)
    # Those to be killed wait for each other, however slowly a busy machine starts them. The shell
    # would become its last command, and hold nothing any more.
    hold = f"held=$(head -c 20000000 /dev/zero | tr '\\0' x); sleep {30 if of_all else 1}; :"
    script = f"for i in 1 2 3 4; do ({hold}) & done; wait"
    status, output = shell(level, script, bounds)
    if of_all:
        assert status == -signal.SIGKILL, output
        assert output.endswith("killed: its processes took more than 64 MiB of memory together.\n")
    else:
        assert status == 0, output


@pytest.mark.parametrize("of_all", [False, True])
@pytest.mark.parametrize("deleted", [False, True])
def test_files_are_bounded_in_sum(level: Setting, of_all: bool, deleted: bool) -> None:
    """Sixteen files of a megabyte each, and every one within its own bound.

    Deleted files count while processes, here the shell's children, have them open.
    """
    bounds = Limits(60.0, file_bytes=2 << 20, total_file_bytes=(8 if of_all else 64) << 20)
    wait = "sleep 30" if of_all else "true"
    script = f"for i in $(seq 16); do head -c 1000000 /dev/zero > f$i || exit 1; done; {wait}"
    if deleted:
        hold = f"rm f$i; head -c 1000000 /dev/zero >&3 || exit 1; sleep {30 if of_all else 1}; :"
        script = f"for i in $(seq 16); do (exec 3>f$i; {hold}) & done; wait"
    status, output = shell(level, script, bounds)
    if of_all:
        assert status == -signal.SIGKILL, output
        assert output.endswith("killed: it wrote more than 8 MiB to files together.\n")
    else:
        assert status == 0, output


def test_forks_are_bounded(level: Setting) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait; echo all"
    status, output = shell(level, script, Limits(20.0, processes=6))
    assert "all" not in output
    assert status != 0
    if not (level.level.own_user or level.level.own_count):  # the kernel does not count them
        assert output.endswith("killed: it started more than 6 processes.\n")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/proc/1/environ", "/proc/self/mem", str(Path(__file__).resolve())]
)
def test_files_of_the_host_are_unseen(strong: Setting, path: str) -> None:
    status, output = shell(strong, f"head -c 1 {path} >/dev/null")
    if path == "/proc/self/mem" and strong.level.kind == "bubblewrap":
        return  # its own memory, in its own /proc
    if path == "/proc/1/environ" and strong.level.kind == "bubblewrap":
        return  # bubblewrap's own first process, with the same clean environment
    assert status != 0
    assert "No such file" in output or "denied" in output


def test_nothing_is_written_outside(strong: Setting, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    victim = tmp_path / "victim"
    victim.write_text("kept")
    victim.chmod(0o666)
    status, _ = shell(strong, f"echo changed > {victim}; echo new > {tmp_path}/new")
    assert status != 0
    assert victim.read_text() == "kept"
    assert not (tmp_path / "new").exists()


def test_private_tmp(strong: Setting) -> None:
    _, output = shell(strong, "echo x > /tmp/tilewright-leak; ls -a /tmp")
    assert not Path("/tmp/tilewright-leak").exists()
    assert "pytest" not in output


PYTHON_ATTACKS = {
    "a socket": "import socket; socket.socket()",
    "a Unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "a signal": "import os; os.kill(os.getppid(), 0)",
    "leaving the group": "import os; os.setpgid(0, 0)",
    "leaving the session": "import os; os.fork() and os._exit(1); os.setsid(); os._exit(0)",
    "a trace": "import ctypes; assert ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0",
    "a namespace": "import ctypes; assert ctypes.CDLL(None).unshare(0x10000000) == 0",
    "shared memory": "import ctypes; assert ctypes.CDLL(None).shmget(0, 4096, 0o1600) >= 0",
    "hidden memory": "import os; os.memfd_create('x')",
    "the clock": "import time; time.clock_settime(0, 0)",
}


@pytest.mark.skipif(not Path("/usr/bin/python3").exists(), reason="needs a system Python")
@pytest.mark.skipif(create_filter() is None, reason="no filter for this architecture")
@pytest.mark.parametrize("name", PYTHON_ATTACKS)
def test_system_calls_are_refused(strong: Setting, name: str) -> None:
    script = f'/usr/bin/python3 -I -S -c "{PYTHON_ATTACKS[name]}" && echo reached'
    _, output = shell(strong, "/usr/bin/python3 -I -S -c 'print(1 + 1)' && " + script)
    assert output.startswith("2\n")
    assert "reached" not in output


def test_what_is_read_back_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "link").symlink_to("secret")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(100))
    (tmp_path / "good").write_bytes(b"good")
    assert read_output(tmp_path / "good", 10) == b"good"
    for name in ("link", "pipe", "large", "missing", "."):
        with pytest.raises(OSError, match=r"."):
            read_output(tmp_path / name, 10)


def test_the_strongest_working_level_is_found_and_named() -> None:
    found = find_sandbox()
    assert found.level == WORKING[0]
    assert found.name.split("+")[0] == WORKING[0].kind


def test_levels_that_cannot_read_what_is_needed_are_passed_over(tmp_path: Path) -> None:
    """A checkout below a home that only its owner enters is closed to a user of the sandbox."""
    if not any(level.own_user for level in WORKING):
        pytest.skip("no level here runs as another user")
    home = tmp_path / "home"
    checkout = home / "checkout"
    checkout.mkdir(parents=True)
    home.chmod(0o700)
    found = find_sandbox((checkout,))
    assert not found.level.own_user
    assert found.level == next(level for level in WORKING if not level.own_user)
    with open_folder("tilewright-test-") as work:
        listed = found.run(["/bin/ls", str(checkout)], Path(work), Limits(20.0), PATH)
    assert listed.status == 0


def test_what_does_not_exist_need_not_be_readable(tmp_path: Path) -> None:
    assert find_sandbox((tmp_path / "missing",)).level == WORKING[0]


def test_a_probe_that_never_runs() -> None:
    with pytest.raises(OSError, match="does not run"):
        find_sandbox(probe=("/bin/false",))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="compares with this machine's header")
def test_numbers_are_those_of_the_kernel() -> None:
    headers = list(Path("/usr/include").glob("*/asm/unistd_64.h"))
    if not headers:
        pytest.skip("the kernel's headers are not installed")
    numbers = dict(re.findall(r"#define __NR_(\w+) (\d+)", headers[0].read_text()))
    known = {n: int(numbers[n]) for n in denied_numbers("x86_64") if n in numbers}
    assert known == {n: v for n, v in denied_numbers("x86_64").items() if n in numbers}
    assert len(known) > 40

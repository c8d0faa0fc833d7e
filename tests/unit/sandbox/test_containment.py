"""Every level this machine offers: what a contained command may not do, and how it is ended."""

from __future__ import annotations

import os
import platform
import re
import sys
import time
from pathlib import Path

import pytest

from tilewright.sandbox import Limits, Sandbox, find_sandbox, open_folder, read_output
from tilewright.sandbox.confine import Level, levels
from tilewright.sandbox.seccomp import create_filter, denied_numbers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="containment is Linux's")

PATH = {"PATH": "/usr/bin:/bin"}


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
STRONG = [level for level in WORKING if level.kind != "rlimits"]


def shell(level: Level, script: str, bounds: Limits | None = None) -> tuple[int | None, str]:
    with open_folder("tilewright-test-") as folder:
        ended = Sandbox(level).run(
            ["/bin/sh", "-c", script], Path(folder), bounds or Limits(20.0), PATH
        )
    return ended.status, ended.output.decode(errors="replace")


@pytest.fixture(params=WORKING, ids=lambda level: level.name)
def level(request: pytest.FixtureRequest) -> Level:
    found: Level = request.param
    return found


@pytest.fixture(params=STRONG, ids=lambda level: level.name)
def strong(request: pytest.FixtureRequest) -> Level:
    if not STRONG:
        pytest.skip("neither bubblewrap nor Landlock works here")
    found: Level = request.param
    return found


def test_a_command_works_in_its_folder(level: Level) -> None:
    status, output = shell(level, "echo one > file && cat file && pwd")
    assert status == 0, output
    assert output.startswith("one\n/")


def test_the_environment_is_not_passed_on(level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    _, output = shell(level, "env")
    assert "PATH=/usr/bin:/bin" in output
    assert "secret" not in output


def test_time_ends_a_command_and_its_children(level: Level) -> None:
    started = time.monotonic()
    status, _ = shell(level, "sleep 100 & sleep 100", Limits(0.5))
    assert status is None
    assert time.monotonic() - started < 60


def test_a_child_left_behind_is_killed(level: Level, tmp_path: Path) -> None:
    with open_folder("tilewright-test-") as name:
        script = "(sleep 2; touch late) & exit 0"
        ended = Sandbox(level).run(["/bin/sh", "-c", script], Path(name), Limits(20.0), PATH)
        assert ended.status == 0
        time.sleep(3)
        assert not (Path(name) / "late").exists()


def test_printing_and_files_are_bounded(level: Level) -> None:
    bounds = Limits(20.0, file_bytes=1 << 20, output_bytes=1 << 10)
    status, output = shell(level, "yes > file; ls -l file; yes", bounds)
    assert len(output) == 1 << 10
    assert "1048576" in output
    assert status != 0


def test_memory_is_bounded(level: Level) -> None:
    bounds = Limits(20.0, memory_bytes=256 << 20)
    status, _ = shell(level, "dd if=/dev/zero of=/dev/null bs=1000M count=1", bounds)
    assert status != 0


def test_forks_are_bounded(level: Level) -> None:
    if not (level.own_user or level.own_count):
        pytest.skip("root's processes are not counted, and no other user can be had")
    script = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do sleep 1 & done; wait; echo all"
    status, output = shell(level, script, Limits(20.0, processes=6))
    assert "all" not in output
    assert status != 0


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/proc/1/environ", "/proc/self/mem", str(Path(__file__).resolve())]
)
def test_files_of_the_host_are_unseen(strong: Level, path: str) -> None:
    status, output = shell(strong, f"head -c 1 {path} >/dev/null")
    if path == "/proc/self/mem" and strong.kind == "bubblewrap":
        return  # its own memory, in its own /proc
    if path == "/proc/1/environ" and strong.kind == "bubblewrap":
        return  # bubblewrap's own first process, with the same clean environment
    assert status != 0
    assert "No such file" in output or "denied" in output


def test_nothing_is_written_outside(strong: Level, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    victim = tmp_path / "victim"
    victim.write_text("kept")
    victim.chmod(0o666)
    status, _ = shell(strong, f"echo changed > {victim}; echo new > {tmp_path}/new")
    assert status != 0
    assert victim.read_text() == "kept"
    assert not (tmp_path / "new").exists()


def test_private_tmp(strong: Level) -> None:
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
def test_system_calls_are_refused(strong: Level, name: str) -> None:
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

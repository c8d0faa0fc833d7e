"""The program that restricts itself and becomes a command: no command runs less restricted than
asked, or with anything that it was not given.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from plain_user import in_child

from tilewright.core.errors import ToolchainMissingError
from tilewright.sandbox import Limits, Sandbox, launcher, limits, open_folder, seccomp
from tilewright.sandbox.confine import Level, levels
from tilewright.sandbox.launcher import launched

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="most steps are Linux's")

PYTHON = "/usr/bin/python3"
needs_python = pytest.mark.skipif(not Path(PYTHON).exists(), reason="needs a system Python")
FILTER = seccomp.create_filter() or b""
needs_filter = pytest.mark.skipif(not FILTER, reason="no filter for this architecture")
INSTRUCTION_BYTES = 8


def run(
    folder: Path,
    steps: Sequence[str],
    command: Sequence[str] = ("/bin/sh", "-c", "echo run > run; cat file"),
    environment: Mapping[str, str] | None = None,
    pass_on: Sequence[int] = (),
) -> tuple[int, str]:
    """The exit status and the output of a command after these steps."""
    with (folder / "output").open("w+b") as output:
        process = launched(
            steps,
            command,
            folder=folder,
            environment=environment or {},
            output=output,
            pass_on=pass_on,
        )
        status = process.wait()
        output.seek(0)
        return status, output.read().decode()


def children() -> set[str]:
    """The processes that this one has started and whose end it has not been told."""
    tasks = Path("/proc/self/task").iterdir()
    return {child for task in tasks for child in (task / "children").read_text().split()}


def refused(folder: Path, step: str, *before: str, pass_on: Sequence[int] = ()) -> str:
    """The message after a step that fails. The command must not run, and leave no process."""
    name, others = step.partition("=")[0], children()
    with pytest.raises(OSError, match=f"cannot be set up at the step '{name}': ") as failure:
        run(folder, [*before, step], pass_on=pass_on)
    assert not (folder / "run").exists(), "the command ran"
    assert children() <= others
    return str(failure.value)


def test_without_steps_a_command_runs(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    assert run(tmp_path, []) == (0, "content")
    assert (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "step",
    [
        "limit=9999:1", "limit=7", "limit=7:", "limit=7:x", "limit=7:-1", "limit=7: 1",
        "limit=7:1x", "limit=7:99999999999999999999", "limit=x:1", "limit=", "limit",
        "user=", "user=x", "user=-1", "user=4294967296", "user=1 ",
        "group=", "group=x", "group=-1", "group=999",
        "namespace=", "namespace=mount", "parent=", "parent=x", "parent=1",
        "capabilities=", "capabilities=all", "new_privileges=", "new_privileges=some",
        "landlock=", "landlock=0", "landlock=999", "landlock=-1",
        "seccomp=", "seccomp=0:", "seccomp=1:", "seccomp=1:060000000000ff7", "seccomp=:",
        "seccomp=1:060000000000ff7g", "seccomp=1:060000000000FF7F", "seccomp=5000:06",
        "unknown=1", "LIMIT=7:1", "",
    ],
)  # fmt: skip
def test_a_step_that_cannot_be_carried_out_ends_it(tmp_path: Path, step: str) -> None:
    refused(tmp_path, step, "new_privileges=none")


@needs_filter
@pytest.mark.parametrize("cut", [1, 2, INSTRUCTION_BYTES * 2, len(FILTER), 2 * len(FILTER)])
def test_a_filter_that_is_cut_is_refused(tmp_path: Path, cut: int) -> None:
    refused(tmp_path, seccomp.step(FILTER)[:-cut], "new_privileges=none")


@needs_filter
@pytest.mark.parametrize("kept", [1, len(FILTER) // INSTRUCTION_BYTES - 1])
def test_a_filter_that_ends_too_early_is_refused(tmp_path: Path, kept: int) -> None:
    """With the right number of instructions, the system finds that the last one is no `return`."""
    code = FILTER[: kept * INSTRUCTION_BYTES] if kept == 1 else FILTER[:-INSTRUCTION_BYTES]
    assert "Invalid argument" in refused(tmp_path, seccomp.step(code), "new_privileges=none")


@needs_filter
def test_more_bytes_than_instructions_are_refused(tmp_path: Path) -> None:
    refused(tmp_path, seccomp.step(FILTER) + "00", "new_privileges=none")


def test_a_step_that_the_system_refuses_ends_it() -> None:
    """A user without rights cannot become another user or install rules without `no_new_privs`."""

    def child() -> list[str]:
        with open_folder("launcher-") as name:
            steps = ["user=31000", "landlock=0", seccomp.step(FILTER)]
            return [refused(Path(name), step) for step in steps[: 3 if FILTER else 2]]

    user, *_ = in_child(child, plain=True)
    assert "Operation not permitted" in user


def test_the_steps_before_a_failure_do_not_matter(tmp_path: Path) -> None:
    before = [*limits.steps(Limits(5.0), count_processes=False), "new_privileges=none"]
    refused(tmp_path, "landlock=0", *before)


@pytest.mark.parametrize(
    ("name", "content", "mode", "error"),
    [
        ("missing", None, 0, FileNotFoundError),
        ("folder", None, 0, PermissionError),
        ("text", b"echo run > run\n", 0o755, OSError),  # which a shell would run
        ("closed", b"#!/bin/sh\necho run > run\n", 0o644, PermissionError),
        ("interpreter", b"#!/missing\n", 0o755, FileNotFoundError),
        ("half", b"\x7fELF\x02\x01", 0o755, OSError),
    ],
)
@pytest.mark.parametrize("through_path", [False, True])
def test_a_command_that_cannot_be_executed(
    tmp_path: Path,
    name: str,
    content: bytes | None,
    mode: int,
    error: type[OSError],
    through_path: bool,
) -> None:
    (tmp_path / "folder").mkdir()
    if content is not None:
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    command = name if through_path else f"./{name}"
    with pytest.raises(error) as failure:
        run(tmp_path, [], [command], {"PATH": f"/missing:{tmp_path}"})
    assert failure.value.filename == command
    assert not (tmp_path / "run").exists()


def test_a_command_is_found_in_the_folders_of_its_own_path(tmp_path: Path) -> None:
    (tmp_path / "found").write_text("#!/bin/sh\necho found $1\n")
    (tmp_path / "found").chmod(0o755)
    for path in (f"/missing:{tmp_path}", f"{tmp_path}:/bin", ":/missing", "/missing:", ""):
        assert run(tmp_path, [], ["found", "here"], {"PATH": path}) == (0, "found here\n")
    with pytest.raises(FileNotFoundError):
        run(tmp_path, [], ["found"])
    assert run(tmp_path, [], ["true"]) == (0, "")


@pytest.fixture(params=[level for level in levels() if level.kind != "bubblewrap"], ids=str)
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    level: Level = request.param
    if not _works(level):
        pytest.skip(f"{level.name} does not work here")
    return Sandbox(level)


def _works(level: Level) -> bool:
    with open_folder("launcher-") as name:
        try:
            return Sandbox(level).run(["/bin/true"], Path(name), Limits(10.0)).status == 0
        except OSError:
            return False


def printed(sandbox: Sandbox, command: Sequence[str], bounds: Limits, **given: object) -> str:
    with open_folder("launcher-") as name, open(Path(name) / "output", "w+b") as output:  # noqa: PTH123
        with sandbox.started(command, Path(name), bounds, output=output, **given) as process:  # type: ignore[arg-type]
            assert process.wait() == 0
        output.seek(0)
        return output.read().decode().replace(name, "FOLDER")


def test_nothing_but_the_given_environment(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    output = printed(sandbox, ["/usr/bin/env"], Limits(10.0), environment={"A": "1"})
    assert sorted(output.splitlines()) == ["A=1", "LC_ALL=C", "TMPDIR=FOLDER"]


@needs_python
def test_nothing_but_the_given_descriptors(sandbox: Sandbox) -> None:
    script = """
import os
def is_open(number):
    try:
        return os.fstat(number) is not None
    except OSError:
        return False
print(*filter(is_open, range(1024)))
"""
    reading, writing = os.pipe()
    inherited = os.dup(reading)
    os.set_inheritable(inherited, True)
    try:
        output = printed(
            sandbox, [PYTHON, "-I", "-S", "-c", script], Limits(10.0), pass_on=[writing]
        )
    finally:
        for descriptor in (reading, writing, inherited):
            os.close(descriptor)
    assert output.split() == ["0", "1", "2", str(writing)]


@needs_python
def test_every_limit_is_applied_and_cannot_be_raised(sandbox: Sandbox) -> None:
    bounds = Limits(7.0, memory_bytes=1 << 30, file_bytes=1 << 20, processes=30, open_files=40)
    script = "import json, resource as r\nprint(json.dumps([r.getrlimit(n) for n in range(16)]))"
    found = json.loads(printed(sandbox, [PYTHON, "-I", "-S", "-c", script], bounds))
    wanted = {
        resource.RLIMIT_CPU: 8,
        resource.RLIMIT_AS: 1 << 30,
        resource.RLIMIT_FSIZE: 1 << 20,
        resource.RLIMIT_NOFILE: 40,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
    }
    if sandbox.level.own_user or sandbox.level.own_count:
        wanted[resource.RLIMIT_NPROC] = 30
    assert {kind: tuple(found[kind]) for kind in wanted} == {
        kind: (value, value) for kind, value in wanted.items()
    }


def test_a_lower_limit_of_the_parent_stays(tmp_path: Path) -> None:
    def child() -> str:
        resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
        steps = limits.steps(Limits(200.0), count_processes=False)
        with open_folder("launcher-") as name:
            return run(Path(name), steps, ["/bin/sh", "-c", "ulimit -t; ulimit -H -t"])[1]

    assert in_child(child, plain=False).split() == ["100", "100"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
@pytest.mark.parametrize("own_user", [False, True])
def test_no_right_of_root_remains(own_user: bool) -> None:
    level = Level("rlimits", own_user)
    if level not in levels():
        pytest.skip("no other user can be had")
    output = printed(Sandbox(level), ["/bin/cat", "/proc/self/status"], Limits(10.0))
    status = dict(line.split(":\t", 1) for line in output.splitlines() if ":\t" in line)
    sets = [status[name] for name in ("CapInh", "CapPrm", "CapEff")]
    assert [int(text, 16) for text in sets] == [0, 0, 0]
    assert status["NoNewPrivs"] == "1"
    user = limits.unused_user() if own_user else 0
    assert status["Uid"].split() == status["Gid"].split() == [str(user)] * 4
    assert status["Groups"].split() in ([], [str(user)]) or not own_user


def test_the_command_ends_with_its_parent(sandbox: Sandbox) -> None:
    """Also without a chance to end it: the parent ends without leaving any context."""
    kept = []

    def child() -> int:
        with open_folder("launcher-") as name:
            context = sandbox.started(["/bin/sleep", "600"], Path(name), Limits(20.0))
            kept.append(context)  # which would end the command when it is no longer used
            return context.__enter__().pid

    started = in_child(child, plain=False)
    try:
        handle = os.pidfd_open(started)
    except ProcessLookupError:
        return
    with open(handle) as ended:  # noqa: PTH123 (a descriptor, not a path)
        assert select.select([ended], [], [], 60)[0], "the command lives on"


def test_it_is_started_without_a_copy_of_this_process(sandbox: Sandbox) -> None:
    """Python calls these functions whenever it has to `fork` instead of `vfork`."""

    def child() -> list[str]:
        called: list[str] = []
        os.register_at_fork(before=lambda: called.append("fork"))
        assert printed(sandbox, ["/bin/true"], Limits(10.0)) == ""
        assert not called
        subprocess.run(["/bin/true"], preexec_fn=lambda: None, check=True)
        return called

    assert in_child(child, plain=False) == ["fork"]


def test_the_parent_is_named_by_its_number(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert run(tmp_path, [f"parent={os.getpid()}"])[0] == 0
    (tmp_path / "run").unlink()
    assert "No such process" in refused(tmp_path, f"parent={os.getppid()}")


def test_an_incomplete_installation_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher.resources, "files", lambda _: tmp_path)
    launcher.find_program.cache_clear()
    try:
        with pytest.raises(ToolchainMissingError, match="sandbox/launcher"):
            run(tmp_path, [])
    finally:
        launcher.find_program.cache_clear()


@needs_filter
@pytest.mark.skipif(platform.machine() != "x86_64", reason="compares numbers of x86-64")
def test_a_filter_is_in_force_when_the_command_begins(tmp_path: Path) -> None:
    """A filter that kills at `exit_group`, the last call of every program."""
    load, equal, kill, allow = (
        bytes.fromhex(text)
        for text in ("2000000000000000", "15000001e7000000", "0600000000000080", "060000000000ff7f")
    )
    steps = ["new_privileges=none", seccomp.step(load + equal + kill + allow)]
    assert run(tmp_path, steps, ["/bin/true"])[0] == -signal.SIGSYS

"""Control groups, on a made-up file system of them: few machines let a test make real ones."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from tilewright.sandbox import Limits, open_folder, process
from tilewright.sandbox.confine import Level
from tilewright.sandbox.control_group import control_group, counting_group, parent_group
from tilewright.sandbox.process import Sandbox

BOUNDS = Limits(5.0, total_memory_bytes=64 << 20, processes=7)


@pytest.fixture
def tree(tmp_path: Path) -> tuple[Path, Path]:
    """The root of all groups, and the file that says which one this process is in."""
    parent = tmp_path / "groups" / "user" / "app"
    (parent / "scope").mkdir(parents=True)
    (parent / "cgroup.subtree_control").write_text("cpu memory pids\n")
    (parent / "cgroup.procs").write_text("")
    own = tmp_path / "own"
    own.write_text("0::/user/app/scope\n")
    return tmp_path / "groups", own


@pytest.fixture
def like_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """New groups have their files, and go away with them."""
    mkdir = Path.mkdir

    def made(self: Path, *given: object, **more: object) -> None:
        mkdir(self, *given, **more)  # type: ignore[arg-type]
        (self / "cgroup.procs").write_text("")
        (self / "memory.events").write_text("low 0\noom 0\noom_kill 0\n")

    monkeypatch.setattr(Path, "mkdir", made)
    monkeypatch.setattr(Path, "rmdir", lambda self: shutil.rmtree(self))


def test_the_group_around_is_the_place_for_further_ones(tree: tuple[Path, Path]) -> None:
    root, own = tree
    parent = root / "user" / "app"
    assert parent_group(root, own) == parent
    (parent / "cgroup.subtree_control").write_text("cpu pids\n")
    assert parent_group(root, own) is None


@pytest.mark.parametrize(
    "text", ["0::/\n", "5:memory:/user/app\n1:name=systemd:/\n", "", "0::/elsewhere/scope\n"]
)
def test_where_there_is_no_such_group_there_is_none(tree: tuple[Path, Path], text: str) -> None:
    root, own = tree
    own.write_text(text)
    assert parent_group(root, own) is None
    with control_group(BOUNDS, root, own) as group:
        assert group is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_somebody_elses_group_is_left_alone(tree: tuple[Path, Path]) -> None:
    root, own = tree
    (root / "user" / "app" / "cgroup.procs").chmod(0o400)
    assert parent_group(root, own) is None


def test_a_group_has_the_bounds_and_goes_away(
    tree: tuple[Path, Path], like_the_system: None
) -> None:
    root, own = tree
    with control_group(BOUNDS, root, own) as group:
        assert group is not None
        (folder,) = (root / "user" / "app").glob("tilewright-*")
        assert (folder / "memory.max").read_text() == str(64 << 20)
        assert (folder / "memory.swap.max").read_text() == "0"
        assert int((folder / "pids.max").read_text()) >= 7
        os.write(group.joining, b"0")
        assert (folder / "cgroup.procs").read_text() == "0"
        assert group.excess() is None
        (folder / "memory.events").write_text("oom 1\noom_kill 1\n")
        assert group.excess() == "killed: its processes took more than 64 MiB of memory together."
    assert not list((root / "user" / "app").glob("tilewright-*"))


@pytest.mark.parametrize(
    ("text", "folder"),
    [("0::/user/app/scope\n", "user/app"), ("5:memory:/x\n0::/\n", "unified")],
)
def test_a_group_that_counts_needs_no_controller(
    tree: tuple[Path, Path], like_the_system: None, text: str, folder: str
) -> None:
    root, own = tree
    own.write_text(text)
    (root / "user" / "app" / "cgroup.subtree_control").write_text("")
    if folder == "unified":
        (root / folder).mkdir()
    left = root / folder / "tilewright-999999999-0"
    left.mkdir()
    with counting_group(root, own) as group:
        assert group is not None
        assert group.cpu_s() == 0.0
        (made,) = (root / folder).glob("tilewright-*")
        assert made != left, "what a killed process left is removed"
        (made / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
        assert group.cpu_s() == 1.5
        assert group.excess() is None
    assert not list((root / folder).glob("tilewright-*"))


def test_the_system_counts_what_every_process_of_a_group_used() -> None:
    """On the machine's own groups."""
    sandbox = Sandbox(Level("rlimits"))
    burn = "import os, time\nos.fork()\nwhile time.process_time() < 0.05: pass"
    with counting_group() as group:
        if group is None:
            pytest.skip("this process may make no control group (cgroup v2) here")
        with (
            open_folder("group-") as name,
            sandbox.started(
                [sys.executable, "-c", burn], Path(name), BOUNDS, group=group
            ) as process,
        ):
            process.wait()
            # The child of the fork may end after its parent.
            end = time.monotonic() + 120
            while group.cpu_s() < 0.1 and time.monotonic() < end:
                time.sleep(0.01)
        assert group.cpu_s() >= 0.1


def test_a_command_joins_before_it_begins_and_is_told_what_it_exceeded(
    tree: tuple[Path, Path], like_the_system: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, own = tree
    joined: list[str] = []

    class Group(process.ControlGroup):
        def excess(self) -> str | None:
            joined.append((self._folder / "cgroup.procs").read_text())
            return "killed: for a test."

    monkeypatch.setattr("tilewright.sandbox.control_group.ControlGroup", Group)
    monkeypatch.setattr(process, "control_group", lambda b: control_group(b, root, own))
    with open_folder("group-") as name:
        finished = Sandbox(Level("rlimits")).run(["/bin/true"], Path(name), BOUNDS)
    assert joined == ["0"]
    assert b"killed: for a test." in finished.output

"""open_task: workload names and folders, and how they can be wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core import tasks
from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.core.tasks import open_task
from tilewright.testing.toy import ToyTarget, ToyTask


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str) -> ToyTarget:
        if name != "toy":
            raise UnknownNameError("target", name, ["toy"])
        return ToyTarget()

    monkeypatch.setattr(tasks, "load_target", load)
    monkeypatch.setattr(tasks, "target_names", lambda: ["toy"])
    monkeypatch.setattr(tasks, "is_target", lambda name: name == "toy")


def test_a_workload_by_name() -> None:
    opened = open_task("toy:digits", {})
    assert opened.name == "toy:digits"
    assert opened.target.name == "toy"


def test_a_folder_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "my-kernel"
    folder.mkdir()
    (folder / "workload.toml").write_text('target = "toy"\n')
    monkeypatch.chdir(tmp_path)
    assert open_task("my-kernel", {}).name == str(folder)
    assert open_task("./my-kernel/", {}).name == str(folder)


def test_a_task_on_another_target_than_it_names(tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text('target = "toi"\n')
    chosen = {"target": "toy"}
    assert open_task(str(tmp_path), chosen).target.name == "toy"
    assert open_task("toi:digits", chosen).name == "toy:digits"
    assert open_task("digits", chosen).name == "toy:digits"


def test_a_folder_may_name_a_target_file_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(tasks, "load_target", lambda name: asked.append(name) or ToyTarget())
    (tmp_path / "workload.toml").write_text('target = "mine.toml"\n')
    open_task(str(tmp_path), {})
    assert asked == [str(tmp_path / "mine.toml")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "has no workload.toml"),
        ('targt = "toy"', "names no target"),
        ("target = 3", "names no target"),
        ("target =", "cannot be read"),
        (b"\xff", "cannot be read"),
        ('target = "toi"', "unknown target 'toi': did you mean 'toy'"),
    ],
)
def test_a_folder_that_is_no_task(
    tmp_path: Path, content: str | bytes | None, message: str
) -> None:
    if content is not None:
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / "workload.toml").write_bytes(data)
    with pytest.raises((WorkloadError, UnknownNameError), match=message):
        open_task(str(tmp_path), {})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("digits", "Did you mean toy:digits"),
        (
            "toy",
            "toy is a target, but the name of a workload must follow it. Write for example "
            "toy:digits",
        ),
        ("toy:", "`tilewright workloads --target toy` lists the workloads"),
        ("tou:digits", "unknown target 'tou': did you mean 'toy'"),
        ("", "folder '' does not exist"),
        ("no/such/folder", "folder no/such/folder does not exist"),
    ],
)
def test_a_name_that_is_no_task(name: str, message: str) -> None:
    with pytest.raises((WorkloadError, UnknownNameError), match=message):
        open_task(name, {})


def test_a_folder_with_a_similar_name_is_suggested(tmp_path: Path) -> None:
    (tmp_path / "my-kernel").mkdir()
    (tmp_path / "my-kernel" / "workload.toml").write_text("")
    with pytest.raises(WorkloadError, match=rf"Did you mean {tmp_path}/my-kernel\?"):
        open_task(f"{tmp_path}/my-kernal", {})


def test_the_fingerprint_changes_with_kernel_and_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {open_task("toy:digits", {}).fingerprint}
    monkeypatch.setattr(ToyTask, "fingerprint", "other inputs")
    seen.add(open_task("toy:digits", {}).fingerprint)
    monkeypatch.setattr(ToyTask, "start", "toy 1 1 1 1 1")
    seen.add(open_task("toy:digits", {}).fingerprint)
    assert len(seen) == 3

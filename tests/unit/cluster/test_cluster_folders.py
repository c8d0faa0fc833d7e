"""A kernel folder travels to workers that have none, and is the same task there."""

from __future__ import annotations

import atexit
from base64 import b64encode
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from tilewright.cluster.folders import MOST_BYTES, packed, unpacked
from tilewright.core.errors import WorkloadError
from tilewright.evaluation.pipeline import context_key
from tilewright.testing.toy import ToyTask


def test_files_arrive_as_they_were(tmp_path: Path) -> None:
    folder = tmp_path / "my task"
    (folder / "data").mkdir(parents=True)
    files = {"workload.toml": b'name = "x"', "data/weights.npy": bytes(range(256)), "empty": b""}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    for ignored in (".hidden", "__pycache__"):
        (folder / ignored).mkdir()
        (folder / ignored / "file").write_text("no")
    there = unpacked(packed(folder), str(folder))
    assert there.name == "my task"
    assert there != folder
    assert {
        str(p.relative_to(there)): p.read_bytes() for p in there.rglob("*") if p.is_file()
    } == files


def test_they_are_deleted_when_the_process_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_end: list[partial[object]] = []
    monkeypatch.setattr(
        atexit, "register", lambda *call, **named: at_the_end.append(partial(*call, **named))
    )
    above = unpacked({"file": b64encode(b"x").decode()}, "task").parent
    assert above.exists()
    for call in at_the_end:
        call()
    assert not above.exists()


def test_no_file_lies_outside(tmp_path: Path) -> None:
    for name in ("../above", "/tmp/absolute-of-a-task", "a/../../b"):
        with pytest.raises(ValueError, match="outside its folder"):
            unpacked({name: b64encode(b"x").decode()}, "folder")


@pytest.mark.parametrize("name", ["..", "a/..", "../.."])
def test_no_folder_lies_outside_its_new_one(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a folder"):
        unpacked({"file": b64encode(b"x").decode()}, name)


def test_a_link_sends_no_file_of_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "task"
    folder.mkdir()
    (tmp_path / "secret").write_text("key")
    (folder / "kernel.c").write_text("")
    (folder / "same.c").symlink_to("kernel.c")
    assert set(packed(folder)) == {"kernel.c", "same.c"}
    (folder / "data.txt").symlink_to("../secret")
    with pytest.raises(WorkloadError, match=r"data\.txt cannot be sent .*a link to a file outside"):
        packed(folder)


def test_too_much(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as stream:
        stream.truncate(MOST_BYTES + 1)
    with pytest.raises(WorkloadError, match="more than 16 MiB"):
        packed(tmp_path)


def test_where_a_folder_lies_decides_nothing() -> None:
    task, keys = ToyTask(), set()
    for source in ("/home/a/task", "/tmp/b/task"):
        task.workload = replace(ToyTask.workload, source=source)
        keys.add(context_key(task, {"toy": "1"}))
    assert len(keys) == 1
    task.workload = replace(ToyTask.workload, source="gemm-2x2x2")
    assert context_key(task, {"toy": "1"}) not in keys

import json
import os
import stat
import threading
from pathlib import Path

import pytest

from tilewright.cli.output import check_outputs, write_json, write_text
from tilewright.core.errors import OutputError


def test_a_writable_path_passes_and_leaves_nothing_behind(tmp_path: Path) -> None:
    check_outputs(json=tmp_path / "a.json", report=None)
    assert list(tmp_path.iterdir()) == []


def test_refuses_a_missing_folder_a_folder_and_one_file_for_two(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"--json .*no such folder"):
        check_outputs(json=tmp_path / "missing" / "a.json")
    with pytest.raises(OutputError, match=r"--report .*it is a folder"):
        check_outputs(report=tmp_path)
    with pytest.raises(OutputError, match="both name"):
        check_outputs(json=tmp_path / "a", report=tmp_path / "b" / ".." / "a")


def test_refuses_a_file_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="no such folder"):
        check_outputs(json=tmp_path / "file" / "a.json")


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder nobody can write to")
def test_refuses_a_folder_that_even_root_cannot_write_to() -> None:
    with pytest.raises(OutputError, match="cannot write --json"):
        check_outputs(json=Path("/proc/self/a.json"))


def test_writes_whole_files_and_replaces_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    write_json(path, {"speedup": 2.5, "best_cycles": None})
    assert json.loads(path.read_text()) == {"speedup": 2.5, "best_cycles": None}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_a_failed_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.txt"
    path.write_text("old")

    def refuse(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OutputError, match="no space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_follows_links_and_leaves_pipes_in_place(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "text"
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    check_outputs(json=tmp_path / "pipe")
    write_text(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_the_file_gets_the_usual_permissions(tmp_path: Path) -> None:
    write_text(tmp_path / "a", "")
    (tmp_path / "b").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_pipe_that_nobody_reads_is_refused_at_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(
        OutputError, match="no process reads from this pipe; start the reader first"
    ):
        check_outputs(json=pipe)
    with pytest.raises(OutputError, match="no process reads from this pipe"):
        write_text(pipe, "{}")


def test_the_reader_of_a_pipe_sees_no_end_before_the_result(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_outputs(json=pipe)
    os.set_blocking(reading, True)
    reader = threading.Thread(target=lambda: read.append(os.fdopen(reading).read()))
    reader.start()
    write_json(pipe, {"large": "x" * 200_000})
    reader.join(120)
    assert json.loads(read[0])["large"] == "x" * 200_000

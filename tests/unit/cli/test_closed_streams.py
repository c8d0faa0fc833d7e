"""The command line with closed standard streams, a deleted folder, and few open files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli import main as cli_main
from tilewright.cli.main import main

if sys.platform != "win32":
    import resource

PROGRAM = """
import os, sys
for descriptor in {closed}:
    os.close(descriptor)
os.execv(sys.executable, [sys.executable, "-P", "-c", {then!r}])
"""
THEN = """
import os, sys
from tilewright.cli import main as cli_main
from tilewright.cli.main import main
try:
    main(["--no-such-option"])
except SystemExit:
    opened = os.open(os.devnull, os.O_RDONLY)
    os._exit(7 if opened > 2 and None not in (sys.stdin, sys.stdout, sys.stderr) else 8)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.execv of POSIX")
@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_no_file_takes_the_place_of_a_closed_stream(closed: tuple[int, ...]) -> None:
    command = [sys.executable, "-P", "-c", PROGRAM.format(closed=closed, then=THEN)]
    assert subprocess.run(command, check=False, timeout=100, capture_output=True).returncode == 7


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not delete a folder in use")
def test_a_deleted_working_directory_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(SystemExit, match="2"):
        main(["--version"])
    monkeypatch.chdir(tmp_path)
    assert "the working directory has been deleted" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not limit open files")
def test_few_open_files_are_raised_to_as_many_as_needed_or_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    limits, raised = [(16, 16)] * 6 + [(16, 4096), (1024, 4096)], []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits.pop(0))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: raised.append(limit))
    refused = "limits processes to 16 open files, but tilewright needs 256"
    for command in (["evaluate", "k.c"], ["runs", "resume", "3"]):
        with pytest.raises(SystemExit, match="2"):
            main(command)
        assert refused in capsys.readouterr().err
    for command in (["--version"], ["--help"], ["evaluate", "--help"], ["workloads"]) + (
        ["--version"],
    ) * 2:
        with pytest.raises(SystemExit, match="0"):
            main(command)
        assert refused not in capsys.readouterr().err
    assert raised == [(256, 4096)]


def test_it_is_known_which_commands_evaluate_kernels() -> None:
    others = {
        "agent", "best", "bundle", "doctor", "init", "models", "prompt", "report", "rewrite",
        "runs", "serve", "store", "targets", "workloads",
    }  # fmt: skip
    assert {*cli_main._commands().commands} == {*cli_main._EVALUATE} | others

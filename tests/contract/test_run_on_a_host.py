"""A search with `--host`, whose `ssh` is a script that starts a real worker and then fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc on PATH")

WORKER = f"{sys.executable} -m tilewright.cli worker"
CUT = """\
import sys
for number, line in enumerate(sys.stdin.buffer):
    sys.stdout.buffer.write(line if number < 9 else line[: len(line) // 2])
    sys.stdout.buffer.flush()
    if number == 9:
        break
"""
"""Passes on nine replies and half of the next one."""


@pytest.fixture
def search(tmp_path: Path) -> Callable[[str], subprocess.CompletedProcess[str]]:
    """Runs the same search, with an `ssh` of these words of the shell."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (tmp_path / "cut.py").write_text(CUT)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "500"}

    def run(words: str) -> subprocess.CompletedProcess[str]:
        (programs / "ssh").write_text(f"#!/bin/bash\ncd {tmp_path}\n{words}\n")
        (programs / "ssh").chmod(0o755)
        task = ["optimize", "gemmini:gemm-16x16x16", "--host", "far"]
        options = ["--budget", "6 evaluations", "--project", "project", "--no-color"]
        return subprocess.run(
            [sys.executable, "-m", "tilewright.cli", *task, *options],
            cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip

    return run


def test_a_search_whose_host_goes_away_ends_with_one_sentence_and_continues_later(
    search: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    gone = search(
        "echo >> started\n"
        "[ $(wc -l < started) -gt 1 ] && { echo No route to host >&2; exit 255; }\n"
        f"{WORKER} | {sys.executable} cut.py\nexit 255"
    )
    assert gone.returncode == 2
    (sentence,) = [line for line in gone.stderr.splitlines() if line.startswith("error: ")]
    assert "a worker on far ended before it opened the task (No route to host)" in sentence
    assert "repeat the command, which continues the run" in sentence
    again = search(f"echo Last login: today\nsleep 2\nexec {WORKER}")
    assert again.returncode == 0, again.stderr
    begun = re.search(r"^run (\w+):", gone.stdout + gone.stderr, re.MULTILINE)
    assert begun is not None
    assert f"tilewright best {begun[1]}" in again.stdout
    assert "6 evaluations" in again.stdout


def test_a_worker_of_another_version_is_refused_in_one_sentence(
    search: Callable[[str], subprocess.CompletedProcess[str]],
) -> None:
    other = search(f'{WORKER} | sed -u \'s/"tilewright": "[^"]*"/"tilewright": "0.0.1"/\'')
    assert other.returncode == 2
    (sentence,) = [line for line in other.stderr.splitlines() if line.startswith("error: ")]
    assert "the worker on far has tilewright 0.0.1, and this machine" in sentence

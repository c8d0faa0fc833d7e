"""What `./tw` asks of uv, which a stub stands in for, and the interpreter that it names."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tw"


pytestmark = pytest.mark.skipif(
    shutil.which("c++") is None and shutil.which("g++") is None, reason="tw asks for a C++ compiler"
)
BASE: str = sys._base_executable  # type: ignore[attr-defined]


def asked_of_uv(folder: Path, *words: str, path: str = "", **variables: str) -> str:
    """What a stub of uv in this folder prints: its arguments and its interpreter."""
    uv = folder / "uv"
    uv.write_text('#!/bin/sh\necho "$@"\necho "$UV_PYTHON"\n')
    uv.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{path}{os.environ['PATH']}", **variables}
    return subprocess.run(
        [SCRIPT, *words], env=environment, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("command", "brought"), [("tune", True), ("tune-compare", True), ("demo", False)]
)
def test_commands_that_tune_bring_tvm(tmp_path: Path, command: str, brought: bool) -> None:
    words = asked_of_uv(tmp_path, command, "M1").splitlines()[0]
    assert words.endswith(f"tilewright {command} M1")
    assert ("--extra tune" in words) is brought


@pytest.fixture
def interpreters(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders: one with a python3 that is slowed down, and one with a python3 as it is."""
    slow, fast = tmp_path / "slow", tmp_path / "fast"
    for folder in (slow, fast):
        folder.mkdir()
    (fast / "python3").symlink_to(BASE)
    (slow / "slowed").symlink_to(BASE)
    (slow / "sitecustomize.py").write_text("import sys; sys.setprofile(lambda *_: None)\n")
    (slow / "python3").write_text(f'#!/bin/sh\nPYTHONPATH={slow} exec {slow}/slowed "$@"\n')
    (slow / "python3").chmod(0o755)
    return slow, fast


def test_a_new_environment_gets_the_fastest_interpreter_on_path(
    tmp_path: Path, interpreters: tuple[Path, Path]
) -> None:
    path = "".join(f"{folder}:" for folder in interpreters)
    named = asked_of_uv(tmp_path, "doctor", path=path, UV_PROJECT_ENVIRONMENT=f"{tmp_path}/new")
    chosen = Path(named.splitlines()[1])
    assert chosen.exists()
    assert chosen.parent != interpreters[0]  # rather the other one, or one of this machine


def test_an_environment_keeps_its_interpreter(
    tmp_path: Path, interpreters: tuple[Path, Path]
) -> None:
    """A faster one would make uv install everything anew."""
    slow, fast = interpreters
    (slow / "bin").mkdir()
    (slow / "python3").rename(slow / "bin" / "python")
    named = asked_of_uv(tmp_path, "doctor", path=f"{fast}:", UV_PROJECT_ENVIRONMENT=str(slow))
    assert Path(named.splitlines()[1]) == slow / "slowed"

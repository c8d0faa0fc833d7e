"""What `./tw` asks of uv, which a stub stands in for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tw"


@pytest.mark.skipif(
    shutil.which("c++") is None and shutil.which("g++") is None, reason="tw asks for a C++ compiler"
)
@pytest.mark.parametrize(
    ("command", "brought"), [("tune", True), ("tune-compare", True), ("demo", False)]
)
def test_commands_that_tune_bring_tvm(tmp_path: Path, command: str, brought: bool) -> None:
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\necho "$@"\n')
    uv.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [SCRIPT, command, "M1"], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.rstrip().endswith(f"tilewright {command} M1")
    assert ("--extra tune" in done.stdout) is brought

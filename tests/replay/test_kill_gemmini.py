"""The real thing, small: a Gemmini search killed several times ends as if undisturbed."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright.core.records import Trial
from tilewright.storage.project import open_project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.toolchain,
    pytest.mark.skipif(
        shutil.which("riscv64-unknown-elf-gcc") is None, reason="no riscv64-unknown-elf-gcc"
    ),
]

COMMAND = [
    *(sys.executable, "-m", "tilewright.cli", "optimize", "gemmini:gemm-40x64x48"),
    *("--seed", "3", "--beam", "2", "--plans", "3", "--iterations", "3", "--dropout", "0.4"),
]


def start(project: Path) -> subprocess.Popen[str]:
    # Another hash seed each time: the run may not depend on the order of sets.
    environment = {**os.environ, "PYTHONHASHSEED": str(random.randrange(2**32))}
    return subprocess.Popen(
        [*COMMAND, "--project", str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        text=True,
    )


def stored_outcomes(project: Path) -> int:
    try:
        with sqlite3.connect(project / ".tilewright" / "tilewright.db") as connection:
            return int(connection.execute("SELECT count(*) FROM outcomes").fetchone()[0])
    except sqlite3.Error:  # not created yet
        return 0


def recorded(project: Path) -> list[Trial]:
    storage = open_project(project)
    run = storage.runs()[-1]
    assert run.status == "finished"
    trials = storage.history(run.id)
    storage.close()
    return [Trial(t.index, t.iteration, t.candidate, t.outcome) for t in trials]


def test_killed_at_random_moments(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    undisturbed.mkdir()
    killed.mkdir()
    output, _ = start(undisturbed).communicate()
    expected = recorded(undisturbed)
    assert len(expected) > 8, output
    for outcomes in (0, 1, 4, len(expected) - 3):
        process = start(killed)
        while stored_outcomes(killed) < outcomes and process.poll() is None:
            time.sleep(0.02)
        time.sleep(random.uniform(0, 0.2))
        process.kill()
        process.communicate()
    process = start(killed)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    assert recorded(killed) == expected
    assert stored_outcomes(killed) == stored_outcomes(undisturbed)

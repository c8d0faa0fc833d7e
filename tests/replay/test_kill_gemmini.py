"""The real thing, small: a Gemmini search killed several times ends as if undisturbed."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewright.core.records import Trial
from tilewright.storage.project import open_project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.toolchain,
    pytest.mark.skipif(
        shutil.which("riscv64-unknown-elf-gcc") is None and find_spec("ziglang") is None,
        reason="no RISC-V cross compiler",
    ),
]

KILLS = int(os.environ.get("TILEWRIGHT_KILLS", "4"))
COMMAND = [
    *(sys.executable, "-m", "tilewright.cli", "optimize", "gemmini:gemm-40x64x48"),
    *(
        "--seed",
        "3",
        "--input-seed",
        "3",
        "--beam",
        "2",
        "--plans",
        "3",
        "--iterations",
        "2",
        "--dropout",
        "0.4",
    ),
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
    with sqlite3.connect(project / ".tilewright" / "tilewright.db") as connection:
        return int(connection.execute("SELECT count(*) FROM outcomes").fetchone()[0])


def recorded(project: Path) -> list[Trial]:
    storage = open_project(project)
    run = storage.runs()[-1]  # a kill after its end makes the next start a second, equal run
    assert run.status == "finished"
    trials = storage.history(run.id)
    storage.close()
    return [Trial(t.index, t.iteration, t.candidate, t.outcome) for t in trials]


def killed_often(project: Path, rng: random.Random, within_s: float, kills: int) -> int:
    """Search to the end in spite of up to `kills` kills; returns how many there were."""
    project.mkdir()
    for count in range(kills):
        process = start(project)
        try:
            output, _ = process.communicate(timeout=rng.uniform(0, within_s))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        else:
            assert process.returncode == 0, output
            return count
    process = start(project)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    return kills


@pytest.mark.timeout(300 + 60 * KILLS)
def test_killed_at_random_moments(tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    started = time.monotonic()
    killed_often(undisturbed, random.Random(0), 0.0, kills=0)
    duration_s = time.monotonic() - started
    expected = recorded(undisturbed)
    assert len(expected) > 6
    rng, kills, searches = random.Random(KILLS), 0, 0
    while kills < KILLS:
        project = tmp_path / f"disturbed {searches}"
        searches += 1
        kills += killed_often(project, rng, duration_s, KILLS - kills)
        assert recorded(project) == expected
        assert stored_outcomes(project) == stored_outcomes(undisturbed)
    print(f"{kills} kills in {searches} searches of {len(expected)} trials")

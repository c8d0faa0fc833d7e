"""An experiment killed in its middle and started again has the table of one that was not."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

from tilewright.storage.project import open_project

SCRIPT = Path(__file__).with_name("toy_experiment.py")
FILE = """
workloads = ["toy:digits"]
seeds = 2
budget = "14 evaluations"
input_seed = 3
[options]
iterations = 3
plans = 4
[arms.full]
[arms.chain]
beam = 1
plans = 1
[arms.best-of-n]
strategy = "best-of-n"
"""
KILLS = 2


def start(file: Path, folder: Path, delay_s: float) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPT), str(file), str(folder), str(delay_s)]
    return subprocess.Popen(
        [*command, str(folder / "log")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def killed_after(process: subprocess.Popen[str], log: Path, lines: int) -> bool:
    """Kill the process once the log has so many lines; False if it ended before."""
    while not (log.exists() and log.read_text().count("\n") >= lines):
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    process.kill()
    process.communicate()
    return True


def test_killed_in_its_middle_it_goes_on_and_evaluates_nothing_twice(tmp_path: Path) -> None:
    file = tmp_path / "arms.toml"
    file.write_text(FILE)
    undisturbed, errors = start(file, tmp_path / "whole", 0.0).communicate()
    assert undisturbed.startswith("arm,runs"), errors
    rng, folder, lines = random.Random(0), tmp_path / "killed", 0
    for _ in range(KILLS):
        lines += rng.randint(6, 15)
        assert killed_after(start(file, folder, 0.02), folder / "log", lines)
    again, errors = start(file, folder, 0.0).communicate()
    assert again == undisturbed, errors
    evaluated = (folder / "log").read_text().splitlines()
    assert len(evaluated) == len(set(evaluated))
    assert sorted(evaluated) == sorted((tmp_path / "whole" / "log").read_text().splitlines())
    with closing(open_project(folder)) as storage:
        assert [run.status for run in storage.runs()] == ["finished"] * 6

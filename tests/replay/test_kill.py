"""A search killed at any moments and started again ends as if it had never been disturbed."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from pathlib import Path

import pytest
from toy_project import recorded, start


def killed(process: subprocess.Popen[str], log: Path, lines: int, extra_s: float) -> bool:
    """Kill the process soon after the log has this many lines; False if it ended before."""
    while not (log.exists() and log.read_text().count("\n") >= lines):
        if process.poll() is not None:
            return False
        time.sleep(0.002)
    time.sleep(extra_s)
    process.kill()
    return process.wait() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_killed_at_random_moments(tmp_path: Path, seed: int) -> None:
    undisturbed = start(tmp_path / "undisturbed", seed, 0.0)
    assert undisturbed.wait() == 0, undisturbed.communicate()
    # On a busy machine, a search with short evaluations may end before it is killed.
    for delay_s in (0.01, 0.1, 1.0):
        kills = kill_and_start_again(tmp_path / f"killed {delay_s}", seed, delay_s)
        trials = recorded(tmp_path / f"killed {delay_s}")
        assert trials == recorded(tmp_path / "undisturbed")
        evaluated = (tmp_path / f"killed {delay_s}" / "log").read_text().splitlines()
        assert len(evaluated) == len(set(evaluated))
        assert set(evaluated) <= {t.candidate.source for t in trials}
        if kills >= 3:
            return
    raise AssertionError(f"the search ended after {kills} kills")


def kill_and_start_again(project: Path, seed: int, delay_s: float) -> int:
    """Kill a search at random moments until one ends; how often it was killed."""
    rng, kills = random.Random(seed), 0
    for extra_s in (0.2, 0.4, 0.8):  # while it starts and creates its database
        process = start(project, seed, delay_s)
        time.sleep(extra_s)
        process.kill()
        process.wait()
    lines = 0
    while True:
        lines += rng.randint(1, 12)
        process = start(project, seed, delay_s)
        if not killed(process, project / "log", lines, rng.uniform(0, 0.04)):
            break
        kills += 1
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.startswith("finished")
    return kills


@pytest.mark.slow
def test_interrupted_and_resumed(tmp_path: Path) -> None:
    process = start(tmp_path / "a", 0, 0.3)
    log = tmp_path / "a" / "log"
    while not (log.exists() and log.read_text().count("\n") > 10):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate()
    assert (process.returncode, output) == (0, "interrupted: the user interrupted the search\n"), (
        errors
    )
    process = start(tmp_path / "a", 0, 0.0)
    assert process.wait() == 0, process.communicate()
    undisturbed = start(tmp_path / "b", 0, 0.0)
    assert undisturbed.wait() == 0
    assert recorded(tmp_path / "a") == recorded(tmp_path / "b")


@pytest.mark.slow
def test_two_processes_on_one_run(tmp_path: Path) -> None:
    first = start(tmp_path / "a", 0, 2.0)
    try:
        log = tmp_path / "a" / "log"
        while not log.exists() or not log.read_text():
            assert first.poll() is None, first.communicate()
            time.sleep(0.01)
        second = start(tmp_path / "a", 0, 2.0)
        _, errors = second.communicate()
        assert f"StorageError: process {first.pid} is already working on this run" in errors
        other = start(tmp_path / "a", 1, 0.0)
        assert other.wait() == 0
    finally:
        first.kill()
        first.communicate()

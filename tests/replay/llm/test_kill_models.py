"""kill -9 at any moment of a run that asks models: nothing is paid or evaluated twice or lost.

The environment variable TILEWRIGHT_KILLS says how often; 100 take a quarter of an hour.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from toy_models import EVALUATED, answer

from tilewright.core.records import Trial
from tilewright.storage.project import open_calls, open_project
from tilewright.testing.model_protocols import Behaviour
from tilewright.testing.model_server import ModelServer

SCRIPT = Path(__file__).with_name("toy_models.py")
KILLS = int(os.environ.get("TILEWRIGHT_KILLS", "6"))


def start(project: Path, model: str, turns: int) -> subprocess.Popen[str]:
    project.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPT), str(project), model, "0.01", str(turns)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def trials(project: Path) -> list[Trial]:
    storage = open_project(project)
    (run,) = storage.runs()
    assert run.status == "finished"
    found = [Trial(t.index, t.iteration, t.candidate, t.outcome) for t in storage.history(run.id)]
    storage.close()
    return found


def is_finished(project: Path) -> bool:
    """Whether the project's run is over."""
    if not (project / ".tilewright").exists():
        return False
    with closing(open_project(project)) as storage:
        return [run.status for run in storage.runs()] == ["finished"]


def finished(process: subprocess.Popen[str]) -> None:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.startswith("finished")


def killed_often(project: Path, model: str, turns: int, rng: random.Random, kills: int) -> int:
    """Run to the end in spite of up to `kills` kills; returns how many there were."""
    for count in range(kills):
        process = start(project, model, turns)
        try:
            process.wait(rng.uniform(0.3, 3.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            if is_finished(project):  # killed on its way out: another start would be another run
                return count + 1
        else:
            finished(process)
            return count
    finished(start(project, model, turns))
    return kills


@pytest.mark.slow
@pytest.mark.timeout(300 + 5 * KILLS)
@pytest.mark.parametrize(("turns", "least"), [(1, 180), (4, 80)])
def test_killed_at_random_moments(tmp_path: Path, turns: int, least: int) -> None:
    rng = random.Random(5)
    kills = 0
    with ModelServer(Behaviour(delay_s=0.02), answer=answer) as server:
        model = f"openai/scripted@{server.url}?price=1:2&concurrency=4"
        finished(start(tmp_path / "undisturbed", model, turns))
        calls = len(server.headers)
        assert calls >= least
        while kills < KILLS:
            server.headers.clear()
            project = tmp_path / f"killed after {kills}"
            kills += killed_often(project, model, turns, rng, KILLS - kills)
            asked = Counter(h["idempotency-key"] for h in server.headers)
            assert max(asked.values()) == 1, "a call was paid twice"
            assert len(asked) == calls
            assert trials(project) == trials(tmp_path / "undisturbed")
            again = evaluated(project) - evaluated(tmp_path / "undisturbed")
            assert not again, "what was evaluated is not evaluated again"
            check_calls(project, calls)


def evaluated(project: Path) -> Counter[str]:
    """How often each kernel was evaluated."""
    return Counter((project / EVALUATED).read_text().splitlines())


def check_calls(project: Path, calls: int) -> None:
    """All calls are recorded with their price, and nothing is left over."""
    store, storage = open_calls(project), open_project(project)
    records = store.calls(storage.runs()[0].id)
    store.close()
    storage.close()
    assert Counter(call.state for call in records) == {"replied": calls}
    assert sum(call.usd or 0 for call in records) == pytest.approx(calls * 0.0012)
    # Call processes of killed sessions end by themselves.
    deadline = time.monotonic() + 120
    while list((project / ".tilewright" / "calls").glob("*/*.claim")):
        assert time.monotonic() < deadline
        time.sleep(0.1)

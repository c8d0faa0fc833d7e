"""In an experiment, a recording answers the arm that it was made with, and no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from toy_models import answer, enter_toy_world

from tilewright import session
from tilewright.core import tasks
from tilewright.core.errors import InputError
from tilewright.experiments.definition import Experiment, read_experiment
from tilewright.experiments.running import CellResult, run_experiment
from tilewright.models import recording
from tilewright.testing.model_server import ModelServer

FILE = """
workloads = ["toy:digits"]
budget = "12 evaluations"
[options]
iterations = 2
plans = 2
implementations = 1
proposers = ["MODEL"]
[arms.as-recorded]
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setattr(tasks, "load_target", tasks.load_target)
    monkeypatch.setattr(session, "create_executor", session.create_executor)
    enter_toy_world()
    with ModelServer(answer=answer) as running:
        yield running


def experiment(folder: Path, server: ModelServer, *arms: str) -> Experiment:
    file = folder / "arms.toml"
    text = FILE.replace("MODEL", f"openai/a@{server.url}?price=1:1")
    file.write_text("\n".join([text, *arms]))
    return read_experiment(str(file))


def run(found: Experiment, folder: Path, replay: Path | None = None) -> list[CellResult]:
    folder.mkdir(exist_ok=True)
    return run_experiment(found, folder, workers=1, replay=replay)


def test_the_recorded_arm_repeats_without_a_model_and_another_is_refused(
    tmp_path: Path, server: ModelServer
) -> None:
    (first,) = run(experiment(tmp_path, server), tmp_path / "live")
    assert first.calls > 0
    file = tmp_path / "recording.jsonl"
    file.write_text(recording(first.run_id, project=tmp_path / "live"))
    asked = len(server.requests)
    (again,) = run(experiment(tmp_path, server), tmp_path / "replayed", file)
    latencies = [[p.best for p in result.points] for result in (first, again)]
    assert latencies[0] == latencies[1]
    assert (again.calls, len(server.requests)) == (first.calls, asked)
    other = '[arms.no-menu]\nwithout = ["menu"]'
    with pytest.raises(InputError, match="no reply to exactly this plan prompt"):
        run(experiment(tmp_path, server, other), tmp_path / "replayed", file)
    assert len(server.requests) == asked

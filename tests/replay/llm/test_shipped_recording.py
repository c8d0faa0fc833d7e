"""The recorded run that ships with the project replays offline, with real compiling and timing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shipped_recording import COMMAND, RECORDING, SETTINGS, TASK, TRAJECTORY, trajectory

from tilewright import run
from tilewright.models import model_calls, replayed
from tilewright.proposers.llm.failures import ModelError


@pytest.mark.slow
@pytest.mark.toolchain
def test_it_repeats_the_recorded_trajectory(tmp_path: Path) -> None:
    try:
        summary = run.optimize(TASK, SETTINGS, project=tmp_path, replay=RECORDING)
    except ModelError as error:
        pytest.fail(f"{error} If the change was intended, record it anew: {COMMAND}")
    storage = run.open_project(tmp_path)
    history, counts = storage.history(summary.run_id), replayed(storage, summary.run_id)
    storage.close()
    assert counts is not None
    calls, differing = counts.calls, counts.differing
    told = f"{differing} of {calls} prompts differ; if that was intended, record anew: {COMMAND}"
    assert trajectory(history) == json.loads(TRAJECTORY.read_text()), told
    assert all(trial.cached is False for trial in history), "every kernel is evaluated for real"
    assert summary.speedup is not None
    assert summary.speedup > 1.5
    phases = {call.phase for call in model_calls(summary.run_id, project=tmp_path)}
    assert phases == {"plan", "implement", "repair"}

"""Of a very long run a sample is shown, in which every trial has all that it was made from."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli.main import app
from tilewright.core.records import History, RunRecord, Trial
from tilewright.report.queries import report_view
from tilewright.serve.project import LiveRun
from tilewright.storage import sampling
from tilewright.storage.project import open_overview, open_project
from tilewright.testing.runs import history, measured, run_record

from .conftest import Client, store

TRIALS = history(400, lines=8)
RUN = run_record()


@pytest.fixture
def long_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunRecord:
    """A run of 400 trials, as if that were very many."""
    for name, value in {"WHOLE": 100, "SPREAD": 20, "NEWEST": 5, "MOST": 80}.items():
        monkeypatch.setattr(sampling, name, value)
    return store(tmp_path, TRIALS)


def test_a_sample_has_what_matters_and_all_it_was_made_from(
    tmp_path: Path, long_run: RunRecord
) -> None:
    with closing(open_overview(tmp_path)) as overview:
        sample = overview.sample(long_run.id)
        assert sample is not None
        shown = overview.chosen(long_run.id, sample.indices)
    assert [trial.index for trial in shown] == list(sample.indices)
    assert sample.total == 400
    assert sample.measured == sum(trial.latency is not None for trial in TRIALS)
    assert len(sample.indices) <= 80
    fastest, records = float("inf"), set()
    for trial in TRIALS:
        if trial.latency is not None and trial.latency < fastest:
            fastest, _ = trial.latency, records.add(trial.index)
    assert records | {0, 399} <= set(sample.indices)
    known = {trial.candidate_id for trial in shown}
    assert {trial.parent_id for trial in shown} - {None} <= known


def test_short_runs_are_shown_whole(tmp_path: Path) -> None:
    run = store(tmp_path, TRIALS)
    with closing(open_overview(tmp_path)) as overview:
        assert overview.sample(run.id) is None


def test_views_of_a_sample_are_those_of_the_whole_run(tmp_path: Path, long_run: RunRecord) -> None:
    with closing(open_overview(tmp_path)) as overview:
        live = LiveRun().update(overview, long_run.id).trials
    whole = report_view(RUN, TRIALS).trials
    assert 0 < len(live.views) < 400 == live.total
    for view in live.views:
        expected = whole[view.index]
        assert (view.state, view.gain, view.speedup, view.parent, view.winning) == (
            (expected.state, expected.gain, expected.speedup, expected.parent, expected.winning)
        )
    assert live.best is not None
    assert TRIALS.best is not None
    assert live.best.index == TRIALS.best.index


def child_of(parent: Trial, index: int) -> Trial:
    candidate = replace(TRIALS[399].candidate, source=f"// {index}", parent_id=parent.candidate.id)
    return Trial(index, 9, candidate, measured(1000.0))


def test_a_new_trial_brings_what_it_was_made_from(tmp_path: Path, long_run: RunRecord) -> None:
    with closing(open_overview(tmp_path)) as overview, closing(open_project(tmp_path)) as storage:
        live = LiveRun()
        before = live.update(overview, long_run.id).trials
        hidden = next(t for t in TRIALS if t.latency and before.view(t.index) is None)
        storage.append_trial(long_run.id, child_of(hidden, 400))
        after = live.update(overview, long_run.id).trials
    assert after.generation != before.generation, "pages must read all rows again"
    assert after.view(hidden.index) is not None
    assert after.total == 401
    assert after.best is not None
    assert after.best.index == 400
    whole = History([*TRIALS, child_of(hidden, 400)])
    chain = whole.lineage(child_of(hidden, 400).candidate.id)
    assert after.winning == [trial.index for trial in chain]
    assert after.measured == before.measured + 1


def test_pages_open_every_trial_and_say_what_is_shown(
    tmp_path: Path, long_run: RunRecord, served: Callable[..., Client]
) -> None:
    client = served(tmp_path)
    rows = json.loads(client.ask(f"/runs/{long_run.id}/rows").text)
    assert len(rows["rows"]) <= 80
    assert rows["trials"] == 400
    shown = {row[0] for row in rows["rows"]}
    hidden = next(t for t in TRIALS if t.index not in shown and t.candidate.parent_id)
    page = client.ask(f"/runs/{long_run.id}/trials/{hidden.index}")
    assert page.status == 200
    assert f"trials/{report_view(RUN, TRIALS).trials[hidden.index].parent}" in page.text
    assert "of 400 candidates" in client.ask(f"/runs/{long_run.id}/parts/tree").text
    assert "are shown" in client.ask(f"/runs/{long_run.id}").text
    assert client.ask(f"/runs/{long_run.id}/trials.csv").text.count("\n") == 401


def test_the_report_of_a_sample_says_so(tmp_path: Path, long_run: RunRecord) -> None:
    file = tmp_path / "report.html"
    command = ["report", long_run.id, "--project", str(tmp_path), "-o", str(file)]
    assert CliRunner().invoke(app, command).exit_code == 0
    html = file.read_text()
    assert "are shown below as a sample" in html
    assert "of 400 candidates." in html
    assert html.count('"title"') <= 80

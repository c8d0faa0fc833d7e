"""What the page knows of trials without their texts is what the report says with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path

import pytest
from sqlalchemy import event

from tilewright.core.records import Failed, History
from tilewright.report.queries import report_view
from tilewright.report.tree import MOST_NODES, drawn_trials
from tilewright.report.views import TrialView
from tilewright.serve.trials import LiveTrials, option_rows
from tilewright.storage import sampling
from tilewright.storage.project import open_overview, open_project
from tilewright.testing.runs import history, measured, run_record

from .conftest import Client, store

TEXTS = {"plan", "expected", "breakdown", "details", "feedback", "warnings", "log", "diff"}


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_views_are_those_of_the_report_without_texts(tmp_path: Path, step: int) -> None:
    trials = history(90, lines=8, seed=step)
    run = store(tmp_path, trials)
    live = LiveTrials()
    with closing(open_overview(tmp_path)) as overview:
        found = overview.trials(run.id)
    for at in range(0, len(found), step):
        live.extend(found[at : at + step])
    expected = report_view(run_record(), trials).trials
    names = [f.name for f in fields(TrialView) if f.name not in TEXTS]
    assert [[getattr(v, n) for n in names] for v in live.views] == [
        [getattr(v, n) for n in names] for v in expected
    ]
    assert live.best == live.views[trials.best.index]  # type: ignore[union-attr]


def test_only_newer_trials_are_read(tmp_path: Path) -> None:
    run = store(tmp_path, history(20, lines=8))
    with closing(open_overview(tmp_path)) as overview:
        assert [t.index for t in overview.trials(run.id, 16)] == [17, 18, 19]
        assert overview.trials(run.id, 19) == []


def test_the_token_changes_with_every_write_of_another_connection(tmp_path: Path) -> None:
    trials = history(3, lines=8)
    run = store(tmp_path, History(trials[:2]))
    with closing(open_overview(tmp_path)) as overview, closing(open_project(tmp_path)) as storage:
        tokens = [overview.change_token()]
        assert overview.change_token() == tokens[0]
        storage.append_trial(run.id, trials[2])
        tokens.append(overview.change_token())
        storage.update_run(run.id, status="finished", stop_reason="", wall_s=1.0)
        tokens.append(overview.change_token())
        storage.amend_trial(run.id, 2, Failed("check", "unconfirmed", "slower"))
        tokens.append(overview.change_token())
    assert len(set(tokens)) == 4


def test_counts_and_lowest_latencies_are_read_from_an_index_alone(tmp_path: Path) -> None:
    run = store(tmp_path, history(60, lines=8))
    asked: list[tuple[str, object]] = []
    with closing(open_overview(tmp_path)) as overview:
        database = overview._database

        def note(_c: object, _u: object, statement: str, parameters: object, *_: object) -> None:
            asked.append((statement, parameters))

        with database.read() as connection, pytest.MonkeyPatch.context() as changed:
            changed.setattr(sampling, "WHOLE", 10)
            changed.setattr(sampling, "SPREAD", 5)
            event.listen(connection.engine, "before_cursor_execute", note)
            overview.runs()
            overview.sample(run.id)
            event.remove(connection.engine, "before_cursor_execute", note)
            counting = [(s, p) for s, p in asked if "count(" in s and "FROM trials" in s]
            assert len(counting) == 2
            for statement, parameters in counting:
                plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                assert "USING COVERING INDEX ix_trials_latency" in str(plan.all())


def test_a_large_tree_keeps_what_matters_and_the_way_to_it(tmp_path: Path) -> None:
    views = report_view(run_record(), history(3000, lines=8)).trials
    drawn = drawn_trials(views)
    assert len(drawn) <= MOST_NODES
    indices = {view.index for view in drawn}
    assert {v.index for v in views if v.winning} <= indices
    assert all(v.parent is None or v.parent in indices for v in drawn)
    assert [v.index for v in drawn] == sorted(indices)


def test_the_menu_counts_what_each_option_brought() -> None:
    views = report_view(run_record(), history(200, lines=8)).trials
    rows = option_rows(views)
    assert sum(row.tried for row in rows) == len(views) - 1
    assert sum(row.in_best for row in rows) == sum(v.winning for v in views) - 1
    one = rows[0]
    mine = [v for v in views if v.option == one.option]
    assert one.best_gain == max(v.gain for v in mine if v.gain is not None)
    assert one.kept == sum(v.state == "kept" for v in mine)


def test_the_page_shows_what_the_parameters_of_a_template_did(
    tmp_path: Path, served: Callable[..., Client]
) -> None:
    trials = list(history(25, lines=8))
    for at, trial in enumerate(trials[1:]):
        values: dict[str, str | int] = {"tune.TM": (16, 32)[at % 2], "tune.TN": (4, 8)[at // 2 % 2]}
        plan = replace(
            trial.candidate.plan, parameters={**values, "instance": trials[0].candidate.id}
        )
        outcome = measured(1000.0 * (1 + at % 2) + at // 2 % 2)
        trials[at + 1] = replace(
            trial, candidate=replace(trial.candidate, plan=plan), outcome=outcome
        )
    run = store(tmp_path, History(trials))
    live = LiveTrials()
    with closing(open_overview(tmp_path)) as overview:
        live.extend(overview.trials(run.id))
    (template,) = live.templates()
    assert (template.trial, template.measured) == (0, 24)
    assert [(row.name, row.values, row.best) for row in template.parameters] == [
        ("TM", (16, 32), 16),
        ("TN", (4, 8), 4),
    ]
    page = served(tmp_path).ask(f"/runs/{run.id}/parts/menu").text
    assert 'Parameters of the template of <a href="/runs/3fa94c10/trials/0">' in page
    assert page.index('<th scope="row">TM</th><td>16, 32</td>') < page.index("TN</th>")
    assert "100 %" in page

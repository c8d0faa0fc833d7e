"""The pages of a project with runs: what they show, and that foreign text stays text."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.cli.runs_export import export
from tilewright.core.config import Settings
from tilewright.core.records import Candidate, Failed, History, Plan, Trial
from tilewright.core.run_notes import Label
from tilewright.serve import pages
from tilewright.serve.experiments import arms_of
from tilewright.storage import sampling
from tilewright.storage.overview import SqlOverview
from tilewright.storage.overview_records import RunOverview
from tilewright.storage.project import open_project
from tilewright.testing.runs import history, measured, run_record

from .conftest import Client, store

EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
RUN = "/runs/3fa94c10"


def test_the_list_shows_runs_and_its_filter_is_in_the_address(
    tmp_path: Path, served: Callable[..., Client]
) -> None:
    store(tmp_path, history(5, lines=8))
    store(tmp_path, history(3, lines=8), run_record(id="0b", task="host-c:softmax-64x64"))
    with closing(open_project(tmp_path)) as storage:
        storage.keep("0b", Label(("nightly",), "with <b>new</b> menu"))
    client = served(tmp_path)
    everything = client.ask("/").text
    assert "3fa94c10" in everything
    assert "with &lt;b&gt;new&lt;/b&gt; menu" in everything
    for query in ("tag=nightly", "q=SOFTMAX+0b", "q=new+menu"):
        found = client.ask(f"/?{query}").text
        assert "0b</a>" in found
        assert "3fa94c10" not in found
    assert "1 of 2 runs" in client.ask("/?q=softmax").text
    assert "No run matches" in client.ask("/?status=killed").text


def test_a_run_and_its_parts_are_shown(client: Client) -> None:
    page = client.ask(RUN).text
    assert "gemmini:gemm-12544x64x256" in page
    assert "Simulated cycles" in page
    rows = json.loads(client.ask(f"{RUN}/rows").text)
    assert [row[0] for row in rows["rows"]] == list(range(40))
    assert rows["winning"][0] == 0
    assert "Winning schedule" in client.ask(f"{RUN}/parts/result").text
    assert client.ask(f"{RUN}/parts/tree").text.count('class="node') == 40
    assert "unroll" in client.ask(f"{RUN}/parts/menu").text
    assert "The log has no entries" in client.ask(f"{RUN}/parts/log").text


def test_a_candidate_is_compared_with_its_parent_or_any_other(client: Client) -> None:
    page = client.ask(f"{RUN}/trials/5").text
    assert "Trial 5" in page
    assert 'class="added"' in page
    assert "small (" not in page
    assert "against trial" in page
    same = client.ask(f"{RUN}/trials/5?against=5").text
    assert "The source is the same as that of trial 5" in same
    for wrong in ("40", "-1", "x", "9" * 30):
        answer = client.ask(f"{RUN}/trials/5?against={wrong}")
        assert answer.status == 400
        assert "Give one from 0 to 39" in answer.text


def test_tables_and_sources_come_as_files(client: Client) -> None:
    table = client.ask(f"{RUN}/trials.csv")
    assert table.text.count("\n") == 41
    assert table.headers["content-disposition"] == 'attachment; filename="3fa94c10.csv"'
    kernel = client.ask(f"{RUN}/trials/0/source")
    assert kernel.text.startswith("void kernel(void)")
    assert kernel.headers["content-type"].startswith("text/plain")


def test_a_table_is_read_and_sent_in_parts(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = client.ask(f"{RUN}/trials.csv")
    assert at_once.parts == 1
    read: list[int] = []
    whole_trials = SqlOverview.whole_trials

    def counted(overview: SqlOverview, run_id: str, indices: Sequence[int]) -> list[Trial]:
        read.append(len(indices))
        return whole_trials(overview, run_id, indices)

    monkeypatch.setattr(SqlOverview, "whole_trials", counted)
    monkeypatch.setattr(pages, "TABLE_TRIALS", 3)
    monkeypatch.setattr(pages, "CSV_CHUNK", 1000)
    monkeypatch.setattr(sampling, "AT_ONCE", 2)
    in_parts = client.ask(f"{RUN}/trials.csv")
    assert in_parts.text == at_once.text
    assert in_parts.parts > 4
    assert read == [3] * 13 + [1]


def test_settings_of_the_search_are_compared(tmp_path: Path, served: Callable[..., Client]) -> None:
    def keep(name: str, trials: int, **changes: object) -> None:
        settings = Settings(**changes).recorded()  # type: ignore[arg-type]
        store(tmp_path, history(trials, lines=8), run_record(id=name, settings=settings))

    keep("a0", 30, seed=0)
    keep("a1", 2, seed=1)
    page = served(tmp_path).ask("/experiments").text
    assert "No workload of this project" in page
    keep("b0", 30, seed=0, beam=2, proposers=("builtin", EVIL))
    page = served(tmp_path).ask("/experiments").text
    assert page.count("<tr>") == 3
    assert "beam: 2" in page
    assert "beam: 6" in page
    assert "patience" not in page, "only what differs"
    assert EVIL not in page


def test_an_arm_is_the_mean_of_its_seeds() -> None:
    def one(name: str, start: float | None, best: float | None, **changes: object) -> RunOverview:
        run = run_record(id=name, settings=Settings(**changes).recorded())  # type: ignore[arg-type]
        return RunOverview(run, Label(), 10, start, best, noise=0.0, calls=1, usd=0.5, unpriced=0)

    (found,) = arms_of(
        [
            one("a", 100.0, 50.0, seed=0, beam=2),
            one("b", 100.0, 12.5, seed=1, beam=2),
            one("c", None, None, seed=2, beam=2),
            one("d", 100.0, 80.0, seed=0),
        ]
    )
    fast, slow = found.arms
    assert (fast.mean, fast.worst, fast.best) == (pytest.approx(4.0), 2.0, 8.0)
    assert [run.run.id for run in fast.runs] == ["a", "b", "c"]
    assert (fast.evaluations, fast.usd) == (30, 1.5)
    assert fast.differing == (("beam", "2"),)
    assert (slow.mean, slow.differing) == (1.25, (("beam", "6"),))
    assert arms_of([one("a", 1.0, 1.0, seed=0), one("b", 1.0, 1.0, seed=1)]) == []


def test_a_gain_within_the_noise_is_no_speedup_on_any_page(
    tmp_path: Path, served: Callable[..., Client]
) -> None:
    start = Trial(0, 0, Candidate("kernel 0"), replace(measured(1060.0), noise=0.04))
    candidate = Candidate("kernel 1", start.candidate.id)
    better = Trial(1, 1, candidate, replace(measured(1000.0), noise=0.04))
    store(tmp_path, History([start, better]))
    certain = replace(better, outcome=replace(measured(900.0), noise=0.04))
    store(tmp_path, History([start, certain]), run_record(id="0b"))
    client = served(tmp_path)
    for page in ("/", "/compare?run=3fa94c10&run=0b"):
        text = client.ask(page).text
        assert "within noise" in text
        assert "1.06x" not in text.partition("<svg")[0]
        assert "1.18x" in text
    for run, said in (("3fa94c10", "within noise"), ("0b", "1.18x")):
        for page in (f"/runs/{run}", f"/runs/{run}/trials/1"):
            assert f'<span class="value">{said}' in client.ask(page).text.replace(
                '<span data-live="speedup">', ""
            )


def test_runs_are_compared(tmp_path: Path, served: Callable[..., Client]) -> None:
    store(tmp_path, history(5, lines=8))
    store(tmp_path, history(3, lines=8), run_record(id="0b", versions={"compiler": "gcc 14"}))
    page = served(tmp_path).ask("/compare?run=3fa94c10&run=0b").text
    assert "gcc 14" in page
    assert "gcc 12.2.0" in page
    assert page.count("<polyline") == 2, "one curve for each run; no other axis is known"


@pytest.mark.parametrize(
    "path",
    [
        "/runs/none",
        "/runs/3fa94c1",
        f"{RUN}/trials/40",
        f"{RUN}/trials/9223372036854775808",
        f"{RUN}/trials/{'9' * 5000}",
        f"{RUN}/trials/-1",
        f"{RUN}/trials/\u0661/source",
        f"{RUN}/parts/secrets",
        "/static/..%2fpages.py",
        "/static/pages.py",
        "/nowhere",
        "/compare?run=none",
    ],
)
def test_what_is_not_there_is_said_to_be_missing(client: Client, path: str) -> None:
    said = client.ask(path)
    assert said.status == 404
    assert "there are no" not in said.text


def test_no_text_of_a_model_is_a_formula_in_a_table(
    tmp_path: Path, served: Callable[..., Client]
) -> None:
    start = Trial(0, 0, Candidate("void kernel() {}"), measured(1000.0))
    plan = Plan(start.candidate.id, "@SUM(A1)", "=HYPERLINK(A1)", "model")
    best = Candidate("void kernel() { }", start.candidate.id, plan, "model")
    run = run_record()
    store(tmp_path, History([start, Trial(1, 1, best, measured(9.0))]), run)
    served_table = served(tmp_path).ask(f"/runs/{run.id}/trials.csv").text
    export(run.id, tmp_path / "trials.csv", tmp_path)
    for table in (served_table, (tmp_path / "trials.csv").read_text()):
        assert "'=HYPERLINK(A1)" in table
        assert ",=HYPERLINK" not in table
        assert ",'@SUM(A1)," in table


def test_text_of_models_and_kernels_is_never_markup(
    tmp_path: Path, served: Callable[..., Client]
) -> None:
    start = Trial(0, 0, Candidate(f"// {EVIL}\nvoid kernel() {{}}"), measured(1000.0))
    plan = Plan(
        start.candidate.id, EVIL, f"{EVIL}\n\n[x](javascript:alert(1))", EVIL, expected=EVIL
    )
    best = Candidate(f"{EVIL}\n", start.candidate.id, plan, EVIL)
    lost = Candidate(f"lost {EVIL}", start.candidate.id, plan, EVIL)
    failed = Trial(2, 1, lost, Failed("check", "wrong_result", EVIL))
    run = run_record(task=EVIL, stop_reason=EVIL, versions={EVIL: EVIL})
    store(tmp_path, History([start, Trial(1, 1, best, measured(9.0)), failed]), run)
    with closing(open_project(tmp_path)) as storage:
        storage.keep(run.id, Label((EVIL,), EVIL))
        storage.append_event(run.id, "Stopped", {"reason": EVIL})
    client = served(tmp_path)
    paths = ["/", RUN, *(f"{RUN}/trials/{n}" for n in range(3)), f"/compare?run={run.id}"]
    paths += [f"{RUN}/parts/{name}" for name in ("result", "tree", "menu", "log")]
    for path in paths:
        page = client.ask(path)
        assert page.status == 200
        assert "<img" not in page.text
        assert "<script>" not in page.text
        assert '<a href="javascript' not in page.text


def test_a_run_without_trials_and_one_whose_start_failed_are_shown(
    tmp_path: Path, served: Callable[..., Client]
) -> None:
    store(tmp_path, History(), run_record(status="running"))
    failed = Trial(0, 0, Candidate("x"), Failed("build", "compile_error", "no kernel", 3))
    store(tmp_path, History([failed]), run_record(id="0b"))
    client = served(tmp_path)
    assert "killed" in client.ask("/").text
    for run in ("3fa94c10", "0b"):
        for path in ("", "/rows", *(f"/parts/{n}" for n in ("result", "tree", "menu", "log"))):
            assert client.ask(f"/runs/{run}{path}").status == 200
    assert "compile error (build, line 3)" in client.ask("/runs/0b/trials/0").text.lower()

"""Python's runs in the toy world: whole searches, and loops of the caller's own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest

import tilewright as tw
from tilewright import evaluating, session
from tilewright.core import plugins, tasks
from tilewright.core.errors import ConfigurationError, InputError, UnknownNameError
from tilewright.core.roles import Executor, Storage
from tilewright.core.tasks import OpenTask
from tilewright.testing.toy import ToyExecutor, ToyProposer, ToyTarget

QUICK = tw.Settings(seed=1, iterations=3, plans=3)


@pytest.fixture(autouse=True)
def evaluated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Sources of the kernels that were evaluated rather than looked up."""
    sources: list[str] = []

    def create_executor(
        opened: OpenTask,
        settings: Mapping[str, object],
        workers: int | None,
        storage: Storage | None,
    ) -> Executor:
        assert storage is not None
        return ToyExecutor(
            lookup=storage.cached_outcome, store=storage.store_outcome, on_evaluated=sources.append
        )

    monkeypatch.setattr(tasks, "load_target", lambda name: ToyTarget())
    monkeypatch.setattr(plugins, "load_proposer", lambda name: ToyProposer())
    monkeypatch.setattr(evaluating, "create_executor", create_executor)
    monkeypatch.setattr(session, "create_executor", create_executor)
    monkeypatch.chdir(tmp_path)
    return sources


def test_optimize_gives_a_run_that_can_be_opened_again() -> None:
    found = tw.optimize("toy:digits", settings=QUICK)
    assert found.summary.status == "finished"
    assert found.best is not None
    assert found.best.latency == min(t.latency for t in found.history if t.latency is not None)
    again = tw.open_run(found.id[:5])
    assert again.id == found.id
    assert [t.candidate.id for t in again.history] == [t.candidate.id for t in found.history]
    with pytest.raises(UnknownNameError):
        tw.open_run("nothing")


def test_budget_and_proposers_come_before_the_settings() -> None:
    found = tw.optimize("toy:digits", settings=QUICK, budget="3 evaluations")
    assert len(found.history) == 3
    assert "the budget of 3 evaluations is spent" in found.summary.stop_reason
    with pytest.raises(UnknownNameError, match="unknown proposer 'other'"):
        tw.optimize("toy:digits", settings=QUICK, proposers=["other"])
    with pytest.raises(InputError, match="the budget 'soon' cannot be read"):
        tw.optimize("toy:digits", budget="soon")
    with pytest.raises(InputError, match=r"Give tw.Settings, such as tw.Settings\(seed=7\)"):
        tw.optimize("toy:digits", settings={"seed": 7})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="kernel is None, but must be the source as a string"):
        tw.evaluate(None, "toy:digits")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="budget is 5, but must be a string with a unit"):
        tw.optimize("toy:digits", budget=5)  # type: ignore[arg-type]


def test_a_table_has_a_row_for_each_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    found = tw.optimize("toy:digits", settings=QUICK)
    table = found.to_dataframe()
    assert isinstance(table, pandas.DataFrame)
    assert list(table["trial"]) == list(range(len(found.history)))
    assert found.best is not None
    assert table["latency"].min() == found.best.latency
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ConfigurationError, match=r"tilewright\[pandas\]"):
        found.to_dataframe()


def test_html_is_escaped_and_shows_what_was_reached() -> None:
    with tw.begin("toy:digits", settings=QUICK) as mine:
        mine.tell("toy 0 0 0 0 0", note="<script>alert(1)</script>. More")
    html = tw.open_run()._repr_html_()
    assert "2.35x" in html
    assert "&lt;script&gt;" in html
    assert "<script>" not in html
    assert mine.id in repr(mine)


@pytest.mark.parametrize("task", [5, None, b"toy", ["toy"]])
def test_a_task_is_a_name_a_folder_or_functions(task: Any) -> None:
    with pytest.raises(InputError, match=r"but must be a workload's name, a folder or a tw.Task"):
        tw.optimize(task)
    with pytest.raises(InputError, match=r"tw.Task. Give one like"):
        tw.evaluate("void kernel(void) {}", task)


def test_ask_and_tell_reach_what_a_loop_of_their_own_is_for(evaluated: list[str]) -> None:
    with tw.begin("toy:digits", settings=QUICK, budget="6 evaluations") as mine:
        candidate = mine.ask()
        assert candidate is not None
        assert evaluated == [mine.history[0].candidate.source]  # asking evaluates nothing
        first = mine.tell(candidate)
        assert (first.index, first.candidate) == (1, candidate)
        told = mine.tell("toy 1 1 1 1 1", parent=first.candidate.id, note="all ones")
        assert told.latency == 115
        assert told.candidate.plan is not None
        assert (told.candidate.parent_id, told.candidate.plan.text) == (candidate.id, "all ones")
        assert mine.tell("toy 1 1 1 1 1") is told  # known: nothing is spent
        wrong = mine.tell("toy -1 1 1 1 1")
        assert isinstance(wrong.outcome, tw.Failed)
        assert wrong.candidate.parent_id == told.candidate.id  # the best one unless said
        assert mine.best is told
        while (candidate := mine.ask()) is not None:
            mine.tell(candidate)
        assert len(mine.history) == 6 == len(evaluated)
        assert mine.over == "the budget of 6 evaluations is spent"
        with pytest.raises(InputError, match="the budget of 6 evaluations is spent"):
            mine.tell("toy 2 2 2 2 2")
    assert tw.open_run().summary.status == "finished"
    stored = tw.open_run(mine.id).history
    assert [t.index for t in stored] == list(range(6))


def test_later_candidates_are_made_from_what_was_told() -> None:
    with tw.begin("toy:digits", settings=QUICK) as mine:
        told = mine.tell("toy 3 3 3 3 3")
        parents = set()
        for _ in range(40):
            candidate = mine.ask()
            assert candidate is not None
            parents.add(candidate.parent_id)
            if told.candidate.id in parents:
                break
            mine.tell(candidate)
        assert told.candidate.id in parents


def test_leaving_early_interrupts_and_the_same_call_goes_on(evaluated: list[str]) -> None:
    with tw.begin("toy:digits", settings=QUICK) as mine:
        mine.tell("toy 5 5 5 5 5")
    assert tw.open_run().summary.status == "interrupted"
    found = tw.optimize("toy:digits", settings=QUICK)
    assert found.id == mine.id
    assert found.history[1].candidate.source == "toy 5 5 5 5 5"
    assert found.summary.status == "finished"
    assert len(evaluated) == len(set(evaluated))


def test_an_error_in_the_callers_loop_leaves_the_run_interrupted() -> None:
    with pytest.raises(ZeroDivisionError), tw.begin("toy:digits", settings=QUICK):
        raise ZeroDivisionError("mine")
    summary = tw.open_run().summary
    assert (summary.status, summary.stop_reason) == ("interrupted", "ZeroDivisionError: mine")


def test_a_parent_must_be_a_kernel_of_the_run() -> None:
    with (
        tw.begin("toy:digits", settings=QUICK) as mine,
        pytest.raises(InputError, match="'x' is not the id of a kernel of this run"),
    ):
        mine.tell("toy 1 1 1 1 1", parent="x")


def test_in_an_event_loop_events_are_heard_in_the_loop() -> None:
    heard: list[tuple[str, int]] = []
    ticks = 0

    async def main() -> tw.Run:
        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(tick())
        found = await tw.aoptimize(
            "toy:digits",
            settings=QUICK,
            on_event=lambda event: heard.append((type(event).__name__, get_ident())),
        )
        beside.cancel()
        return found

    found = asyncio.run(main())
    assert found.summary.status == "finished"
    assert ticks > 1
    assert {thread for _, thread in heard} == {get_ident()}
    assert [name for name, _ in heard].count("Evaluated") == len(found.history)


def test_a_cancelled_search_is_stored_and_goes_on() -> None:
    async def main() -> None:
        evaluated = asyncio.Event()

        def hear(event: tw.events.Event) -> None:
            if isinstance(event, tw.events.Evaluated):
                evaluated.set()

        search = asyncio.create_task(tw.aoptimize("toy:digits", settings=QUICK, on_event=hear))
        await evaluated.wait()
        search.cancel()
        with pytest.raises(asyncio.CancelledError):
            await search
        assert tw.open_run().summary.status == "interrupted"

    asyncio.run(main())
    assert tw.optimize("toy:digits", settings=QUICK).summary.status == "finished"


def test_an_open_run_answers_the_tools_of_agents() -> None:
    with tw.begin("toy:digits", settings=QUICK, budget="3 evaluations") as opened:
        told = opened.use("evaluate", kernel="toy 9 9 9 9 8", note="one less")
        assert (told.verdict, told.latency, told.left) == ("correct", 230.0, 1)
        assert opened.history[1].candidate.id == told.candidate
        assert opened.use("evaluate", limit=3).reason.startswith("unknown argument")

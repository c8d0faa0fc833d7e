"""Full searches that ask models over HTTP: alone, mixed, over budget, recorded and replayed."""

from __future__ import annotations

import os
import random
import sqlite3
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
from toy_models import answer, answer_natively, enter_toy_world

from tilewright import run, session
from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError, InputError
from tilewright.core.plugins import load_target
from tilewright.core.records import CallRecord, History, Trial
from tilewright.core.secrets import is_secret_name, without_secrets
from tilewright.models import model_calls, recording, replayed, stored_shares, turns_taken
from tilewright.proposers.llm import dispatch
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.prompts import render
from tilewright.sandbox.child import Child
from tilewright.sandbox.forking import Prepared
from tilewright.search.events import Called, Event, ModelsForecast
from tilewright.storage.project import open_project
from tilewright.testing.model_protocols import Behaviour
from tilewright.testing.model_server import ModelServer
from tilewright.testing.rewriter_model import RewriterModel

CANARY = "canary-c0ffee42-secret"
SMALL = {"beam": 2, "plans": 2, "implementations": 1, "iterations": 2, "dropout": 0.3}


CALLS = "tilewright.proposers.llm.call_process"
PREPARATION = Prepared((CALLS, "anthropic", "openai"), without_secrets(os.environ))
"""The same in all tests, so that they share one process that imports."""


@pytest.fixture(autouse=True)
def forked_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The processes that call models are forked from one that has imported the providers'
    packages, because each import takes 0.6 to 1.3 s.

    Other tests start these processes as tilewright does (tests/unit/llm/test_call_process.py).
    """
    with Path(os.devnull).open("wb") as nothing:

        def start(*arguments: str, **options: Any) -> Child:
            forked = {"output": nothing, "preparation": PREPARATION}
            return Child(*arguments, **{**options, **forked})

        monkeypatch.setattr(dispatch, "Child", start)
        yield


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.core import tasks

    monkeypatch.setattr(tasks, "load_target", tasks.load_target)
    monkeypatch.setattr(session, "create_executor", session.create_executor)
    enter_toy_world()


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer(answer=answer) as running:
        yield running


def history_of(project: Path, run_id: str = "latest") -> History:
    storage = open_project(project)
    found = storage.history(storage.run(run_id).id)
    storage.close()
    return found


def trajectory(project: Path) -> list[Trial]:
    return [Trial(t.index, t.iteration, t.candidate, t.outcome) for t in history_of(project)]


def calls_of(project: Path) -> list[CallRecord]:
    return model_calls(history_run(project), project=project)


def history_run(project: Path) -> str:
    storage = open_project(project)
    found = storage.run("latest").id
    storage.close()
    return found


def optimize(project: Path, *models: str, **settings: object) -> run.Summary:
    replay = settings.pop("replay", None)
    values = {**SMALL, **settings}
    return run.optimize(
        "toy:digits",
        Settings(proposers=models, **values),  # type: ignore[arg-type]
        project=project,
        replay=replay,  # type: ignore[arg-type]
    )


@pytest.mark.usefixtures("toy")
def test_two_models_share_the_work(tmp_path: Path, server: ModelServer) -> None:
    models = f"openai/a@{server.url}?price=1:2", f"anthropic/b@{server.root}?price=1:2"
    summary = optimize(tmp_path, *models, iterations=4)
    assert summary.speedup is not None
    assert summary.speedup > 1
    calls = Counter((call.model, call.phase) for call in calls_of(tmp_path))
    for phase in ("plan", "implement"):
        assert calls[models[0], phase] == pytest.approx(calls[models[1], phase], abs=2)
    assert {t.candidate.proposer for t in history_of(tmp_path)} == {"start", *models}


@pytest.mark.usefixtures("toy")
def test_without_ensemble_only_the_first_model_is_asked(
    tmp_path: Path, server: ModelServer
) -> None:
    models = f"openai/a@{server.url}", f"openai/b@{server.url}"
    optimize(tmp_path, *models, without=("ensemble",))
    assert {call.model for call in calls_of(tmp_path)} == {models[0]}


@pytest.mark.usefixtures("toy")
def test_without_dropout_every_option_is_on_offer(tmp_path: Path, server: ModelServer) -> None:
    def offered(project: Path, *without: str) -> set[int]:
        server.requests.clear()
        optimize(project, f"openai/a@{server.url}", without=without, dropout=0.6)
        prompts = [str(body["messages"]) for body in server.requests]
        return {p.count("Lower digit") for p in prompts if "Select exactly one" in p}

    assert offered(tmp_path / "all", "dropout") == {5}
    assert offered(tmp_path / "some") != {5}


@pytest.mark.usefixtures("toy")
def test_the_forecast_comes_first_and_holds(tmp_path: Path, server: ModelServer) -> None:
    events: list[Event] = []
    name = f"openai/a@{server.url}?price=1:2&max_tokens=200"
    settings = Settings(proposers=(name,), **SMALL)  # type: ignore[arg-type]
    heard_in: set[int] = set()

    def hear(event: Event) -> None:
        events.append(event)
        heard_in.add(get_ident())

    run.optimize("toy:digits", settings, project=tmp_path, on_event=hear)
    kinds = [type(event) for event in events]
    assert kinds.index(ModelsForecast) < kinds.index(Called)
    assert heard_in == {get_ident()}  # though the calls were made by other threads
    told = next(event for event in events if isinstance(event, ModelsForecast))
    calls = calls_of(tmp_path)
    assert told.usd is not None
    assert told.calls == (1 + 2) * 2 * (1 + 1 + 1)  # parents, plans; to plan, implement, repair
    assert len(calls) <= told.calls
    # The server counts 1000 tokens for each prompt, however short; so these are counted again.
    replies = sum(2e-6 * (call.output_tokens or 0) for call in calls)
    prompts = sum(1e-6 * len(str(body["messages"])) / 3 for body in server.requests)
    assert replies + prompts <= told.usd
    unpriced = Settings(proposers=(f"openai/a@{server.url}",), **SMALL)  # type: ignore[arg-type]
    events.clear()
    run.optimize("toy:digits", unpriced, project=tmp_path, on_event=events.append)
    assert next(e for e in events if isinstance(e, ModelsForecast)).usd is None


@pytest.mark.usefixtures("toy")
def test_failed_candidates_are_repaired(tmp_path: Path, server: ModelServer) -> None:
    model = f"openai/a@{server.url}"
    optimize(tmp_path, model, iterations=8, patience=8)
    repaired = [
        t
        for t in history_of(tmp_path)
        if t.candidate.plan is not None and "repairs" in t.candidate.plan.parameters
    ]
    assert repaired
    assert any(t.latency is not None for t in repaired)
    history = history_of(tmp_path)
    for trial in repaired:
        assert trial.candidate.plan is not None
        broken = history.get(str(trial.candidate.plan.parameters["repairs"]))
        assert broken is not None
        assert broken.latency is None
        assert broken.candidate.parent_id == trial.candidate.parent_id
    assert "repair" not in {
        call.phase for call in calls_of_other(tmp_path / "none", server, repairs=0)
    }


def calls_of_other(project: Path, server: ModelServer, **settings: object) -> list[CallRecord]:
    optimize(project, f"openai/a@{server.url}", iterations=4, **settings)
    return calls_of(project)


@pytest.mark.usefixtures("toy")
def test_the_beam_does_not_depend_on_which_reply_comes_first(
    tmp_path: Path, server: ModelServer
) -> None:
    name = f"openai/a@{server.url}"
    optimize(tmp_path / "even", name, iterations=4)
    server.requests.clear()
    rng = random.Random(1)
    broken = Behaviour(status=500, headers={"retry-after": "0"})
    server.script = [
        broken if rng.random() < 0.1 else Behaviour(delay_s=rng.uniform(0, 0.3)) for _ in range(200)
    ]
    optimize(tmp_path / "uneven", name, iterations=4)
    assert trajectory(tmp_path / "uneven") == trajectory(tmp_path / "even")


@pytest.mark.usefixtures("toy")
def test_the_budget_stops_before_it_is_exceeded(tmp_path: Path, server: ModelServer) -> None:
    model = f"openai/a@{server.url}?price=0:5000&max_tokens=200"
    summary = optimize(tmp_path, model, max_usd=5.2, iterations=8)
    spent = sum(call.usd or 0 for call in calls_of(tmp_path))
    assert 4.0 < spent <= 5.2
    assert summary.status == "finished"
    assert "5.2 USD does not allow another call" in summary.stop_reason


@pytest.mark.usefixtures("toy")
def test_unpriced_models_need_leave(tmp_path: Path, server: ModelServer) -> None:
    model = f"openai/a@{server.url}"
    with pytest.raises(ConfigurationError, match="the price of model"):
        optimize(tmp_path, model, max_usd=1.0)
    assert server.requests == []
    assert optimize(tmp_path, model, max_usd=1.0, allow_unpriced=True).evaluations > 1
    assert all(call.usd is None for call in calls_of(tmp_path))


@pytest.mark.usefixtures("toy")
def test_a_refused_key_pauses_and_the_same_command_goes_on(tmp_path: Path) -> None:
    good = [Behaviour()] * 9
    with ModelServer(*good, Behaviour(status=401), answer=answer) as server:
        name = f"openai/a@{server.url}?concurrency=1"
        with pytest.raises(ModelError, match="continues where the run stopped"):
            optimize(tmp_path, name, iterations=4)
        paid = [call for call in calls_of(tmp_path) if call.state == "replied"]
        assert len(paid) == 9
        server.script = [Behaviour()]
        before = len(server.headers)
        assert optimize(tmp_path, name, iterations=4).status == "finished"
        asked = Counter(h["idempotency-key"] for h in server.headers[before:])
    assert not set(asked) & {call.key for call in paid}


@pytest.mark.usefixtures("toy")
def test_an_exhausted_quota_pauses_and_nothing_is_paid_twice(
    tmp_path: Path, server: ModelServer
) -> None:
    """Calls under way when the quota ran out still end well: they are paid for, and kept."""
    name = f"openai/a@{server.url}?price=1:2"
    optimize(tmp_path / "undisturbed", name, iterations=4)
    server.requests.clear()
    server.headers.clear()
    no_money = Behaviour(kind="insufficient_quota", status=429, text="no money")
    late = [Behaviour(delay_s=0.5), Behaviour(delay_s=0.7)]
    server.script = [Behaviour()] * 9 + [*late, no_money]
    with pytest.raises(ModelError, match=r"quota of model .* is exhausted"):
        optimize(tmp_path / "paused", name, iterations=4)
    storage = open_project(tmp_path / "paused")
    assert storage.run("latest").status == "interrupted"
    storage.close()
    paid = [headers["idempotency-key"] for headers in server.headers[:11]]
    server.script = [Behaviour()]
    asked_before = len(server.headers)
    assert optimize(tmp_path / "paused", name, iterations=4).status == "finished"
    assert trajectory(tmp_path / "paused") == trajectory(tmp_path / "undisturbed")
    paid += [headers["idempotency-key"] for headers in server.headers[asked_before:]]
    assert len(set(paid)) == len(paid)
    spent = {call.key: call.usd for call in calls_of(tmp_path / "paused")}
    assert spent == {call.key: call.usd for call in calls_of(tmp_path / "undisturbed")}
    assert set(spent) == set(paid)


@pytest.mark.usefixtures("toy")
def test_adaptive_shares_follow_gain_per_dollar(tmp_path: Path) -> None:
    """One of two models gains nothing for its price; a paused and resumed run is the same."""

    def useless(prompt: str, key: str) -> str:
        if "# Optimisations to choose from" in prompt:
            return "I would lower a digit."
        return f"```\ntoy 9 9 9 9 {10 + int(key, 16) % 90}  toy()\n```"

    def search(project: Path, **settings: object) -> list[tuple[str, str]]:
        optimize(project, *names, **{**wide, **settings})
        return sorted((call.model, call.key) for call in calls_of(project))

    wide = {"plans": 6, "iterations": 6, "patience": 6, "allocation": "adaptive", "repairs": 0}
    with ModelServer(answer=answer) as good, ModelServer(answer=useless) as bad:
        names = tuple(f"openai/m@{server.url}?price=1:1" for server in (good, bad))
        calls = search(tmp_path / "adaptive")
        even = search(tmp_path / "even", allocation="even")
        bad.script = [*[Behaviour()] * 15, Behaviour(kind="insufficient_quota", status=429)]
        bad.requests.clear()
        with pytest.raises(ModelError, match="exhausted"):
            search(tmp_path / "paused")
        bad.script = [Behaviour()]
        assert search(tmp_path / "paused") == calls
    assert trajectory(tmp_path / "paused") == trajectory(tmp_path / "adaptive")
    storage = open_project(tmp_path / "adaptive")
    shares = stored_shares(storage, storage.run("latest").id)
    storage.close()
    assert shares[1] == (0.5, 0.5)
    # What the model answers depends on its name, and that on the port: so bounds are wide.
    assert shares[6][0] > 0.6
    assert all(0.15 <= share[1] <= 0.5 for share in shares.values())

    def asked(calls: list[tuple[str, str]]) -> float:
        """The share of the model that gains in the calls."""
        return sum(model == names[0] for model, _ in calls) / len(calls)

    assert 0.4 < asked(even) < 0.6
    assert asked(calls) > asked(even) + 0.03


@pytest.mark.usefixtures("toy")
def test_recorded_and_replayed(tmp_path: Path, server: ModelServer) -> None:
    name = f"openai/a@{server.url}?key_env=ABSENT_KEY"
    os.environ["ABSENT_KEY"] = CANARY
    optimize(tmp_path / "a", name, iterations=4)
    del os.environ["ABSENT_KEY"]
    file = tmp_path / "recording.jsonl"
    file.write_text(recording(history_run(tmp_path / "a"), project=tmp_path / "a"))
    asked = len(server.requests)
    optimize(tmp_path / "b", name, iterations=4, replay=file)
    assert trajectory(tmp_path / "b") == trajectory(tmp_path / "a")
    assert len(server.requests) == asked
    with pytest.raises(ModelError, match="contains no reply"):
        optimize(tmp_path / "c", name, iterations=4, seed=7, replay=file)
    other = name.replace("openai/a", "openai/b")
    with pytest.raises(InputError, match=r"contains no replies of openai/b.*, but of openai/a"):
        optimize(tmp_path / "e", other, replay=file)
    file.write_text("{}")
    with pytest.raises(InputError, match="not a usable recording"):
        optimize(tmp_path / "d", name, replay=file)


@pytest.mark.usefixtures("toy")
def test_a_recording_outlives_other_prompts_and_says_so(
    tmp_path: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"openai/a@{server.url}"
    optimize(tmp_path / "a", name, iterations=3)
    file = tmp_path / "recording.jsonl"
    file.write_text(recording(history_run(tmp_path / "a"), project=tmp_path / "a"))

    def replayed_in(project: Path) -> tuple[int, int]:
        optimize(project, name, iterations=3, replay=file)
        assert trajectory(project) == trajectory(tmp_path / "a")
        storage = open_project(project)
        counts = replayed(storage, storage.run("latest").id)
        storage.close()
        assert counts is not None
        return counts.calls, counts.differing

    calls, differing = replayed_in(tmp_path / "same")
    assert (calls, differing) == (len(calls_of(tmp_path / "a")), 0)
    monkeypatch.setattr(render, "describe_latency", lambda trial, notes=(): "refitted")
    measured = [call for call in calls_of(tmp_path / "a") if call.phase in ("plan", "implement")]
    assert replayed_in(tmp_path / "refitted") == (calls, len(measured))


@pytest.mark.usefixtures("toy")
def test_a_second_run_takes_replies_from_the_first(tmp_path: Path, server: ModelServer) -> None:
    name = f"openai/a@{server.url}?price=1:1"
    optimize(tmp_path, name)
    asked = len(server.requests)
    optimize(tmp_path, name)
    assert len(server.requests) == asked
    assert all(call.cached and call.usd == 0 for call in calls_of(tmp_path))


@pytest.mark.usefixtures("toy")
def test_no_secret_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    assert is_secret_name("TEST_API_KEY")
    script = [Behaviour()] * 4 + [Behaviour(status=400, text=f"your key {CANARY} is odd")]
    with ModelServer(*script, answer=answer) as server:
        name = f"openai/a@{server.url}?key_env=TEST_API_KEY"
        with pytest.raises(ModelError) as caught:
            optimize(tmp_path, name, iterations=4)
        assert any(CANARY in h["authorization"] for h in server.headers)
    assert CANARY not in str(caught.value)
    for file in tmp_path.rglob("*"):
        if file.is_file():
            assert CANARY.encode() not in file.read_bytes(), file
    with sqlite3.connect(tmp_path / ".tilewright" / "tilewright.db") as database:
        assert not [line for line in database.iterdump() if CANARY in line]


@pytest.mark.slow
@pytest.mark.toolchain
def test_a_scripted_model_makes_a_real_kernel_faster(tmp_path: Path) -> None:
    """A model that answers with real rewrites, beside the built-in rewriter; then replayed."""
    task = load_target("gemmini").open("gemm-64x64x128", {})
    model = RewriterModel(load_target("gemmini").brief(), task.workload)
    events: list[Event] = []
    with ModelServer(answer=model.answer) as server:
        name = f"openai/rewriter@{server.url}?price=1:2"
        settings = Settings(
            proposers=(name, "builtin"),
            beam=2,
            plans=3,
            implementations=1,
            iterations=2,
            input_seed=1,
        )
        task_name = "gemmini:gemm-64x64x128"
        project = tmp_path / "a"
        project.mkdir()
        summary = run.optimize(task_name, settings, project=project, on_event=events.append)
        prompts = [str(body["messages"]) for body in server.requests]
    assert summary.speedup is not None
    assert summary.speedup > 1.2
    by_author = Counter(t.candidate.proposer for t in history_of(project))
    # How many there are depends on the server's port: it is in the name, and that in the seeds.
    assert by_author[name] >= 1
    assert by_author["builtin"] >= 1
    assert any("latency:" in prompt for prompt in prompts)
    assert sum(isinstance(event, Called) for event in events) == len(prompts)
    file = tmp_path / "recording.jsonl"
    file.write_text(recording(summary.run_id, project=project))
    again = tmp_path / "b"
    again.mkdir()
    run.optimize(task_name, settings, project=again, replay=file)
    assert trajectory(again) == trajectory(project)


@pytest.mark.usefixtures("toy")
def test_proposals_in_turns_are_trials_like_all_others(tmp_path: Path, server: ModelServer) -> None:
    """Each with the turn that made it; what is proposed does not depend on who is first."""
    name = f"openai/a@{server.url}?price=1:2"
    summary = optimize(tmp_path / "a", name, turns=4, iterations=3)
    assert summary.speedup is not None
    assert summary.speedup > 1
    history = history_of(tmp_path / "a")
    turns = Counter(t.candidate.plan.turn for t in history if t.candidate.plan is not None)
    # Whether the last turn makes a new kernel depends on the server's port, as above.
    assert {1, 2, 3} <= set(turns) <= {1, 2, 3, 4}
    assert len({t.candidate.id for t in history}) == len(history)  # none is evaluated twice
    phases = Counter(call.phase for call in calls_of(tmp_path / "a"))
    assert set(phases) == {"turn 1", "turn 2", "turn 3", "turn 4"}
    # Two plans of the start, then of one or two parents in each of two iterations; how many parents
    # there are depends on the server's port, too.
    assert phases["turn 1"] in (6, 8, 10)
    optimize(tmp_path / "b", name, turns=4, iterations=3)
    assert trajectory(tmp_path / "b") == trajectory(tmp_path / "a")


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_native_calls_make_a_search_that_replays(
    tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    with ModelServer(answer=answer_natively) as server:
        url = server.url if protocol == "openai" else server.root
        name = f"{protocol}/a@{url}?price=1:2&key_env=TEST_API_KEY"
        # Seeds depend on the server's port; in so many conversations every tool is called.
        summary = optimize(tmp_path / "a", name, turns=4, iterations=6)
        assert all("tools" in body for body in server.requests)
    assert summary.speedup is not None
    assert summary.speedup > 1
    found = turns_taken(
        history_run(tmp_path / "a"), history_of(tmp_path / "a"), project=tmp_path / "a"
    )
    uses = [use for one in found for turn in one.turns[:-1] for use in turn.tools]
    assert {"evaluate", "profile", "try", "tried"} <= {use.tool for use in uses}
    assert all("compared with the " in use.answer for use in uses if use.tool == "try")
    file = tmp_path / "turns.jsonl"
    file.write_text(recording(history_run(tmp_path / "a"), project=tmp_path / "a"))
    assert CANARY not in file.read_text()
    optimize(tmp_path / "b", name, turns=4, iterations=6, replay=file)
    assert trajectory(tmp_path / "b") == trajectory(tmp_path / "a")


@pytest.mark.usefixtures("toy")
def test_turns_leave_a_transcript(tmp_path: Path, server: ModelServer) -> None:
    """Of each turn: its tools with their answers, its kernels, and what all that took."""
    name = f"openai/a@{server.url}?price=1:2"
    optimize(tmp_path, name, turns=4, iterations=6)
    history, calls = history_of(tmp_path), calls_of(tmp_path)
    found = turns_taken(history_run(tmp_path), history, project=tmp_path)
    turns = [turn for transcript in found for turn in transcript.turns]
    assert len(turns) == len(calls)
    assert all([t.number for t in one.turns] == list(range(1, len(one.turns) + 1)) for one in found)
    told = sorted(trial for turn in turns for trial in turn.trials)
    assert told == [t.index for t in history if t.candidate.plan is not None]
    for transcript in found:
        for turn in transcript.turns:
            for trial in turn.trials:
                parent_id = history[trial].candidate.parent_id
                assert parent_id is not None
                parent = history.get(parent_id)
                assert parent is not None
                assert transcript.parent == parent.index
                assert transcript.iteration == history[trial].iteration
    assert sum(turn.input_tokens or 0 for turn in turns) == sum(c.input_tokens or 0 for c in calls)
    assert sum(turn.usd or 0 for turn in turns) == pytest.approx(sum(c.usd or 0 for c in calls))
    uses = [use for one in found for turn in one.turns[:-1] for use in turn.tools]
    assert {"evaluate", "profile", "try", "tried"} <= {use.tool for use in uses}
    assert all("compared with the " in use.answer for use in uses if use.tool == "try")
    assert all(use.answer for use in uses)
    for transcript in found:
        *answered, last = transcript.turns
        assert all(0 < turn.result_tokens < 1000 for turn in answered)
        assert last.result_tokens == 0


@pytest.mark.usefixtures("toy")
def test_recorded_turns_are_replayed(tmp_path: Path, server: ModelServer) -> None:
    name = f"openai/a@{server.url}?price=1:2"
    optimize(tmp_path / "a", name, turns=3)
    file = tmp_path / "turns.jsonl"
    file.write_text(recording(history_run(tmp_path / "a"), project=tmp_path / "a"))
    asked = len(server.headers)
    optimize(tmp_path / "b", name, turns=3, replay=file)
    assert len(server.headers) == asked
    assert trajectory(tmp_path / "b") == trajectory(tmp_path / "a")


@pytest.mark.usefixtures("toy")
def test_turns_stay_within_the_evaluations(tmp_path: Path, server: ModelServer) -> None:
    name = f"openai/a@{server.url}?price=1:2"
    summary = optimize(tmp_path, name, turns=4, iterations=3, max_evaluations=7)
    assert summary.evaluations == 7
    assert summary.stop_reason == "the budget of 7 evaluations is spent"


@pytest.mark.usefixtures("toy")
def test_the_forecast_of_turns_holds(tmp_path: Path, server: ModelServer) -> None:
    events: list[Event] = []
    name = f"openai/a@{server.url}?price=1:2&max_tokens=200"
    settings = Settings(proposers=(name,), turns=4, **SMALL)  # type: ignore[arg-type]
    run.optimize("toy:digits", settings, project=tmp_path, on_event=events.append)
    (told,) = (event for event in events if isinstance(event, ModelsForecast))
    calls = calls_of(tmp_path)
    assert told.calls == (1 + 2) * 2 * 4 >= len(calls)
    assert told.usd is not None
    assert told.usd >= sum(call.usd or 0.0 for call in calls)

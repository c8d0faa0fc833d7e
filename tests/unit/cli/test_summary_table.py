"""The final table: the starting kernel, the baselines and the best kernel."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rich.console import Console

from tilewright.cli.searching import summary_json
from tilewright.cli.summary_table import comparison, search_comparison, summary_lines
from tilewright.core.config import Settings
from tilewright.core.records import (
    Baseline,
    Candidate,
    Check,
    Failed,
    History,
    Measured,
    Plan,
    Trial,
    Verdict,
)
from tilewright.evaluation.screening import out_of_time
from tilewright.search.summary import Summary, summarize
from tilewright.testing.runs import measured, run_record

START, BEST = Candidate("start"), Candidate("best", parent_id=Candidate("start").id)
TRIALS = History([Trial(0, 0, START, measured(4e6)), Trial(1, 1, BEST, measured(1e6))])
BASELINES = (
    Baseline("naive", START.id, measured(4e6)),
    Baseline("library", "other", measured(2e6)),
    Baseline("tuned", "another", Failed("check", "wrong_result", "wrong")),
)


REFUTED = History(
    [
        TRIALS[0],
        *(
            Trial(
                i, 1, Candidate(f"fast {i}"), Failed("measure", "unconfirmed", f"reason {i}\nmore")
            )
            for i in range(1, 8)
        ),
    ]
)


def rows(summary: Summary, history: History = TRIALS) -> list[list[str]]:
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(search_comparison(summary, history))
    return [line.split() for line in captured.get().splitlines()[1:]]


def test_each_baseline_has_a_row_and_the_start_only_one() -> None:
    start, library, tuned, best = rows(summarize(run_record(), TRIALS, BASELINES))
    assert start[:4] == ["starting", "kernel", "(naive)", "4,000,000"]
    assert start[-2:] == ["1.00x", "4.00x"]
    assert library[:2] == ["library", "2,000,000"]
    assert library[-2:] == ["2.00x", "2.00x"]
    assert tuned[:2] == ["tuned", "failed"]
    assert best[-2:] == ["4.00x", "1.00x"]


def test_classes_of_precision_are_named_if_they_differ() -> None:
    def of(latency: float, precision: str) -> Measured:
        return replace(measured(latency), verdict=Verdict((Check(1, "small", precision),)))

    trials = History(
        [Trial(0, 0, START, of(4e6, "float32")), Trial(1, 1, BEST, of(1e6, "tf32-like"))]
    )
    same = Baseline("library", "other", of(2e6, "float32"))
    start, library, best = rows(summarize(run_record(), trials, (same,)), trials)
    assert [row[-3] for row in (start, library, best)] == ["float32", "float32", "tf32-like"]
    alike = (replace(same, outcome=of(2e6, "exact")), replace(same, name="naive"))
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        console.print(comparison(alike, of(1e6, "exact")))
        console.print(comparison(alike[:1], of(1e6, "exact")))
    first, second = captured.get().split("utilisation")[1:]
    assert "precision" in first
    assert "precision" not in second


def test_without_baselines_only_start_and_best() -> None:
    start, best = rows(summarize(run_record(), TRIALS))
    assert start[:2] == ["starting", "kernel"]
    assert best[:2] == ["best", "kernel"]


def test_json_says_how_much_faster_than_each() -> None:
    written = summary_json(summarize(run_record(), TRIALS, BASELINES))["baselines"]
    assert isinstance(written, dict)
    assert list(written) == ["naive", "library", "tuned"]
    assert written["library"]["speedup"] == 2
    assert written["tuned"] == {
        "verdict": "wrong_result", "latency": None, "utilization": None, "precision": None,
        "speedup": None,
    }  # fmt: skip


def test_wins_that_did_not_hold_are_counted_and_explained() -> None:
    summary = summarize(run_record(), REFUTED)
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        for line in summary_lines(summary, REFUTED):
            console.print(line)
    shown = captured.get()
    assert (
        "no kernel was found that is faster than the starting kernel; 7 candidates looked" in shown
    )
    assert "  trial 7: reason 7\n" in shown
    assert "reason 2" not in shown
    assert "and 2 more" in shown
    written = summary_json(summary)["unconfirmed"]
    assert isinstance(written, list)
    assert len(written) == 7
    assert written[0] == {
        "trial": 1, "candidate": Candidate("fast 1").id, "reason": "reason 1\nmore",
    }  # fmt: skip


def shown(summary: Summary, history: History) -> str:
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        for line in summary_lines(summary, history):
            console.print(line)
    return captured.get()


def test_a_search_without_a_win_says_why() -> None:
    outcomes = [
        Failed("build", "compile_error", ""),
        Failed("check", "wrong_result", ""),
        Failed("measure", "slower_than_limit", "", bound=5e6),
        measured(4.5e6),
        Failed("measure", "unconfirmed", "did not hold"),
    ]
    tried = (Trial(i, 1, Candidate(f"c{i}"), o) for i, o in enumerate(outcomes, 1))
    history = History([TRIALS[0], *tried])
    told = shown(summarize(run_record(), history), history)
    assert "Why no faster kernel was found" in told
    assert "Candidates failed (1 compile error, 1 wrong result)." in told
    assert "2 candidates computed correct results but were no faster" in told
    assert "1 candidate looked faster at first" in told
    assert "before the first candidate" not in told
    assert "no kernel can beat" not in told
    assert "Why no faster kernel was found" not in shown(summarize(run_record(), TRIALS), TRIALS)


@pytest.mark.parametrize(
    ("causes", "words"),
    [
        (["wrong_result"], "1 candidate looked faster at first, but was wrong on new inputs"),
        (["", ""], "2 candidates looked faster at first, but were not faster when measured again"),
        (
            ["wrong_result", "wrong_result", "timeout", ""],
            "4 candidates looked faster at first, but 2 were wrong on new inputs, 1 was not built "
            "and run successfully a second time and 1 was not faster when measured again",
        ),
        (
            ["out_of_time"],
            "1 candidate looked faster at first, but was not evaluated again before the budget "
            "ended",
        ),
    ],
)
def test_the_reasons_why_candidates_were_not_confirmed(causes: list[str], words: str) -> None:
    tried = (
        Trial(i, 1, Candidate(f"c{i}"), Failed("measure", "unconfirmed", "", cause=cause))
        for i, cause in enumerate(causes, 1)
    )
    history = History([TRIALS[0], *tried])
    told = shown(summarize(run_record(), history), history)
    assert " ".join(told.split()).count(words) == 3  # headline, reasons, list
    assert ("less busy" in told) == ("" in causes)


@pytest.mark.parametrize(
    ("proposers", "said", "not_said"),
    [
        (["builtin"], "Add a language model (--proposer openai/gpt-5.5)", "did not answer"),
        (
            ["builtin", "openai/gpt-5.5"],
            "No kernel was written. openai/gpt-5.5 did not answer, or gave no answer",
            "Add a language model",
        ),
    ],
)
def test_without_a_candidate_a_model_is_advised_only_where_none_took_part(
    proposers: list[str], said: str, not_said: str
) -> None:
    run = replace(run_record(), stop_reason="no steps", settings={"proposers": proposers})
    history = History([TRIALS[0]])
    told = " ".join(shown(summarize(run, history), history).split())
    assert said in told
    assert not_said not in told


def test_a_kernel_at_its_bound_needs_no_other_reason() -> None:
    start = replace(measured(4e6), bound=3.9e6)
    history = History([Trial(0, 0, START, start)])
    told = shown(summarize(run_record(), history), history)
    assert "The kernel takes 4,000,000 cycles, within 2.6% of the bound of 3,900,000" in told
    assert "before the first candidate" not in told


def test_a_budget_of_one_evaluation_is_not_called_too_short() -> None:
    run = replace(run_record(), stop_reason="the budget of 1 evaluation is spent")
    history = History([TRIALS[0]])
    told = " ".join(shown(summarize(run, history), history).split())
    assert "allows only the evaluation of the starting kernel" in told
    assert "less busy" not in told


def test_an_interrupted_search_does_not_blame_the_kernel() -> None:
    """After Ctrl-C in the first iteration nothing is recorded, which is no fault of the kernel."""
    history = History([TRIALS[0]])
    finished = shown(summarize(run_record(status="finished"), history), history)
    assert "before the first candidate" in finished
    assert "before it was finished" not in finished
    told = " ".join(shown(summarize(run_record(status="interrupted"), history), history).split())
    assert "before it was finished" in told
    assert f"tilewright runs resume {run_record().id}` continues it" in told
    assert "before the first candidate" not in told


def test_an_improvement_within_the_noise_is_none() -> None:
    history = History(
        [
            Trial(0, 0, START, replace(measured(4e6), noise=0.02)),
            Trial(1, 1, BEST, replace(measured(3.9e6), noise=0.02)),
        ]
    )
    told = shown(summarize(run_record(), history), history)
    assert "faster than the starting kernel (a difference of 1.03x is" in told
    assert summarize(run_record(), history).gain is None


def test_plans_are_shortened_unless_asked_for_in_full() -> None:
    plan = Plan(START.id, "unroll", "**Unroll** k. Because of this and that.", "model")
    best = Candidate("best", START.id, plan)
    history = History([TRIALS[0], Trial(1, 1, best, measured(1e6))])
    summary = summarize(run_record(), history)
    assert "Unroll k." in shown(summary, history)
    assert "Because" not in shown(summary, history)
    console = Console(width=120, no_color=True)
    with console.capture() as captured:
        for line in summary_lines(summary, history, full=True):
            console.print(line)
    assert "Because of this and that." in captured.get()


def test_a_kernel_that_is_faster_than_its_bound_shows_that_the_bound_is_wrong() -> None:
    history = History([Trial(0, 0, START, replace(measured(4e6), bound=5e6))])
    told = shown(summarize(run_record(), history), history)
    assert "less than the bound of 5,000,000 cycles" in told
    assert "so correct this number" in told
    assert "which no kernel can beat" not in told


def test_a_search_that_evaluated_only_the_start_says_what_took_the_time() -> None:
    history = History([replace(TRIALS[0], wall_s=19.4)])
    run = run_record(wall_s=25.2, stop_reason="the budget of 25 s is spent")
    told = " ".join(shown(summarize(run, history), history).split())
    assert "Of 25 s, the evaluation of the starting kernel took 19 s" in told
    assert "the other 5.8 s were spent on starting processes, the baselines, writing" in told


def test_a_search_that_ends_before_its_budget_says_what_the_rest_was_reserved_for() -> None:
    def told(
        wall_s: float, reason: str = "the budget of 20 s is spent", history: History = TRIALS
    ) -> str:
        settings = Settings(max_wall_s=20.0).recorded()
        run = run_record(wall_s=wall_s, stop_reason=reason, settings=settings)
        return " ".join(shown(summarize(run, history), history).split())

    assert "The last 3 s, reserved for confirming the best kernel, were not" in told(17.0)
    assert "reserved" not in told(19.5)
    assert "reserved" not in told(17.0, "the budget of 8 evaluations is spent")
    late = Trial(len(TRIALS), 1, Candidate("late"), out_of_time(measured(4e6)))
    assert "reserved" not in told(17.0, history=History([*TRIALS, late]))

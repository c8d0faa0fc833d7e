import base64
import gzip
import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest

from tilewright.core.records import Baseline, CallRecord, Candidate, Failed, History, Plan, Trial
from tilewright.report.static import render_report
from tilewright.report.text import measurement, measurements
from tilewright.testing.runs import history, measured, run_record

COMMAND = "tilewright optimize gemmini:gemm-12544x64x256 --seed 3"
EVIL = "</script></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'&amp;{{7*7}}"


def render(trials: History, **changes: object) -> str:
    return render_report(run_record(**changes), trials, COMMAND)


def trial_data(html: str) -> list[dict[str, Any]]:
    """What a report knows about each trial."""
    packed = re.search(r'id="trials">([A-Za-z0-9+/=]*)</script>', html)
    assert packed is not None
    found: list[dict[str, Any]] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return found


def test_a_report_carries_the_headline_the_schedule_and_how_to_reproduce() -> None:
    html = render(history(200))
    headings = (
        "Speedup against evaluations",
        "Winning schedule",
        "Where the time goes",
        "The beam",
    )
    for words in (COMMAND, *headings, "How to reproduce", "simulated cycles", "gcc 12.2.0"):
        assert words in html


def test_a_gain_within_the_noise_is_no_speedup() -> None:
    start = Trial(0, 0, Candidate("kernel 0"), replace(measured(1060.0), noise=0.04))
    candidate = Candidate("kernel 1", start.candidate.id)
    better = Trial(1, 1, candidate, replace(measured(1000.0), noise=0.04))
    found = "No kernel was found that is faster than the starting kernel"
    html = render(History([start, better]))
    assert f"{found} (a difference of 1.06x is within the measurement noise)." in html
    certain = replace(better, outcome=measured(900.0))
    assert found not in render(History([start, certain]))


def test_a_report_compares_with_the_baselines() -> None:
    failed = Failed("check", "wrong_result", "C[0][0]: got 1, expected 2", 7)
    compared = [Baseline("library", "1", measured(2_000_000.0)), Baseline(EVIL, "2", failed)]
    html = render_report(run_record(), history(30), COMMAND, compared)
    table = html[html.index("Compared with") : html.index("Where the time goes")]
    best = history(30).best
    assert best is not None
    assert best.latency is not None
    assert "2,000,000" in table
    assert f"{2_000_000 / best.latency:.2f}" in table
    assert "wrong result (check, line 7)" in table
    assert "<img" not in html
    assert "Compared with" not in render(history(30))


def test_measurements_have_names_and_units_of_their_own() -> None:
    assert measurement("percent_of_baseline", 54.7043) == (
        "share of the starting kernel's time",
        "54.7 %",
    )
    assert measurement("array_bytes", 124620.0) == ("size of the arrays", "124,620 bytes")
    assert measurement("timed_pairs", 120.0)[1] == "120"
    assert measurement("of_a_plug_in", 2.5) == ("of a plug in", "2.5")


def test_what_a_kernel_does_not_do_is_not_listed() -> None:
    found = measurements({"scans": 0.0, "bytes_spilled": 0.0, "converting_copies": 2.0})
    assert found == [("spilled to device memory", "0 bytes"), ("copies that convert the type", "2")]


def test_warnings_about_the_best_kernel_stand_before_the_chart() -> None:
    trials = list(history(30))
    best = History(trials).best
    assert best is not None
    told = replace(best.outcome, warnings=("the clock changed",))
    trials[best.index] = replace(best, outcome=told)
    html = render(History(trials))
    shown = html.index("Warning: the clock changed")
    assert html.index("Latencies were simulated with the simulator of") < shown
    assert shown < html.index("Speedup against evaluations")


def test_a_report_tells_what_models_cost() -> None:
    answered = CallRecord(
        "r", "1", "openai/a", "plan", "replied", False, 1000, 400, 100, usd=0.25, served_by="a-1"
    )
    calls = [
        answered,
        replace(answered, key="2", phase="implement", usd=0.5, note="no_code"),
        replace(answered, key="3", model=EVIL, usd=None),
    ]
    html = render_report(run_record(), history(30), COMMAND, (), (), calls)
    section = html[html.index("What models cost") : html.index("Where the time goes")]
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', section)
    assert len(rows) == 4
    assert "plan" in rows[0]
    assert "0.2500" in rows[0]
    assert "0.5000" in rows[1]
    assert "unknown" in rows[2]
    assert "0.7500+" in rows[3]
    assert "3 calls to models, 3,300 tokens, 0.7500 USD and 1 calls of unknown price" in section
    assert "<img" not in html
    priced = render_report(run_record(), history(30), COMMAND, (), (), calls[:2])
    assert "USD per doubling of speed" in priced
    trials = list(history(30))
    trials[0] = replace(trials[0], outcome=replace(measured(trials[0].latency or 0.0), noise=9.0))
    noisy = render_report(run_record(), History(trials), COMMAND, (), (), calls[:2])
    assert "USD per doubling of speed" not in noisy
    assert "What models cost" not in render(history(30))


def test_a_report_names_nothing_outside_itself() -> None:
    html = render(history(50))
    named = re.findall(r"\b(?:src|href|action|poster|data|srcset)\s*=\s*[\"']([^\"']*)", html)
    assert set(named) == {"data:,"}
    assert "url(" not in html
    assert "@import" not in html
    assert "http:" not in html
    assert "https:" not in html
    assert "default-src 'none'" in html


@pytest.mark.parametrize("count", [0, 1, 2])
def test_works_with_hardly_any_trial(count: int) -> None:
    trials = history(max(1, count)) if count else History()
    html = render(trials, status="running", stop_reason="")
    assert "How to reproduce" in html


def test_works_when_nothing_was_measured() -> None:
    failed = Failed("build", "compile_error", "kernel.c:3: error: expected ';'", 3)
    html = render(History([Trial(0, 0, Candidate("int x"), failed)]))
    assert "No kernel of this run could be measured" in html
    assert trial_data(html)[0]["log"] == failed.log


def test_a_thousand_trials_stay_small_and_quick() -> None:
    trials = history(1000, lines=200)
    started = time.process_time()
    html = render(trials)
    assert time.process_time() - started < 20
    assert len(html.encode()) < 5_000_000


def test_two_thousand_trials_take_a_megabyte_and_the_same_run_gives_the_same_file() -> None:
    trials = history(2000, lines=20)
    assert len(render(trials).encode()) < 1_000_000
    assert render(history(30)) == render(history(30))


def test_foreign_text_never_becomes_markup() -> None:
    start = Trial(0, 0, Candidate(EVIL + "\nvoid kernel() {}"), measured(1000.0))
    plan = Plan(start.candidate.id, EVIL, EVIL, EVIL, expected=EVIL)
    best = Candidate(EVIL + "\n// " + EVIL, start.candidate.id, plan, EVIL)
    lost = Candidate("other", start.candidate.id, plan, EVIL)
    trials = History(
        [
            start,
            Trial(1, 1, best, measured(500.0)),
            Trial(2, 1, lost, Failed("check", "wrong_result", EVIL, 1)),
        ]
    )
    html = render(trials, task=EVIL, target=EVIL, id=EVIL, stop_reason=EVIL, versions={EVIL: EVIL})
    assert html.count("<script") == 2
    assert html.count("</script>") == 2
    assert html.count("</style>") == 1
    assert "<img" not in html
    assert "49" not in re.findall(r"amp;amp;(\S+)", html)
    assert trial_data(html)[2]["log"] == EVIL


def test_a_huge_kernel_is_shown_without_colours() -> None:
    lines = "  mvin(&A[0][0], SPAD(0), 16, 16);\n" * 20_000
    source = f"void kernel() {{\n{lines}}}\n"
    html = render(History([Trial(0, 0, Candidate(source), measured(1000.0))]))
    assert "mvin(&amp;A[0][0]" in html


def test_a_report_explains_wins_that_did_not_hold() -> None:
    refuted = Failed("measure", "unconfirmed", f"900 cycles was not confirmed{EVIL}")
    trials = History([history(2)[0], Trial(1, 1, Candidate("fast"), refuted)])
    html = render(trials)
    assert "1 candidate looked faster at first, but was not faster when measured again." in html
    assert "0 failed, 1 not confirmed" in html
    assert "Trial 1: 900 cycles was not confirmed" in html
    assert "<img" not in html
    assert "Not confirmed" not in render(history(30))

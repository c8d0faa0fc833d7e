"""What models did in turns and what agents did, on the page, in a terminal and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

from rich.console import Console

from tilewright.cli.turn_table import turn_lines
from tilewright.core.run_notes import AgentWork
from tilewright.core.transcripts import ToolUse, Transcript, TurnTaken
from tilewright.report.static import render_report
from tilewright.report.turns import turns_json, turns_view
from tilewright.testing.runs import history, run_record

EVIL = "</script><img src=x onerror=alert(2)>{{7*7}}[bold]"
TURN = TurnTaken(
    1,
    EVIL,
    (ToolUse("evaluate", "kernel: 12 lines", "kernel abc (trial 3): correct"),),
    (3,),
    1000,
    400,
    200,
    77,
    0.25,
)
LAST = replace(TURN, number=2, tools=(), trials=(), result_tokens=0, usd=None, note=EVIL)
TRANSCRIPT = Transcript("openai/a", 0, 2, (TURN, LAST))
TRIALS = history(5)
WORK = AgentWork(
    2, TRIALS[1].candidate.id, f"agent:{EVIL}", "timed out", EVIL, "", 3, 9, 12.0, (EVIL,), EVIL
)


def printed(full: bool) -> str:
    console = Console(width=200, record=True, file=None, quiet=False)
    with console.capture() as captured:
        for line in turn_lines([TRANSCRIPT], [WORK], TRIALS, full):
            console.print(line)
    return captured.get()


def test_the_report_has_every_turn_and_every_agent() -> None:
    html = render_report(
        run_record(), TRIALS, "tilewright", transcripts=[TRANSCRIPT], agents=[WORK]
    )
    turns = html[html.index("What models did in turns") : html.index("What agents did")]
    for words in ("from trial 0 in iteration 2", "kernel abc (trial 3): correct", "0.2500", "77"):
        assert words in turns
    agents = html[html.index("What agents did") :]
    assert "from trial 1" in agents
    assert "timed out" in agents
    assert "<img" not in html
    plain = render_report(run_record(), TRIALS, "tilewright")
    assert "What models did in turns" not in plain
    assert "What agents did" not in plain


def test_a_terminal_shows_a_sentence_and_in_full_every_turn() -> None:
    short, full = printed(full=False), printed(full=True)
    assert "1 proposal in 2 turns with 1 call of tools, whose answers took about 77" in short
    assert "timed out" in short
    assert "turn 1" not in short
    assert "turn 1: 1,000 tokens in, 200 out; answers about 77 tokens; 0.2500 USD" in full
    assert "evaluate kernel: 12 lines -> kernel abc (trial 3): correct" in full
    assert f"  {EVIL}" in full


def test_as_json_it_is_whole_and_kernels_are_left_to_their_trials() -> None:
    found = json.loads(json.dumps(turns_json([TRANSCRIPT], [WORK], TRIALS)))
    assert found["proposals"][0]["turns"][0]["tools"][0]["tool"] == "evaluate"
    assert found["agents"][0]["parent_trial"] == 1
    assert "sources" not in found["agents"][0]


def test_a_page_of_many_turns_stays_small() -> None:
    long = replace(TURN, said="x" * 2000)
    many = [replace(TRANSCRIPT, turns=(long,) * 6)] * 1000
    shown = turns_view(many, [], TRIALS)
    assert len(shown.transcripts) + shown.left_out == 1000
    assert sum(len(t.said) for one in shown.transcripts for t in one.turns) < 1_500_000

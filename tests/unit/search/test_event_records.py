"""Events as lines of JSON: every type, documented field by field."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from tilewright.core.errors import OutputError
from tilewright.core.records import (
    CallRecord,
    Candidate,
    Failed,
    History,
    Plan,
    RunRecord,
    Schedule,
    Trial,
)
from tilewright.core.run_notes import AgentWork, ReusedSchedule
from tilewright.search import events
from tilewright.search.event_records import EventLines, event_record, trial_record
from tilewright.testing.toy import START, toy_outcome

PLAN = Plan("p", "lower-1", "Lower digit 1.", "toy")
START_TRIAL = Trial(0, 0, Candidate(START), toy_outcome(START))
TRIAL = Trial(1, 1, Candidate("toy 1", "p", PLAN, "toy"), toy_outcome("toy 1 1 1 1 1"), 0.5)
RUN = RunRecord("r", "toy:digits", "toy", {"seed": 1}, {"toy": "1"}, "now")
EVENTS: list[events.Event] = [
    events.RunStarted(RUN, History([START_TRIAL])),
    events.ModelsForecast(3, 1000, None),
    events.SchedulesReused(
        (ReusedSchedule(Schedule("toy:other", (), (1.0,), "cycles"), "r", chosen=True),)
    ),
    events.AgentEnded(AgentWork(1, "p", "agent:a", "exited", "exit code 0", "", 2, 3, 1.0)),
    events.IterationStarted(1, 3, (START_TRIAL,)),
    events.Planned(1, "p", 2),
    events.Implemented(1, "p", 2, 1),
    events.ProposalFailed(1, "p", "ValueError"),
    events.EvaluationStarted(1, 2),
    events.Evaluated(TRIAL),
    events.IterationFinished(1, 2, TRIAL),
    events.Called(CallRecord("r", "k", "mailbox:box", "plan", "replied")),
    events.Noted("no other machine can evaluate"),
    events.Stopped("all 3 iterations are done"),
]


def documented() -> dict[str, list[str]]:
    text = (Path(__file__).parents[3] / "docs/python.md").read_text()
    rows = re.findall(r"^\| `([A-Z]\w+)` \| (.*) \|$", text, re.M)
    return {name: re.findall(r"`(\w+)`", fields) for name, fields in rows}


def test_every_event_is_documented_with_exactly_its_fields() -> None:
    assert {type(event) for event in EVENTS} == set(get_args(events.Event))
    assert {type(e).__name__: list(event_record(e))[1:] for e in EVENTS} == documented()


def test_a_trial_is_a_row() -> None:
    row = trial_record(TRIAL)
    assert (row["trial"], row["verdict"], row["latency"]) == (1, "correct", 115.0)
    assert (row["option"], row["proposer"], row["stage"]) == ("lower-1", "toy", None)
    failed = trial_record(Trial(2, 1, Candidate("x"), Failed("check", "wrong_result", "log")))
    assert (failed["verdict"], failed["stage"], failed["latency"]) == (
        "wrong_result",
        "check",
        None,
    )
    assert "log" not in failed.values()


def test_lines_are_json_and_appended(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    for _ in range(2):
        lines = EventLines(file)
        for event in EVENTS:
            lines(event)
        assert len(file.read_text().splitlines()) % len(EVENTS) == 0  # written at once
        lines.close()
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["event"] for line in found] == [type(e).__name__ for e in EVENTS] * 2
    assert all(line["time"].endswith("+00:00") for line in found)


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"cannot write events to .*: no such file"):
        EventLines(tmp_path / "missing" / "events.jsonl")


def test_a_full_disk_is_one_sentence() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full on this system")
    lines = EventLines(full)
    with pytest.raises(OutputError, match="no space left"):
        lines(events.Stopped("x"))

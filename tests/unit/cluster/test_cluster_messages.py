"""What a worker sends is an answer, exactly, or it is refused: nothing of it is believed before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tilewright.cluster.messages import (
    Evaluated,
    GarbageError,
    Missing,
    RaisedThere,
    Refused,
    TaskDescription,
    Unwanted,
    read_answer,
    read_request,
    request_bytes,
)
from tilewright.core.codec import to_json
from tilewright.core.records import (
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    Measured,
    Plan,
    Verdict,
)
from tilewright.evaluation.replies import outcome_reply, request_id
from tilewright.evaluation.sent_outcome import has_form
from tilewright.testing.toy import LATENCY

MEASURED = Measured(
    120.0,
    "cycles",
    "simulated",
    0.5,
    Verdict((Check(1, "full range", "exact"),)),
    breakdown={"idle": 3},
    samples={"a": (1.0, 2.0)},
    by_line={"3": {"idle": 2.0}},
    phases=({"idle": 1.0},),
)
FAILED = Failed("check", "wrong_result", "differs", line=3, sandbox="landlock")
DESCRIPTION = TaskDescription(
    "toy:digits",
    "toy",
    {"input_seed": 3, "beam": 2},
    {"toy": "1"},
    "context",
    {"build": 1.0},
    LATENCY,
)


READY = {"ready": "context", "versions": {"toy": "1"}}
ERROR = {"type": "WorkloadError", "message": "no."}


REQUESTS = [EvaluationRequest(Candidate("first")), EvaluationRequest(Candidate("second"), 7.0)]


def outcome(record: Any, seconds: float = 1.0, of: int = 0) -> dict[str, Any]:
    return {**outcome_reply(REQUESTS[of], record), "seconds": seconds}


@pytest.mark.parametrize(
    ("replies", "answer"),
    [
        (
            [READY, outcome(MEASURED, 0.5), outcome(FAILED, 0.25, of=1)],
            Evaluated(((MEASURED, 0.5), (FAILED, 0.25))),
        ),
        ([{"ready": None}], Missing()),
        ([{"error": ERROR}], RaisedThere(ERROR)),
        ([READY, outcome(MEASURED), {"error": ERROR}], RaisedThere(ERROR)),
        ([READY], Unwanted()),
        ([{**READY, "versions": {"toy": "2"}}], Refused({"toy": ("1", "2")})),
        ([{**READY, "versions": {}}], Refused({"toy": ("1", "none")})),
    ],
)
def test_replies_are_read_as_they_are_meant(replies: list[Any], answer: Any) -> None:
    assert read_answer(json.dumps(replies).encode(), DESCRIPTION, REQUESTS) == answer


@pytest.mark.parametrize(
    ("field", "other"), [("ready", "another"), ("ready", ""), ("versions", {"toy": "1", "b": "2"})]
)
def test_outcomes_under_other_conditions_are_not_read(field: str, other: object) -> None:
    replies = [{**READY, field: other}, outcome(MEASURED)]
    assert isinstance(read_answer(json.dumps(replies).encode(), DESCRIPTION, REQUESTS[:1]), Refused)


def test_requests_arrive_as_they_were() -> None:
    plan = Plan("parent", "tile", "text", "builtin", {"factor": 4})
    request = EvaluationRequest(Candidate("source", "parent", plan, "builtin"), 17.5)
    description, found = read_request(request_bytes(DESCRIPTION, [request]))
    assert (description, found) == (DESCRIPTION, [request])
    assert isinstance(description, TaskDescription)
    assert description.digest == DESCRIPTION.digest
    assert read_request(request_bytes("d", [request])) == ("d", [request])


def test_the_messages_are_those_of_an_evaluating_process() -> None:
    opening, evaluate = json.loads(request_bytes("d", [EvaluationRequest(Candidate("source"))]))
    assert (set(opening), set(evaluate)) == ({"open"}, {"evaluate"})
    assert has_form(READY)
    assert has_form(outcome(FAILED))
    assert has_form({"error": ERROR})


def changed(**fields: object) -> bytes:
    forged = {**outcome(MEASURED), "outcome": {**to_json(MEASURED), **fields}}
    return json.dumps([READY, forged]).encode()


def replied(*outcomes: object) -> bytes:
    return json.dumps([READY, *outcomes]).encode()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        json.dumps(READY).encode(),
        replied({**outcome(MEASURED), "outcome": {"type": "Measured"}}),
        replied({**outcome(MEASURED), "outcome": {"type": "Plan", "parent_id": "x"}}),
        replied([]),
        replied(outcome_reply(REQUESTS[0], FAILED)),
        replied(outcome(FAILED), outcome(FAILED)),
        replied(outcome(FAILED, -1.0)),
        replied({"outcome": to_json(FAILED), "seconds": 1.0}),
        replied({**outcome(FAILED), "request": None}),
        replied(outcome(FAILED, of=1)),
        json.dumps([outcome(FAILED)]).encode(),
        json.dumps([{**READY, "versions": {"toy": 1}}]).encode(),
        json.dumps([{"ready": None}, outcome(FAILED)]).encode(),
        b'[{"error": {"type": 3, "message": "m"}}]',
        b'[{"ready": false}]',
        "text",
        {"outcome": 1},
        None,
        changed(latency="120"),
        changed(latency=0.0),
        changed(latency=-1.0),
        changed(latency=float("nan")),
        changed(latency=float("inf")),
        changed(extra=1),
        changed(verdict=None),
        changed(verdict={"type": "Verdict", "checks": [{"type": "Check", "seed": "x"}]}),
        changed(breakdown=[1]),
        changed(by_line={"3": 4}),
        changed(type="Failed"),
        changed(utilization=True),
    ],
)
def test_anything_else_is_garbage(message: object) -> None:
    with pytest.raises(GarbageError):
        read_answer(message, DESCRIPTION, REQUESTS[:1])


def test_swapped_outcomes_of_two_requests_are_garbage() -> None:
    swapped = replied(outcome(MEASURED, of=1), outcome(FAILED, of=0))
    with pytest.raises(GarbageError, match="belongs to another request"):
        read_answer(swapped, DESCRIPTION, REQUESTS)
    twice = replied(outcome(MEASURED, of=0), outcome(MEASURED, of=0))
    with pytest.raises(GarbageError, match="belongs to another request"):
        read_answer(twice, DESCRIPTION, REQUESTS)


def test_the_id_of_a_request_is_that_of_its_source_and_its_limit() -> None:
    source = Candidate("source")
    assert request_id(EvaluationRequest(source, 7)) == request_id(EvaluationRequest(source, 7.0))
    different = {
        request_id(EvaluationRequest(source)),
        request_id(EvaluationRequest(source, 7.0)),
        request_id(EvaluationRequest(source, 8.0)),
        request_id(EvaluationRequest(Candidate("another"))),
    }
    assert len(different) == 4

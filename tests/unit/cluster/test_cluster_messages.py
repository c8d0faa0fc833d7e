"""What a worker sends is an answer, exactly, or it is refused: nothing of it is believed before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tilewright.cluster.messages import (
    Broken,
    Evaluated,
    GarbageError,
    Missing,
    RaisedThere,
    Refused,
    TaskDescription,
    Unwanted,
    answer_bytes,
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
    "toy:digits", "toy", {"input_seed": 3, "beam": 2}, {"toy": "1"}, "context", {"build": 1.0}
)


@pytest.mark.parametrize(
    "answer",
    [
        Evaluated(((MEASURED, 0.5), (FAILED, 0.25)), "host"),
        Evaluated(((FAILED, 0.5), (FAILED, 0.0)), "host"),
        Missing(),
        Refused({"compiler": ("gcc 12", "gcc 13")}, "host"),
        RaisedThere({"type": "WorkloadError", "message": "no."}),
        Broken("OSError: disk full", "host"),
        Unwanted(),
    ],
)
def test_answers_arrive_as_they_were(answer: Any) -> None:
    assert read_answer(answer_bytes(answer), 2) == answer


def test_requests_arrive_as_they_were() -> None:
    plan = Plan("parent", "tile", "text", "builtin", {"factor": 4})
    request = EvaluationRequest(Candidate("source", "parent", plan, "builtin"), 17.5)
    digest, found, description = read_request(
        request_bytes(DESCRIPTION.digest, [request], DESCRIPTION)
    )
    assert (digest, found, description) == (DESCRIPTION.digest, [request], DESCRIPTION)
    assert description is not None
    assert description.digest == DESCRIPTION.digest
    assert read_request(request_bytes("d", [request], None))[2] is None


def changed(**fields: object) -> bytes:
    outcome = {**to_json(MEASURED), **fields}
    return json.dumps({"outcomes": [[outcome, 1.0]], "host": "h"}).encode()


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"outcomes": [[{"type": "Measured"}, 1.0]]}',
        b'{"outcomes": [[{"type": "Plan", "parent_id": "x"}, 1.0]]}',
        b'{"outcomes": {}}',
        answer_bytes(Evaluated((), "h")),
        answer_bytes(Evaluated(((FAILED, 1.0),) * 2, "h")),
        answer_bytes(Evaluated(((FAILED, -1.0),), "h")),
        b'{"refused": {}}',
        b'{"refused": {"a": ["1"]}}',
        b'{"error": {"type": 3, "message": "m"}}',
        b'{"missing": false}',
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
        read_answer(message, 1)

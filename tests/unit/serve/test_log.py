from __future__ import annotations

import pytest

from tilewright.serve.log import LOGGED, sentence


@pytest.mark.parametrize(
    ("kind", "data", "told"),
    [
        ("RunStarted", {"process": 3, "trials": 0}, "The search began."),
        ("RunStarted", {"process": 3, "trials": 12}, "The search continued after 12 trials."),
        (
            "IterationFinished",
            {"iteration": 2, "trials": 9, "best": 6844.0},
            "Iteration 2 ended after 9 evaluations; the lowest latency so far is 6,844.",
        ),
        (
            "IterationFinished",
            {"iteration": 1, "trials": 9},
            "Iteration 1 ended after 9 evaluations.",
        ),
        ("ProposalFailed", {"log": "too slow"}, "A step of the proposer failed: too slow"),
        ("Noted", {"text": "no worker answers"}, "Note: no worker answers."),
        ("Stopped", {"reason": "it is done"}, "The search ended because it is done."),
        (
            "Rechecked",
            {"candidate": "e714", "confirmed": True},
            "The kernel e714 was checked again on new inputs and confirmed.",
        ),
        (
            "Rechecked",
            {"candidate": "e714", "confirmed": False},
            "The kernel e714 was checked again on new inputs but not confirmed.",
        ),
        (
            "AgentWork",
            {"agent": "a", "how": "exited", "detail": "code 1", "evaluations": 3, "calls": 5},
            "The agent a ended after 3 evaluations and 5 calls (exited): code 1.",
        ),
    ],
)
def test_lines_are_sentences(kind: str, data: dict[str, object], told: str) -> None:
    assert sentence(kind, data) == told


@pytest.mark.parametrize("kind", LOGGED)
@pytest.mark.parametrize("value", [None, float("nan"), float("inf"), {"a": [1]}, "x" * 10_000])
def test_fields_of_another_type_are_quoted_and_cut(kind: str, value: object) -> None:
    fields = ("trials", "iteration", "best", "log", "reason", "candidate", "agent", "how", "detail")
    assert len(sentence(kind, dict.fromkeys(fields, value))) < 2000

"""Records that are read as JSON have the types that they declare."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from tilewright.core import codec
from tilewright.core.codec import from_json, outcome_from_json, to_json
from tilewright.core.field_types import MOST_INTEGER, _fields_of, require_types
from tilewright.core.records import (
    Baseline,
    Candidate,
    Check,
    Failed,
    Gap,
    Measured,
    Plan,
    RunRecord,
    Trial,
    Verdict,
)
from tilewright.core.run_notes import RunNote

OUTCOME = Measured(
    12.5,
    "ns",
    "measured",
    0.5,
    Verdict((Check(1, "small"),)),
    breakdown={"load": 1.0},
    samples={"all": (1.0, 2)},
    by_line={"3": {"load": 2.0}},
    gaps=(Gap(0.0, 1.0, "load", None),),
)
PLAN = Plan("p", "unroll", "text", "llm", {"turn": 1, "steps": "a"}, expected_gain=0.5)
FAILED = Failed("build", "compile_error", "log", 3)


@pytest.mark.parametrize("record", [OUTCOME, PLAN, FAILED, Baseline("naive", "id", OUTCOME)])
def test_a_record_comes_back_as_it_was(record: Any) -> None:
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize(
    "cls",
    [*codec._TYPES.values(), *get_args(RunNote), Trial, Candidate, RunRecord],
    ids=lambda cls: cls.__name__,
)
def test_every_field_that_is_stored_has_a_type_that_can_be_checked(cls: type) -> None:
    assert [name for name, _ in _fields_of(cls)] == [f.name for f in dataclasses.fields(cls)]


@pytest.mark.parametrize(
    ("record", "field", "value"),
    [
        (OUTCOME, "latency", "12"),
        (OUTCOME, "latency", True),
        (OUTCOME, "latency", 0),
        (OUTCOME, "latency", -1.0),
        (OUTCOME, "latency", float("nan")),
        (OUTCOME, "latency", float("inf")),
        (OUTCOME, "latency", MOST_INTEGER),
        (OUTCOME, "unit", None),
        (OUTCOME, "unit", "\ud800"),
        (OUTCOME, "verdict", {}),
        (OUTCOME, "verdict", to_json(PLAN)),
        (OUTCOME, "breakdown", []),
        (OUTCOME, "breakdown", {"load": "1"}),
        (OUTCOME, "breakdown", {"load": float("inf")}),
        (OUTCOME, "breakdown", {"load": float("nan")}),
        (OUTCOME, "breakdown", {"\ud800": 1.0}),
        (OUTCOME, "samples", {"all": 1.0}),
        (OUTCOME, "by_line", {"3": {"load": None}}),
        (OUTCOME, "warnings", "text"),
        (OUTCOME, "gaps", [1]),
        (OUTCOME, "bound", "1"),
        (PLAN, "parameters", {"turn": [1]}),
        (PLAN, "expected_gain", {}),
        (PLAN, "expected_gain", float("inf")),
        (FAILED, "stage", "elsewhere"),
        (FAILED, "stage", ["build"]),
        (FAILED, "line", 1.5),
        (FAILED, "line", True),
        (FAILED, "line", MOST_INTEGER),
        (FAILED, "line", -MOST_INTEGER),
    ],
)
def test_a_field_of_another_type_is_refused(record: Any, field: str, value: Any) -> None:
    read = from_json if record is PLAN else outcome_from_json
    with pytest.raises((TypeError, ValueError)):
        read({**to_json(record), field: value})


def test_only_an_outcome_is_an_outcome() -> None:
    assert outcome_from_json(to_json(OUTCOME)) == OUTCOME
    with pytest.raises(TypeError, match="not an outcome"):
        outcome_from_json(to_json(PLAN))


def test_the_field_is_named() -> None:
    candidate = Candidate("text")
    object.__setattr__(candidate, "source", 5)
    with pytest.raises(
        TypeError, match="the field source of Candidate has a value of the wrong type"
    ):
        require_types(candidate)

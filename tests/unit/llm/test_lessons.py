"""Mistakes of earlier kernels in later prompts."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
from world import BRIEF, HISTORY, PARENT, PLAN, START, caller, child

from tilewright.core.records import Candidate, Failed, History, Trial
from tilewright.proposers.llm.lessons import MOST_MISTAKES, describe_mistakes
from tilewright.proposers.llm.messages import Reply
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.proposer import LLMProposer

WRONG = START.replace("fence", "fnce")


def broken(number: int, log: str, line: int | None = 3, kind: str = "compile_error") -> Trial:
    source = f"{WRONG}// {number}\n"
    outcome = Failed("build", kind, log, line)  # type: ignore[arg-type]
    return Trial(number, 1, Candidate(source, PARENT.candidate.id, PLAN, "m"), outcome)


def test_a_mistake_is_told_once_with_its_line_and_its_correction() -> None:
    one = broken(1, "kernel.c:3: error: no function fnce")
    two = broken(2, "kernel.c:3:2: error: no function fnce")
    right = replace(PLAN, parameters={**PLAN.parameters, "repairs": two.candidate.id})
    source = two.candidate.source.replace("fnce", "fence")
    corrected = replace(
        child(3, 900.0), candidate=Candidate(source, PARENT.candidate.id, right, "m")
    )
    assert describe_mistakes(HISTORY.extended([one])) == ["no function fnce, in `fnce();`."]
    assert describe_mistakes(HISTORY.extended([one, two, corrected])) == [
        "no function fnce, in `fnce();`; corrected: `fence();`."
    ]


def test_the_correction_of_a_huge_kernel_takes_bounded_time() -> None:
    """Comparing its lines exactly would take hours."""
    lines = "x = y;\nz = y;\n" * 60_000
    one = broken(1, "kernel.c:3: error: no function fnce")
    one = replace(one, candidate=replace(one.candidate, source=WRONG + lines))
    right = replace(PLAN, parameters={**PLAN.parameters, "repairs": one.candidate.id})
    source = START + lines[7:]
    corrected = replace(
        child(3, 900.0), candidate=replace(one.candidate, source=source, plan=right)
    )
    started = time.process_time()
    assert describe_mistakes(HISTORY.extended([one, corrected])) == [
        "no function fnce, in `fnce();`; corrected: `fence();`."
    ]
    assert time.process_time() - started < 5


def test_the_latest_mistakes_are_told() -> None:
    history = HISTORY.extended([broken(n, f"mistake {n}", None) for n in range(1, 9)])
    told = describe_mistakes(history)
    assert told == [f"mistake {n}." for n in range(9 - MOST_MISTAKES, 9)]


@pytest.mark.parametrize("kind", ["wrong_result", "slower_than_limit", "crash", "timeout"])
def test_failures_without_a_rule_are_no_lesson(kind: str) -> None:
    assert not describe_mistakes(HISTORY.extended([broken(1, "too slow", 3, kind)]))


def test_plans_and_kernels_are_asked_for_with_the_mistakes() -> None:
    history = History([PARENT, broken(1, "kernel.c:3: error: no function fnce")])
    made, transport = caller(lambda r: Reply("OPTION: tile\nCHANGE: tile\nEXPECTED: half\n\nDo."))
    proposer = LLMProposer(("openai/a",), Prompts(), made)
    plan = proposer.plan(BRIEF, PARENT, history, 1, 0)[0]
    proposer.implement(BRIEF, PARENT, plan, 1, 0)
    for request in transport.sent:
        assert "no function fnce, in `fnce();`" in request.messages[-1].text
    without = Prompts(without=("failed",)).plan(BRIEF, PARENT, history)
    assert "no function fnce" not in without[-1].text

"""Error messages of nvcc, which names lines in parentheses."""

from __future__ import annotations

import pytest

from tilewright.core.records import Candidate, Failed, History, Plan, Trial
from tilewright.proposers.llm.feedback import first_error
from tilewright.proposers.llm.lessons import describe_mistakes

NVCC = """\
kernel.cu(2): error: identifier "f" is undefined
    f(x);
    ^

kernel.cu(7): error: expected a ";"

2 errors detected in the compilation of "kernel.cu".
"""
GCC = """\
kernel.cu: In function 'void kernel(const float*)':
kernel.cu(2): error: no matching function
In file included from whole.cpp:1:
device.h:79:60: note: candidate
"""


def failed(log: str) -> Failed:
    return Failed("build", "compile_error", log, 2)


def test_only_the_first_error_is_shown_with_what_belongs_to_it() -> None:
    shown = first_error(failed(NVCC))
    assert shown.startswith('kernel.cu(2): error: identifier "f"')
    assert "f(x);" in shown
    assert "(1 more error left out" in shown
    assert "expected" not in shown
    assert "detected" not in shown
    assert first_error(failed(GCC)).startswith("kernel.cu(2): error: no matching function")
    assert "note: candidate" in first_error(failed(GCC))


@pytest.mark.parametrize(
    ("log", "words"), [(NVCC, 'identifier "f" is undefined'), (GCC, "no matching function")]
)
def test_a_mistake_is_told_by_its_message_and_not_by_its_place(log: str, words: str) -> None:
    start = Trial(0, 0, Candidate("a\n"), Failed("measure", "timeout", ""))
    plan = Plan(start.candidate.id, "other", "Change it.", "m")
    trial = Trial(1, 1, Candidate("a\nb\nc\n", start.candidate.id, plan, "m"), failed(log))
    assert describe_mistakes(History([start, trial])) == [f"{words}, in `b`."]

"""The whole evaluation: worker processes, compiler, co-simulator, cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tilewright.core.records import Candidate, EvaluationRequest, Failed, Measured, Outcome
from tilewright.evaluation.local import LocalExecutor
from tilewright.evaluation.pipeline import evaluate
from tilewright.sandbox import landlock
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

from .kernels import GOOD, with_line

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]


@pytest.fixture
def kept() -> dict[str, Outcome]:
    return {}


@pytest.fixture
def executor(kept: dict[str, Outcome]) -> Iterator[LocalExecutor]:
    settings = {"input_seed": 11}
    with LocalExecutor(
        "gemmini:gemm-16x16x16", settings, 2, lookup=kept.get, store=kept.__setitem__
    ) as opened:
        yield opened


def test_kernels_good_and_bad(executor: LocalExecutor, kept: dict[str, Outcome]) -> None:
    sources = [
        create_target().open("gemm-16x16x16", {}).start,
        with_line(5, "  mvin(A, SPAD(0), 80, 16);"),
        GOOD,
        with_line(5, "  oops;"),
    ]
    requests = [EvaluationRequest(Candidate(source)) for source in sources]
    naive, too_wide, good, broken = executor.evaluate(requests)
    assert isinstance(naive, Measured)
    assert isinstance(good, Measured)
    assert good.latency < naive.latency
    assert isinstance(too_wide, Failed)
    assert (too_wide.kind, too_wide.line) == ("limit_exceeded", 5)
    assert isinstance(broken, Failed)
    assert (broken.kind, broken.line) == ("compile_error", 5)
    assert len(kept) == 4
    assert executor.evaluate(requests) == [naive, too_wide, good, broken]


def test_a_worker_measures_what_this_process_measures(executor: LocalExecutor) -> None:
    """The same binary, the same inputs, the same cycles, whatever process it runs in."""
    request = EvaluationRequest(Candidate(GOOD))
    (outcome,) = executor.evaluate([request])
    task = create_target().open("gemm-16x16x16", {"input_seed": 11})
    here = evaluate(task.evaluator, request)
    assert replace(outcome, sandbox=here.sandbox) == here


@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_outcomes_name_what_contained_compiler_and_worker(executor: LocalExecutor) -> None:
    for source in (GOOD, with_line(5, "  oops;")):
        (outcome,) = executor.evaluate([EvaluationRequest(Candidate(source))])
        assert re.fullmatch(r"landlock\S+, worker landlock\S*", outcome.sandbox)

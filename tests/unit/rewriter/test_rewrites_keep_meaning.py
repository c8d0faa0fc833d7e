"""Any sequence of rewrites of a GEMM still computes the GEMM: on a plain functional model."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_model import gemm_is_right, trace

from tilewright.proposers.rewriter.analysis import simplify
from tilewright.proposers.rewriter.buffers import NotApplicable
from tilewright.proposers.rewriter.catalogue import CATALOGUE, steps_for
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.lift import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.targets.gemmini.naive import naive_gemm

SHAPES = [(32, 64, 32), (48, 64, 64), (40, 100, 24), (17, 30, 70), (64, 128, 16), (16, 16, 48)]
FIXTURE = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(max_examples=40, deadline=None, suppress_health_check=FIXTURE)
@given(st.sampled_from(SHAPES), st.integers(0, 10**6))
def test_random_rewrites_keep_the_product(
    machine: Machine, shape: tuple[int, int, int], seed: int
) -> None:
    rng = random.Random(seed)
    kernel = simplify(lift(naive_gemm(*shape), machine))
    done = []
    for _ in range(6):
        steps = list(steps_for(kernel, machine, rng.choice(list(CATALOGUE))))
        if not steps:
            continue
        step = rng.choice(steps)
        try:
            kernel = step.apply(kernel, machine)
        except NotApplicable:
            continue
        done.append(str(step))
    assert gemm_is_right(kernel, *shape), done
    again = lift(emit(kernel), machine)
    assert list(trace(again.body)) == list(trace(kernel.body)), done


@pytest.mark.parametrize("technique", sorted(CATALOGUE))
@pytest.mark.parametrize("shape", [(48, 128, 64), (40, 100, 72)])
def test_each_technique_alone_keeps_the_product(
    machine: Machine, technique: str, shape: tuple[int, int, int]
) -> None:
    kernel = simplify(lift(naive_gemm(*shape), machine))
    for step in steps_for(kernel, machine, technique):
        try:
            after = step.apply(kernel, machine)
        except NotApplicable:
            continue
        assert gemm_is_right(after, *shape), step

"""Time of the output-stationary dataflow: sums stay in the array until later rows push them out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from target.sim import numpy_model as m
from target.sim.assembler import FENCE, command_loop
from tilewright.targets.gemmini.causes import EXCLUSIVE
from tilewright.targets.gemmini.sim import Region, SimConfig, SimResult, run_kernel

INPUT, TABLE = 0x9000_0000, 0x9200_0000
A, B = 0, 4096  # different banks
Commands = list[tuple[int, int, int]]


def run(
    config: SimConfig, body: Commands, times: int, *, os: int = 1, **settings: Any
) -> SimResult:
    """Loads operands, then sends `body` so many times; the loop's code is in the cache."""
    loads = [m.mvin(0, INPUT, row, 16, 16) for row in (A, A + 16, B, B + 16)]
    before = [m.config_ld(16, 1.0, 16, 0), *loads, m.config_ex(os=os, **settings), (FENCE, 0, 0)]
    elf, table = command_loop(before, body, times)
    regions = [Region(TABLE, table, False, "commands"), Region(INPUT, bytes(4096), False, "input")]
    result = run_kernel(config, elf, regions)
    assert result.status == "ok", result.fault
    return result


def product(to: int = m.ACC, a: int = A, b: int = B, *, keep: bool = False) -> Commands:
    return [
        m.preload(m.NONE, to, 16, 16, 16, 16),
        m.compute(a, b, 16, 16, 16, 16, keep=keep),
    ]


def per_round(config: SimConfig, body: Commands, **settings: Any) -> float:
    few, many = (run(config, body, times, **settings).cycles for times in (100, 300))
    return (many - few) / 200


def test_a_product_takes_a_pass_of_the_array(config: SimConfig) -> None:
    assert per_round(config, product(m.NONE)) == pytest.approx(16, abs=0.1)


def test_results_leave_after_the_products_that_follow(config: SimConfig) -> None:
    """A result of every product costs no more than none."""
    assert per_round(config, product(m.ACC)) == pytest.approx(16, abs=0.1)


@pytest.mark.parametrize("transposed", [0, 1])
def test_operands_in_one_bank_take_turns(config: SimConfig, transposed: int) -> None:
    """Also if A goes through the transposer, where the A of the next product meets B of this."""
    body = product(m.NONE, b=A + 16)
    assert per_round(config, body, at=transposed) == pytest.approx(32, abs=0.1)


def test_the_last_result_needs_a_pass_of_its_own(config: SimConfig) -> None:
    """The same products in both dataflows: output-stationary, the last result is flushed."""
    weight_stationary = [m.preload(B, m.ACC, 16, 16, 16, 16), m.compute(A, m.NONE, 16, 16, 16, 16)]
    stationary = run(config, weight_stationary, 50, os=0)
    flushed = run(config, product(m.ACC), 50)
    assert 16 <= flushed.cycles - stationary.cycles <= 60
    assert flushed.breakdown["drain"] >= 16 > stationary.breakdown["drain"]


def test_sums_without_a_result_leave_nothing_to_flush(config: SimConfig) -> None:
    assert run(config, product(m.NONE), 50).breakdown["drain"] == 0


def test_a_new_configuration_waits_for_the_results(config: SimConfig) -> None:
    """A pass to move them out and their way through the array, about as weight-stationary."""
    body = [*product(m.ACC), m.config_ex(os=1)]
    weight_stationary = [
        m.preload(B, m.ACC, 16, 16, 16, 16),
        m.compute(A, m.NONE, 16, 16, 16, 16),
        m.config_ex(),
    ]
    assert 60 <= per_round(config, body) <= 110
    assert per_round(config, body) > per_round(config, product(m.ACC)) + 40
    assert per_round(config, weight_stationary, os=0) > 60


def test_every_cycle_is_accounted_for(config: SimConfig) -> None:
    result = run(config, [*product(m.NONE), *product(m.ACC, keep=True)], 20)
    assert sum(result.breakdown[cause] for cause in EXCLUSIVE) == result.cycles
    phases = [sum(phase.values()) for phase in result.phases]
    assert sum(phases) == result.cycles
    assert result.phases[0]["array_busy"] == result.phases[-1]["array_busy"] == 0
    assert all(phase["array_busy"] for phase in result.phases[1:-1])
    assert sum(count for _, count in result.executed) == result.instructions


@pytest.mark.parametrize("rounds", [1, 20])
def test_the_longest_gaps_are_those_of_the_cycles_without_work(
    config: SimConfig, rounds: int
) -> None:
    result = run(config, [*product(m.NONE), *product(m.ACC, keep=True), m.config_ex(os=1)], rounds)
    first, *_, last = result.gaps
    start, *_, end = result.phases
    assert (first.start, first.cycles) == (0, sum(start.values()))
    assert (last.start + last.cycles, last.cycles) == (result.cycles, sum(end.values()))
    assert end[last.cause] == max(end.values())
    for before, after in pairwise(result.gaps):
        assert before.start + before.cycles < after.start  # the array works in between
    lost = result.cycles - result.breakdown["array_busy"]
    told = sum(gap.cycles for gap in result.gaps)
    assert told == lost if len(result.gaps) < 16 else told < lost
    assert (len(result.gaps) == 16) == (rounds == 20)

"""The simulator tells blocks that are preloaded alone and products of few rows from other work."""

from __future__ import annotations

import pytest

from target.sim import numpy_model as m
from target.sim.assembler import FENCE, command_loop
from tilewright.targets.gemmini.sim import Region, SimConfig, SimResult, run_kernel

INPUT, TABLE = 0x9000_0000, 0x9200_0000
A, B = 0, 4096  # different banks
ROUNDS = 100
Commands = list[tuple[int, int, int]]


def run(config: SimConfig, body: Commands) -> SimResult:
    loads = [m.mvin(0, INPUT, row, 16, 16) for row in (A, B)]
    before = [m.config_ld(16, 1.0, 16, 0), *loads, m.config_ex(), (FENCE, 0, 0)]
    elf, table = command_loop(before, body, ROUNDS)
    regions = [Region(TABLE, table, False, "commands"), Region(INPUT, bytes(4096), False, "input")]
    result = run_kernel(config, elf, regions)
    assert result.status == "ok", result.fault
    return result


def product(rows: int, b: int = B, to: int = m.ACC) -> Commands:
    return [
        m.preload(b, to, 16, 16, 16, rows),
        m.compute(A, m.NONE, 16, rows, 16, 16, keep=b == m.NONE),
    ]


def waits_for_itself(rows: int) -> Commands:
    """A product whose D is the result of the product before, which is still in the array."""
    return [m.preload(B, m.ACC, 16, 16, 16, rows), m.compute(A, m.ACC, 16, rows, 16, rows)]


def test_products_in_a_row_preload_only_the_first_block_alone(config: SimConfig) -> None:
    result = run(config, product(16))
    assert result.breakdown["preloads_alone"] == 16
    assert result.breakdown["product_rows"] == 16 * ROUNDS
    assert result.breakdown["array_busy"] == 16 * (ROUNDS + 1)


@pytest.mark.parametrize("rows", [8, 16])
def test_a_block_after_a_result_under_way_is_preloaded_alone(config: SimConfig, rows: int) -> None:
    result = run(config, [*product(rows), *waits_for_itself(rows)])
    assert result.breakdown["preloads_alone"] >= 16 * ROUNDS
    assert result.breakdown["product_rows"] == 2 * rows * ROUNDS
    assert {h.cause for h in result.hotspots} >= {"preloads_alone"}
    assert "product_rows" not in {h.cause for h in result.hotspots}


def test_only_products_before_another_block_take_longer_than_their_rows(config: SimConfig) -> None:
    """Of each round's products of 8 rows, one takes 8 cycles and the other 16."""
    result = run(config, [*product(8), *product(8, m.NONE, m.ACC | 64)])
    assert result.breakdown["product_rows"] == 16 * ROUNDS
    paired = result.breakdown["array_busy"] - result.breakdown["preloads_alone"]
    assert paired == pytest.approx(24 * ROUNDS, abs=16)


def test_a_product_takes_at_least_the_rows_that_the_array_needs(config: SimConfig) -> None:
    least = config["array_minimum_rows"]
    result = run(config, product(1))
    assert result.breakdown["product_rows"] == least * ROUNDS

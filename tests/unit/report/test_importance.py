"""The importance of a template's parameters is what their values do to latency."""

from __future__ import annotations

import math
import random

import pytest

from tilewright.report.importance import FEWEST, parameter_rows

SIZES = (16, 32, 64, 128)


def instances(count: int, seed: int = 1) -> list[tuple[dict[str, int], float]]:
    """Latency depends on TM by a factor of up to 8, on TN by one of 4, and not on UNROLL."""
    rng = random.Random(seed)
    drawn = [{n: rng.choice(SIZES) for n in ("UNROLL", "TN", "TM")} for _ in range(count)]
    return [(v, 1e6 / v["TM"] * 1.6 ** math.log2(v["TN"] / 16)) for v in drawn]


@pytest.mark.parametrize("seed", range(10))
def test_parameters_stand_in_the_order_of_what_they_do(seed: int) -> None:
    rows = {row.name: row for row in parameter_rows(instances(60, seed))}
    assert list(rows)[:2] == ["TM", "TN"]
    tm, tn, unroll = (rows[name].importance or 0.0 for name in ("TM", "TN", "UNROLL"))
    assert tm > 0.45
    assert 0.1 < tn < tm
    assert unroll < 0.2  # values without an effect differ by chance only
    assert rows["TM"].values == SIZES
    assert rows["TM"].best == 128


def test_values_that_differ_in_everything_explain_nothing() -> None:
    """With a value for each instance, no two instances show what chance does."""
    rows = parameter_rows([({"N": n}, 1.0 + n) for n in range(20)])
    assert rows[0].importance is None


def test_shares_do_not_depend_on_the_unit() -> None:
    drawn = instances(40)
    scaled = [(values, latency * 1e-9) for values, latency in drawn]
    first, second = ([row.importance for row in parameter_rows(found)] for found in (drawn, scaled))
    assert first == pytest.approx(second)


def test_too_few_or_equal_instances_say_nothing() -> None:
    assert parameter_rows([]) == []
    assert {row.importance for row in parameter_rows(instances(FEWEST - 1))} == {None}
    equal = [({"TM": size}, 100.0) for size in SIZES * 4]
    assert [row.importance for row in parameter_rows(equal)] == [None]

"""Sums that the core shifts, rounds and limits are finished by stores, with the same results."""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_core_code import product

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.bounds import bounds
from tilewright.proposers.rewriter.raising.data import OPERATIONS, SUM, Tree, values
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.finishing import Finish, finish
from tilewright.proposers.rewriter.raising.raised import raised

LIMITS = "if (v < -128) v = -128; if (v > 127) v = 127; C[i + y][j + x] = v;"
SMALL = 1 << 24
"""Sums of at most this absolute value fit in 32 bits even if they are added twice."""
SUMS = "int32_t s = sums[y][x] + bias[j + x];"


def limited(tree: Tree, low: int = -128) -> Tree:
    """A function, limited to the range of a store."""
    upper = ("where", ("gt", tree, 127), 127, tree)
    return ("where", ("lt", upper, low), low, upper)


def half_up(shift: int, more: int = 0) -> Tree:
    return ("rshift", ("add", SUM, (1 << shift >> 1) + more), shift)


def between(above: int, tree: Tree, value: int = 0) -> Tree:
    """A function that has another value for sums below a limit."""
    return ("where", ("lt", SUM, above), value, tree)


def stored(one: Finish, total: int) -> int:
    """What the accelerator stores for a sum (`FixedPoint::narrow` of the co-simulator)."""
    scaled = np.rint(np.float32(one.times * total + one.offset) * np.float32(one.scale))
    return int(np.clip(scaled, 0 if one.clipped else -128, 127))


@pytest.mark.parametrize("shift", [1, 2, 6, 9, 12])
@pytest.mark.parametrize("low", [-128, 0])
def test_halves_are_rounded_up_as_by_a_shift(shift: int, low: int) -> None:
    found = finish(limited(half_up(shift), low), 1, SMALL)
    assert found is not None
    assert found.clipped == (low == 0)
    assert found.times == (2 if low else 1)
    reach = 130 << shift
    for total in {*range(-300, 300), *range(-reach, reach, max(1, (1 << shift) // 2))}:
        expected = min(max((total + (1 << shift >> 1)) >> shift, low), 127)
        assert stored(found, total) == expected, total


def test_offsets_before_and_after_a_shift() -> None:
    floor = finish(limited(("rshift", SUM, 4)), 1, SMALL)
    assert floor is not None
    assert [stored(floor, n) for n in (-17, -16, -1, 0, 15, 16)] == [-2, -1, -1, 0, 0, 1]
    zero_point = finish(limited(("add", half_up(6), 3)), 1, SMALL)
    assert zero_point is not None
    assert [stored(zero_point, n) for n in (-32, 31, 32, 96)] == [3, 3, 4, 5]


def test_halves_to_even_and_away_from_zero() -> None:
    quotient, half = ("rshift", SUM, 5), ("and", ("rshift", SUM, 4), 1)
    odd = ("or", ("ne", ("and", SUM, 15), 0), ("and", quotient, 1))
    even = finish(limited(("add", quotient, ("and", half, odd))), 1, SMALL)
    assert even == Finish(1, 0, 1 / 32, clipped=False)
    away = ("where", ("ge", SUM, 0), half_up(5), ("neg", ("rshift", ("sub", 16, SUM), 5)))
    found = finish(limited(away), 1, SMALL)
    assert found is not None
    assert found.times == 1
    assert [stored(found, n) for n in (-48, -47, -16, -15, 15, 16, 48)] == [-2, -1, -1, 0, 0, 1, 2]


@pytest.mark.parametrize(
    "tree",
    [
        ("signed", half_up(4), 8),
        half_up(4),
        limited(half_up(4), -127),
        limited(("mul", SUM, 3)),
        limited(("rshift", ("mul", SUM, 3), 4)),
        limited(("neg", half_up(4))),
        limited(half_up(14)),
        limited(("where", ("eq", SUM, 1000), 0, half_up(4))),
        limited(("divided", SUM, 16)),
        ("add", SUM, 1),
        limited(("where", ("eq", SUM, 3_000_000), 0, half_up(4))),
        limited(("where", ("gt", SUM, 3_000_000), between(4_000_000, half_up(4)), half_up(4))),
        limited(("where", ("eq", ("rshift", SUM, 9), -9_000), 0, half_up(4))),
        limited(("where", ("lt", SUM, 7 - (1 << 31)), 0, half_up(4))),
        limited(("signed", half_up(4), 24)),
    ],
)
def test_functions_that_no_store_computes(tree: Tree) -> None:
    assert finish(tree, 1, SMALL) is None


def test_functions_that_are_the_same_for_every_sum() -> None:
    plain = finish(limited(half_up(4)), 1, SMALL)
    assert plain is not None
    for tree in (
        limited(("where", ("gt", SUM, 3_000_000), between(4_000_000, half_up(4), 999), half_up(4))),
        limited(("signed", ("and", half_up(4), (1 << 32) - 1), 32)),
        limited(("add", ("rshift", SUM, 4), ("and", ("rshift", SUM, 3), 1))),
    ):
        assert finish(tree, 1, SMALL) == plain


@pytest.mark.parametrize("seed", range(40))
def test_bounds_of_a_function_contain_its_values(seed: int) -> None:
    rng = random.Random(seed)

    def tree(deep: int) -> Tree:
        if not deep:
            return rng.choice((SUM, SUM, rng.randint(-9, 9), rng.randint(-(1 << 12), 1 << 12)))
        name = rng.choice(sorted(OPERATIONS))
        match name:
            case "rshift" | "lshift":
                return (name, tree(deep - 1), rng.randint(0, 9))
            case "signed":
                return (name, tree(deep - 1), rng.choice((8, 16, 32)))
            case "neg" | "invert":
                return (name, tree(deep - 1))
            case "where":
                return (name, tree(deep - 1), tree(deep - 1), tree(deep - 1))
            case _:
                return (name, tree(deep - 1), tree(deep - 1))

    for _ in range(100):
        one, low = tree(rng.randint(1, 2)), rng.randint(-5000, 5000)
        high = low + rng.choice((0, 1, 7, 300))
        found = np.atleast_1d(values(one, np.arange(low, high + 1)))
        smallest, largest = bounds(one, low, high)
        assert smallest <= found.min() <= found.max() <= largest, one
        assert bounds(one, low, low) == (found[0], found[0])


@pytest.mark.parametrize(
    "rounding",
    [
        "int32_t v = (s + (1 << 5)) >> 6;",
        "int32_t v = s + 31; v = (v + 1) >> 6;",
        "int32_t v = (s >> 6) + ((s >> 5) & 1);",
        "int32_t v = s + 32; v >>= 6;",
    ],
)
def test_a_rounding_shift_of_the_core_is_that_of_a_store(machine: Machine, rounding: str) -> None:
    text = emit(raised(product(f"int32_t s = sums[y][x]; {rounding} {LIMITS}"), machine))
    assert "config_st(64, 0.0078125f, NO_ACTIVATION)" in text.replace(", 0)", ", NO_ACTIVATION)")
    assert "constants[i] = 1;" in text
    assert ">>" not in text[text.index("config_ex") :]


@pytest.mark.parametrize(
    "body",
    [
        "if (s < -8192) return -128; if (s >= 8128) return 127; return (s + 32) >> 6;",
        "s = (s + 32) >> 6; if (s > 127) return 127; else if (s < -128) { return -128; } return s;",
        "if (s >= -8192) { if (s < 8128) return (s + 32) >> 6; return 127; } else return -128;",
    ],
)
def test_a_function_may_return_in_several_places(machine: Machine, body: str) -> None:
    narrow = f"static inline int8_t narrow(int32_t s) {{ {body} }}"
    source = narrow + product("C[i + y][j + x] = narrow(sums[y][x]);")
    text = emit(raised(source, machine))
    assert "config_st(64, 0.0078125f, 0)" in text


def test_a_function_that_computes_between_returns_is_kept(machine: Machine) -> None:
    body = "if (s < 0) return 0; s = (s + 32) >> 6; return s > 127 ? 127 : s;"
    source = f"static int8_t narrow(int32_t s) {{ {body} }}"
    text = emit(raised(source + product("C[i + y][j + x] = narrow(sums[y][x]);"), machine))
    assert "narrow(" in text[text.index("config_ex") :]


def test_bounds_of_limits_are_exact() -> None:
    most = 1 << 31
    for tree in (
        ("where", ("lt", SUM, -9), -9, ("where", ("gt", SUM, 7), 7, SUM)),
        ("where", ("le", SUM, 7), ("where", ("ge", SUM, -9), SUM, -9), 7),
        ("where", ("ge", ("add", SUM, 2), -7), ("where", ("gt", SUM, 7), 7, SUM), -9),
    ):
        assert bounds(tree, -most, most - 1) == (-9, 7)


def test_sums_that_may_overflow_are_not_doubled(machine: Machine) -> None:
    largest = 1 << 30  # 2 s + 1 needs 33 bits
    assert finish(limited(half_up(6)), 1, largest - 40) is not None
    assert finish(limited(half_up(6)), 1, largest) is None
    assert finish(limited(half_up(6), 0), 1, 1 << 31) == finish(limited(half_up(6), 0), 1, 9)
    for tree in (limited(("rshift", SUM, 4)), limited(("add", half_up(6), 3), 0)):
        assert finish(tree, 1, 1 << 31) is None
    rounding = "int32_t v = (s + 32) >> 6;"
    text = emit(raised(product(f"{SUMS} {rounding} {LIMITS}"), machine))
    assert "s + 32) >> 6" in text[text.index("config_ex") :]
    text = emit(raised(product(f"{SUMS} {rounding} {LIMITS.replace('-128', '0')}"), machine))
    assert ">>" not in text[text.index("config_ex") :]


def test_a_sum_with_an_offset_is_stored_as_it_is(machine: Machine) -> None:
    source = product("C[i + y][j + x] = sums[y][x] + 5;").replace("int8_t C[32]", "int32_t C[32]")
    text = emit(raised(source, machine))
    assert "constants[i] = 5;" in text
    assert "FULL" in text


def with_block() -> str:
    """A product to which a block of the first operand's array is added."""
    source = product("").replace("&sums[0][0], ACC(0) | FULL", "&C[i][j], ACC(0)")
    block = "mvin(&A[i][0], SPAD(200), 16, 16); compute_preloaded(SPAD(0), SPAD(200), 16,"
    return source.replace("compute_preloaded(SPAD(0), NONE, 16,", block)


def test_a_block_is_added_as_a_product_with_the_identity(machine: Machine) -> None:
    text = emit(raised(with_block(), machine))
    assert "constants[i][i] = 1;" in text
    assert "mvin(&constants[0][0]" in text


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("SPAD(200), 16, 16, 16, 16)", "SPAD(200), 16, 16, 8, 16)", "another size"),
        ("SPAD(200), 16, 16, 16, 16)", "ACC(0), 16, 16, 16, 16)", "memory for sums"),
        ("NO_ACTIVATION, 1, 0, 0", "NO_ACTIVATION, 1, 0, 1", "second operand is transposed"),
    ],
)
def test_blocks_that_are_not_added(machine: Machine, old: str, new: str, reason: str) -> None:
    with pytest.raises(NotRaised, match=reason):
        raised(with_block().replace(old, new), machine)

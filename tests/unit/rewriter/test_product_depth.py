"""Products whose operands continue one another become deeper ones, if the sums stay the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from byte_model import same
from kernel_model import randomly_rewritten

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Array, Kernel, Loop
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.computation import Computation, Kind, Store, Stored
from tilewright.proposers.rewriter.raising.execute import executed
from tilewright.proposers.rewriter.raising.flow import computation
from tilewright.proposers.rewriter.raising.merged_axes import with_merged_axis
from tilewright.proposers.rewriter.raising.own_arrays import Fillings
from tilewright.proposers.rewriter.raising.product_depth import deepened
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.reading import read
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.convolution import Convolution
from tilewright.targets.gemmini.naive import naive_convolution


def convolution(*sizes: int) -> str:
    """The generated start of batch, height, width, channels, filters, kernel size and stride."""
    return naive_convolution(Convolution(*sizes, 0), create_target().instance)


def products(source: str, machine: Machine) -> int:
    """Products that a run issues."""
    run = executed(source, machine)
    return sum(run.commands[e[0]].startswith("compute") for e in run.events)


@pytest.mark.parametrize(
    ("sizes", "size", "stride", "fewer"),
    [
        ((1, 12, 12, 3, 16), 7, 2, 7 / 2),
        ((2, 9, 9, 4, 32), 5, 1, 5 / 2),
        ((1, 10, 10, 8, 16), 3, 2, 3 / 2),
        ((1, 6, 20, 24, 16), 3, 1, 6 / 5),
        ((1, 8, 20, 1, 16), 5, 1, 5),
        ((1, 10, 12, 4, 16), 9, 1, 9 / 3),
        ((1, 6, 6, 16, 16), 3, 1, 1),
        ((1, 6, 6, 32, 16), 3, 1, 1),
    ],
)
def test_taps_of_a_few_channels_become_depth(
    machine: Machine, sizes: tuple[int, int, int, int, int], size: int, stride: int, fewer: float
) -> None:
    source = convolution(*sizes, size, stride)
    deep = raised(source, machine)
    assert products(source, machine) == fewer * products(emit(deep), machine)
    assert same(lift(source, machine), deep)
    assert same(lift(emit(deep), machine), deep)
    if fewer == 1:
        assert deep.signature == lift(source, machine).signature


def line(index: str = "t", signal: str = "[40][2]", weight: str = "[9][2][16]") -> str:
    """A convolution over a line of 2 channels with 9 taps."""
    tap = f"{index}]" if weight.count("[") == 3 else f"2 * ({index})]"
    zero = "[0]" if weight.count("[") == 3 else ""
    at = "[x + t][0]" if signal.count("[") == 2 else "[2 * (x + t)]"
    return f"""\
void kernel(const int8_t signal{signal}, const int8_t w{weight}, int8_t out[32][16]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(2, 1.0f, 16, 0); config_ld(16, 1.0f, 16, 1); config_ld(0, 1.0f, 16, 2);
  config_st(16);
  for (int x = 0; x < 32; x += 16) {{
    mvin3(0, ACC(0), 16, 16);
    for (int t = 0; t < 9; t++) {{
      mvin(&signal{at}, SPAD(0), 2, 16);
      mvin2(&w[{tap}{zero}[0], SPAD(64), 16, 2);
      preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 2, 16, 16);
      compute_preloaded(SPAD(0), NONE, 2, 16, 16, 16);
    }}
    mvout(&out[x][0], ACC(0), 16, 16);
  }}
  fence();
}}
"""


@pytest.mark.parametrize("signal", ["[40][2]", "[80]"])
@pytest.mark.parametrize("weight", ["[9][2][16]", "[18][16]"])
def test_a_line_of_two_channels(machine: Machine, signal: str, weight: str) -> None:
    source = line(signal=signal, weight=weight)
    deep = raised(source, machine)
    assert products(source, machine) == 18
    assert products(emit(deep), machine) == 4
    assert same(lift(source, machine), deep)
    shapes = {a.name: a.shape for a in deep.arrays}
    assert (shapes["signal"], shapes["w"]) == ((80,), (18, 16))


@pytest.mark.parametrize(("index", "left"), [("2 * t", 18), ("t / 2", 10), ("t", 4)])
def test_only_taps_whose_weights_follow_one_another_become_depth(
    machine: Machine, index: str, left: int
) -> None:
    source = line(index).replace("[9][2]", "[18][2]")
    kernel = raised(source, machine)
    assert products(emit(kernel), machine) == left
    assert same(lift(source, machine), kernel)


def test_pixels_that_lie_apart_stay_apart(machine: Machine) -> None:
    source = line().replace("[40][2]", "[80][2]").replace("[x + t][0]", "[x + 2 * t][0]")
    kernel = raised(source, machine)
    assert products(emit(kernel), machine) == 18
    assert same(lift(source, machine), kernel)


@pytest.mark.parametrize(
    "text",
    [
        "void kernel(const int8_t [40][2], const int8_t [9][2][16], int8_t [32][16]);\n",
        "/* kernel is declared in the header */\n",
    ],
)
def test_the_arguments_keep_their_form_where_the_kernel_is_named_elsewhere(
    machine: Machine, text: str
) -> None:
    kernel = raised(text + line(), machine)
    assert kernel.signature == lift(line(), machine).signature
    assert products(emit(kernel), machine) == 18
    assert same(lift(line(), machine), kernel)


def test_arguments_whose_form_is_not_in_the_signature_keep_it(machine: Machine) -> None:
    source = "typedef int8_t Line[40][2];\n" + line().replace("int8_t signal[40][2]", "Line signal")
    kernel = raised(source, machine)
    assert "Line signal" in kernel.signature
    assert products(emit(kernel), machine) == 18


def test_products_that_are_added_twice_are_added_twice(machine: Machine) -> None:
    twice = line().replace("      compute_preloaded", "      compute_preloaded", 1)
    body = "preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 2, 16, 16);"
    twice = twice.replace(body, f"{body}\n      compute_preloaded(SPAD(0), NONE, 2, 16, 16, 16);\n"
                                f"      {body}")  # fmt: skip
    assert products(twice, machine) == 36
    found = computation(executed(twice, machine), machine)
    assert deepened(found, 16) is found


def test_the_depth_of_each_sum_is_kept(machine: Machine) -> None:
    found = computation(executed(line(), machine), machine)
    deep = deepened(found, 16)
    assert deep is not found
    for before, after in zip(found.stored, deep.stored, strict=True):
        assert pairs(before.products, found.kinds) == pairs(after.products, deep.kinds)
    assert [k.depth for k in deep.kinds] == sorted((k.depth for k in deep.kinds), reverse=True)
    assert deepened(deep, 16) is deep


def pairs(listed: object, kinds: object) -> set[tuple[int, int]]:
    """The pairs of element and row that products multiply."""
    return {
        (a + n * kinds[k].apart, b + n * kinds[k].stride)  # type: ignore[index]
        for a, _, b, k in listed  # type: ignore[attr-defined]
        for n in range(kinds[k].depth)  # type: ignore[index]
    }


@pytest.mark.parametrize("seed", range(4))
def test_rewrites_of_deep_taps_keep_their_meaning(machine: Machine, seed: int) -> None:
    source = convolution(1, 12, 12, 3, 32, 7, 2)
    deep = raised(source, machine)
    again = read(emit(deep), machine)
    kernel, done = randomly_rewritten(again, machine, random.Random(seed), tries=20)
    assert done
    assert same(lift(source, machine), kernel, seed)


def declared(signature: str, *arrays: Array) -> Kernel:
    return Kernel("", signature, arrays, (Loop("i", Expr(), Expr(1), 1, ()),), "")


def test_two_axes_of_a_parameter_become_one() -> None:
    array = Array("x", (4, 5, 6), "int8_t")
    kernel = declared("void kernel(int8_t x [4][5] [2 * 3] , int8_t xx[4])", array)
    merged = with_merged_axis(kernel, array, 2)
    assert merged is not None
    assert merged[0].signature == "void kernel(int8_t x [4][30] , int8_t xx[4])"
    assert merged[0].arrays == (merged[1],)
    assert merged[1].shape == (4, 30)
    unknown = Array("x", (0, 5, 6), "int8_t")
    kernel = declared("void kernel(int8_t x[][5][6])", unknown)
    merged = with_merged_axis(kernel, unknown, 1)
    assert merged is not None
    assert merged[0].signature == "void kernel(int8_t x[][6])"
    assert merged[1].shape == (0, 6)


def test_what_cannot_be_declared_otherwise_stays() -> None:
    array = Array("x", (4, 5), "int8_t")
    kernel = declared("void kernel(int8_t x[4][5])", array)
    assert with_merged_axis(kernel, array, 0) is None
    assert with_merged_axis(kernel, array, 2) is None
    own = replace(array, local=True)
    assert with_merged_axis(declared("void kernel(int8_t x[4][5])", own), own, 1) is None
    for signature in (
        "void kernel(int8_t (*x)[5])",
        "void kernel(Block x)",
        "void kernel(Block x[4])",
    ):
        assert with_merged_axis(declared(signature, array), array, 1) is None
    for around in ({"before": "void kernel(int8_t[4][5]);"}, {"after": "// as kernel"}):
        assert with_merged_axis(replace(kernel, **around), array, 1) is None


def kind(depth: int = 8, **other: object) -> Kind:
    plain = Kind((1,), (1.0, 1.0), depth, 16, 1, 16, 1, (False, False))
    return replace(plain, **other)  # type: ignore[arg-type]


def sum_of(kinds: list[Kind], *listed: tuple[int, int, int, int]) -> Computation:
    """A computation that stores sums of some products (first, step, second, kind)."""
    how = Store((), unscaled=False, columns=16)
    return Computation(
        [Stored(9000, 64, 4, 0, how, listed, ())], kinds, "fence", ("SPAD", "ACC"), Fillings({})
    )


def test_products_that_go_on_are_divided_anew() -> None:
    found = deepened(sum_of([kind()], *((a, 32, 16 * a, 0) for a in (8, 16, 24, 32, 40))), 16)
    assert [k.depth for k in found.kinds] == [16, 8]
    assert found.stored[0].products == ((8, 32, 128, 0), (24, 32, 384, 0), (40, 32, 640, 1))


@pytest.mark.parametrize(
    "second",
    [
        ([kind()], (16, 32, 129, 0)),
        ([kind()], (17, 32, 128, 0)),
        ([kind()], (16, 48, 128, 0)),
        ([kind(), kind(apart=2)], (16, 32, 128, 1)),
        ([kind(), kind(stride=32)], (16, 32, 128, 1)),
        ([kind(), kind(columns=8)], (16, 32, 128, 1)),
        ([kind(), kind(factors=(2.0, 1.0))], (16, 32, 128, 1)),
        ([kind(), kind(transposed=(False, True))], (16, 32, 128, 1)),
        ([kind(apart=0, stride=0)], (8, 32, 0, 0)),
        ([kind(apart=0, stride=0)], (16, 32, 128, 0)),
        ([kind(16)], (24, 32, 256, 0)),
    ],
)
def test_other_products_are_not_one(second: tuple[list[Kind], tuple[int, int, int, int]]) -> None:
    found = sum_of(second[0], (8, 32, 0, 0), second[1])
    assert deepened(found, 16) is found

"""The hardware loop unrollers against numpy, with and without timing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from target.sim import numpy_model as m
from target.sim.assembler import FENCE, command_stream
from tilewright.targets.gemmini.sim import Region, SimConfig, SimResult, run_kernel

TABLE, A, B, D, OUT = 0x8F00_0000, 0x9000_0000, 0x9100_0000, 0x9200_0000, 0x9300_0000
DIM, HALF_SCRATCHPAD, HALF_ACCUMULATOR = 16, 8192, 512
Array = npt.NDArray[np.generic]
Command = tuple[int, int, int]


def simulate(
    config: SimConfig,
    commands: list[Command],
    inputs: dict[int, Array],
    output: Array,
    timing: bool,
    every_cycle: bool = False,
) -> SimResult:
    elf, table = command_stream([*commands, (FENCE, 0, 0)])
    regions = [Region(TABLE, table, False, "commands")]
    regions += [Region(at, array, False, f"in{at:x}") for at, array in inputs.items()]
    regions.append(Region(OUT, output, True, "output"))
    return run_kernel(
        config, elf, regions, timing=timing, every_cycle=every_cycle, limit_cycles=10**7
    )


def three(low: int, middle: int, high: int) -> int:
    return low | middle << 16 | high << 32


@dataclass(frozen=True)
class Product:
    """C[rows][cols] = sat8(A * B + D), split into `splits` loops along the depth."""

    rows: int
    cols: int
    depth: int
    a_transposed: bool = False
    b_transposed: bool = False
    full_c: bool = False
    has_d: bool = False

    def loop(
        self, a: int, b: int, d: int, c: int, depth: int, *, accumulate: bool
    ) -> list[Command]:
        blocks = [-(-size // DIM) for size in (self.rows, self.cols, depth)]
        pads = [-size % DIM for size in (self.rows, self.cols, depth)]
        return [
            (9, three(*pads), three(*blocks)),
            (10, a, b),
            (11, d, c),
            (12, self.rows if self.a_transposed else self.depth, self.b_stride),
            (13, self.cols, self.cols),
            (
                8,
                int(accumulate) | self.full_c << 1,
                int(self.a_transposed) | self.b_transposed << 1,
            ),
        ]

    @property
    def b_stride(self) -> int:
        return self.depth if self.b_transposed else self.cols

    def commands(self, loops: int, *, accumulate: bool = False) -> list[Command]:
        element = 4 if self.full_c else 1
        setup = [
            m.config_ex(0, 1, int(self.a_transposed), int(self.b_transposed)),
            m.config_ld(self.rows if self.a_transposed else self.depth, 1.0, DIM, 0),
            m.config_ld(self.b_stride, 1.0, DIM, 1),
            m.config_ld(self.cols * 4, 1.0, DIM, 2),
            m.config_st(self.cols * element),
        ]
        d = D if self.has_d else 0
        size = self.rows * self.cols * element
        for index in range(loops):
            setup += self.loop(A, B, d, OUT + index * size, self.depth, accumulate=accumulate)
        return setup

    def expected(self, a: Array, b: Array, d: Array) -> Array:
        left = a.T if self.a_transposed else a
        right = b.T if self.b_transposed else b
        total = left.astype(np.int64) @ right.astype(np.int64) + (d if self.has_d else 0)
        return total.astype(np.int32) if self.full_c else np.clip(total, -128, 127).astype(np.int8)

    def arrays(self, seed: int) -> tuple[Array, Array, Array]:
        rng = np.random.default_rng(seed)
        a = rng.integers(-5, 6, (self.rows, self.depth), dtype=np.int8)
        b = rng.integers(-5, 6, (self.depth, self.cols), dtype=np.int8)
        d = rng.integers(-900, 900, (self.rows, self.cols), dtype=np.int32)
        return (
            np.ascontiguousarray(a.T) if self.a_transposed else a,
            np.ascontiguousarray(b.T) if self.b_transposed else b,
            d,
        )


SIZES = st.integers(1, 96)
TRANSPOSED = st.sampled_from([(False, False), (True, False), (False, True)])


@st.composite
def products(draw: st.DrawFn) -> Product:
    transposed = draw(TRANSPOSED)
    sizes = draw(SIZES), draw(st.integers(1, 80)), draw(SIZES)
    return Product(*sizes, *transposed, full_c=draw(st.booleans()), has_d=draw(st.booleans()))


@settings(max_examples=60)
@given(products(), st.integers(1, 3), st.integers(0, 2**32 - 1))
def test_matrix_loops_equal_numpy(
    config: SimConfig, product: Product, loops: int, seed: int
) -> None:
    a, b, d = product.arrays(seed)
    expected = product.expected(a, b, d)
    commands = product.commands(loops, accumulate=product.has_d)
    output = np.zeros((loops, *expected.shape), expected.dtype)
    for timing in (False, True):
        result = simulate(config, commands, {A: a, B: b, D: d}, output, timing)
        assert result.status == "ok", result.fault
        got = np.frombuffer(result.outputs[-1], expected.dtype).reshape(output.shape)
        np.testing.assert_array_equal(got, np.broadcast_to(expected, output.shape))


def test_a_sum_continues_in_the_next_loop(config: SimConfig) -> None:
    """Without a result to store, a loop leaves its sums where the next one finds them."""
    product = Product(40, 40, 96)
    a, b, d = product.arrays(3)
    setup = product.commands(0)
    first = product.loop(A, B, 0, 0, 48, accumulate=False)
    second = product.loop(A + 48, B + 48 * 40, 0, OUT, 48, accumulate=True)
    output = np.zeros((40, 40), np.int8)
    for timing in (False, True):
        result = simulate(config, setup + first + second, {A: a, B: b, D: d}, output, timing)
        assert result.status == "ok", result.fault
        np.testing.assert_array_equal(
            np.frombuffer(result.outputs[-1], np.int8).reshape(40, 40), product.expected(a, b, d)
        )


def test_loops_keep_the_array_busy(config: SimConfig) -> None:
    """Commands come at hardware rate: from the core they would leave the array waiting."""
    product = Product(128, 64, 256)
    a, b, d = product.arrays(1)
    loops = 8
    output = np.zeros((loops, 128, 64), np.int8)
    result = simulate(config, product.commands(loops), {A: a, B: b, D: d}, output, True)
    assert result.status == "ok", result.fault
    ideal = loops * 128 * 64 * 256 // 256
    assert ideal < result.cycles < 1.25 * ideal
    # Two loops in flight: one alone costs more than its share of many.
    single = simulate(config, product.commands(1), {A: a, B: b, D: d}, output[:1], True)
    assert single.cycles * loops > 1.2 * result.cycles


@settings(max_examples=25)
@given(products(), st.integers(1, 3))
def test_skipped_cycles_change_nothing(config: SimConfig, product: Product, loops: int) -> None:
    a, b, d = product.arrays(0)
    expected = product.expected(a, b, d)
    output = np.zeros((loops, *expected.shape), expected.dtype)
    commands = product.commands(loops, accumulate=product.has_d)
    skipping, stepping = (
        simulate(config, commands, {A: a, B: b, D: d}, output, True, every_cycle)
        for every_cycle in (False, True)
    )
    assert skipping.status == "ok", skipping.fault
    assert skipping == stepping


@dataclass(frozen=True)
class Convolution:
    rows: int  # of the output tile
    cols: int
    kernel: int
    channels: int
    filters: int
    stride: int = 1
    dilation: int = 1
    batches: int = 1
    left: int = 0
    up: int = 0
    bias: bool = True

    @property
    def tile(self) -> tuple[int, int]:
        reach = (self.kernel - 1) * self.dilation
        return self.rows * self.stride + reach, self.cols * self.stride + reach

    @property
    def inside(self) -> tuple[int, int]:
        return self.tile[0] - self.up, self.tile[1] - self.left

    def commands(self) -> list[Command]:
        rows, cols = self.inside
        k, c = self.kernel, self.channels
        return [
            m.config_ex(0, self.stride),
            m.config_st(self.filters),
            (
                16,
                c << 32 | rows << 16 | self.batches,
                self.stride << 48 | self.cols << 32 | self.rows,
            ),
            (17, k << 48, self.batches << 48 | self.filters),
            (18, k << 48 | k << 32 | c << 16 | self.left, self.up << 32 | cols),
            (
                19,
                self.rows << 48 | self.dilation,
                c << 48 | self.filters << 32 | self.filters << 16 | self.cols,
            ),
            (20, B, OUT),
            (21, D, A),
            (15, int(not self.bias), 1),
        ]

    def expected(self, pixels: Array, weights: Array, bias: Array) -> Array:
        padded = np.pad(pixels.astype(np.int64), ((0, 0), (self.up, 0), (self.left, 0), (0, 0)))
        shape = (self.batches, self.rows, self.cols, self.filters)
        total = np.broadcast_to(bias.astype(np.int64) if self.bias else 0, shape).copy()
        s, dil = self.stride, self.dilation
        for r in range(self.kernel):
            for t in range(self.kernel):
                window = padded[
                    :, r * dil : r * dil + self.rows * s : s, t * dil : t * dil + self.cols * s : s
                ]
                total += window @ weights[r, t].astype(np.int64)
        return np.clip(total, -128, 127).astype(np.int8)


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    kernel, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    return Convolution(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 20)),
        kernel,
        draw(st.integers(1, 70)),
        draw(st.integers(1, 64)),
        stride,
        draw(st.integers(1, 2)),
        draw(st.integers(1, 2)),
        draw(st.integers(0, kernel - 1)),
        draw(st.integers(0, kernel - 1)),
        draw(st.booleans()),
    )


@settings(max_examples=60)
@given(convolutions(), st.integers(0, 2**32 - 1))
def test_convolution_loops_equal_numpy(
    config: SimConfig, convolution: Convolution, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    c, n, k = convolution.channels, convolution.filters, convolution.kernel
    pixels = rng.integers(-3, 4, (convolution.batches, *convolution.inside, c), dtype=np.int8)
    weights = rng.integers(-3, 4, (k, k, c, n), dtype=np.int8)
    bias = rng.integers(-90, 90, n, dtype=np.int32)
    expected = convolution.expected(pixels, weights, bias)
    for timing in (False, True):
        result = simulate(
            config,
            convolution.commands(),
            {A: pixels, B: weights, D: bias},
            np.zeros_like(expected),
            timing,
        )
        assert result.status == "ok", result.fault
        np.testing.assert_array_equal(
            np.frombuffer(result.outputs[-1], np.int8).reshape(expected.shape), expected
        )


FAULTS = {
    "no blocks": ([(9, 0, three(0, 1, 1)), (8, 0, 0)], "limit_exceeded"),
    "padding of a whole block": ([(9, 16, three(1, 1, 1)), (8, 0, 0)], "limit_exceeded"),
    "scratchpad": ([(9, 0, three(2, 2, 200)), (8, 0, 0)], "local_out_of_bounds"),
    "accumulator": ([(9, 0, three(6, 6, 1)), (8, 0, 0)], "local_out_of_bounds"),
    "both transposed": ([(9, 0, three(1, 1, 1)), (8, 0, 3)], "illegal_instruction"),
    "element-wise sums": ([(9, 0, three(1, 1, 1)), (8, 0, 4)], "illegal_instruction"),
    "pooling": ([(15, 0, 0)], "illegal_instruction"),
    "empty convolution": ([(15, 0, 1)], "limit_exceeded"),
    "convolution too large": (
        Convolution(8, 40, 3, 64, 64).commands(),
        "local_out_of_bounds",
    ),
    "absurd convolution": (
        replace(Convolution(60000, 60000, 3, 60000, 60000), batches=60000).commands(),
        "local_out_of_bounds",
    ),
    "all padding": (
        [*Convolution(1, 1, 1, 1, 1).commands()[:4], (18, 1 << 48 | 1 << 32 | 1 << 16 | 5, 0),
         *Convolution(1, 1, 1, 1, 1).commands()[5:]],
        "limit_exceeded",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("timing", [False, True])
def test_impossible_loops_are_faults(config: SimConfig, name: str, timing: bool) -> None:
    commands, kind = FAULTS[name]
    data = np.zeros(1 << 16, np.int8)
    result = simulate(config, commands, {A: data, B: data, D: data}, data, timing)
    assert result.status == "fault"
    assert result.fault is not None
    assert result.fault.kind == kind

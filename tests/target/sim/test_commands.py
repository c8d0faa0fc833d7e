"""Every accelerator command against the numpy model, on random sequences and several instances."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from target.sim import numpy_model as m
from target.sim.assembler import CODE, FENCE, RESERVED, command_stream, timed_program
from tilewright.targets.gemmini.sim import (
    CONFIGURATIONS,
    Region,
    SimConfig,
    load_config,
    run_kernel,
    run_program,
)

INPUT, OUTPUT, TABLE = 0x9000_0000, 0x9100_0000, 0x9200_0000
IN_BYTES, OUT_BYTES = 1 << 14, 1 << 16
SCALES = st.sampled_from([1.0, 0.5, 0.25, 1.5, 1 / 512, 3.7, -0.75])
# A small part of local memory, so that commands meet each other's rows.
SPAD_ROWS = st.integers(0, 150)
ACC_ROWS = st.integers(0, 150)
Commands = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Shape:
    """An instance as far as commands depend on it."""

    dim: int
    floats: bool

    @property
    def config(self) -> SimConfig:
        name = "gemmini-fp32-4x4" if self.floats else "gemmini-int8-16x16"
        given = load_config(CONFIGURATIONS[name]).parameters
        return SimConfig({**given, "array_dim": self.dim})

    def data(self, seed: int) -> Any:
        """Bytes of the input: any integers, or floats of several magnitudes with zeros."""
        rng = np.random.default_rng(seed)
        if not self.floats:
            return rng.integers(0, 256, IN_BYTES, dtype=np.uint8)
        count = IN_BYTES // 4
        values = rng.standard_normal(count) * 2.0 ** rng.integers(-20, 8, count)
        values *= rng.random(count) < 0.9
        return values.astype(np.float32).view(np.uint8)


INT8, INT8_SMALL, FP32 = Shape(16, False), Shape(8, False), Shape(4, True)


@st.composite
def commands(draw: st.DrawFn, shape: Shape) -> Commands:
    """Fills local memory, then moves and multiplies at random, then moves out."""
    dim = shape.dim
    out = [m.config_ld(64, 1.0, dim, 0), m.config_ld(64, 1.0, 64, 1)]
    for row in range(0, 256, dim):
        out.append(m.mvin(0, INPUT + row * 32, row, dim, dim))
        out.append(m.mvin(1, INPUT + row * 24, m.ACC | row, dim, dim))
    parts = [moves_in, products, sums_in_the_array, moves_out]
    for index in range(draw(st.integers(3, 12))):
        out += draw(st.sampled_from(parts))(draw, shape, index)
    for index in range(2):
        out += moves_out(draw, shape, 20 + index)
    return out


def moves_in(draw: st.DrawFn, shape: Shape, _: int) -> Commands:
    ident, cols = draw(st.integers(0, 2)), draw(st.integers(1, 4 * shape.dim))
    rows = draw(st.integers(1, shape.dim))
    block = draw(st.integers(rows, 30))
    stride = draw(st.sampled_from([0, 4, 16, 64, 100] if shape.floats else [0, 1, 16, 64, 100]))
    config = m.config_ld(stride, draw(SCALES), block, ident, draw(st.integers(0, 1)))
    to_acc = draw(st.booleans())
    offset = draw(st.integers(0, 2048)) * (4 if shape.floats else 1)
    address = draw(st.sampled_from([0, INPUT + offset]))
    row = draw(st.integers(0, 128))
    local = m.ACC | draw(st.sampled_from([0, m.ADD])) | row if to_acc else row
    return [config, m.mvin(ident, address, local, cols, rows)]


def operand(draw: st.DrawFn) -> int:
    return draw(st.one_of(st.just(m.NONE), SPAD_ROWS, ACC_ROWS.map(lambda r: m.ACC | r)))


def result(draw: st.DrawFn) -> int:
    row = draw(st.sampled_from([m.ACC, m.ACC | m.ADD, 0])) | draw(ACC_ROWS)
    return draw(st.sampled_from([row, row, m.NONE]))


def products(draw: st.DrawFn, shape: Shape, _: int) -> Commands:
    at, bt = draw(st.sampled_from([(0, 0), (1, 0), (0, 1)]))
    strides, sizes = st.integers(1, 3), st.integers(1, shape.dim)
    scale = draw(SCALES)
    act = draw(st.integers(0, 1))
    out = [m.config_ex(act, draw(strides), at, bt, draw(strides), scale=scale)]
    for keep in (False, draw(st.booleans())):
        extents = [draw(sizes) for _ in range(8)]
        out.append(m.preload(operand(draw), result(draw), *extents[:4]))
        out.append(m.compute(operand(draw), operand(draw), *extents[4:], keep=keep))
    return out


def sums_in_the_array(draw: st.DrawFn, shape: Shape, _: int) -> Commands:
    """Output-stationary: all but the last product of a sum have no destination."""
    at, bt = draw(st.sampled_from([(0, 0), (1, 0), (1, 1)]))
    strides, sizes = st.integers(1, 3), st.integers(1, shape.dim)
    settings = {"os": 1, "scale": draw(SCALES), "shift": draw(st.integers(0, 12))}
    out = [m.config_ex(draw(st.integers(0, 1)), draw(strides), at, bt, draw(strides), **settings)]
    last = draw(st.integers(0, 2))
    for step in range(last + 1):
        extents = [draw(sizes) for _ in range(8)]
        out.append(m.preload(operand(draw), result(draw) if step == last else m.NONE, *extents[:4]))
        out.append(m.compute(operand(draw), operand(draw), *extents[4:], keep=step > 0))
    return out


def moves_out(draw: st.DrawFn, shape: Shape, _: int) -> Commands:
    from_acc, cols = draw(st.booleans()), draw(st.integers(1, 4 * shape.dim))
    rows = draw(st.integers(1, shape.dim))
    local = m.ACC | draw(st.sampled_from([0, m.FULL])) if from_acc else 0
    config = m.config_st(draw(st.sampled_from([256, 300])), draw(SCALES), draw(st.integers(0, 1)))
    to = OUTPUT + draw(st.integers(0, 5000)) * (4 if shape.floats else 1)
    return [config, m.mvout(to, local | draw(st.integers(0, 128)), cols, rows)]


@pytest.mark.parametrize("shape", [INT8, INT8_SMALL, FP32], ids=["int8-16", "int8-8", "fp32-4"])
@settings(max_examples=100)
@given(st.data(), st.integers(0, 2**32 - 1))
def test_random_command_sequences_equal_numpy(shape: Shape, draw: st.DataObject, seed: int) -> None:
    sequence = draw.draw(commands(shape))
    data = shape.data(seed)
    memory = np.zeros(OUTPUT - INPUT + OUT_BYTES, np.uint8)
    memory[:IN_BYTES] = data
    model = m.Model(memory, INPUT, shape.dim, shape.floats)
    with np.errstate(all="ignore"):
        for command in sequence:
            model.run(*command)
    expected = comparable(memory[OUTPUT - INPUT :], shape)
    for timing in (False, True):
        outputs = simulate(shape.config, sequence, data, timing)
        np.testing.assert_array_equal(comparable(outputs, shape), expected)


@pytest.mark.parametrize("shape", [INT8, INT8_SMALL, FP32], ids=["int8-16", "int8-8", "fp32-4"])
@settings(max_examples=30)
@given(st.data(), st.integers(0, 2**32 - 1))
def test_skipped_cycles_change_nothing(shape: Shape, draw: st.DataObject, seed: int) -> None:
    """On random commands of both dataflows: the same cycles, causes and results."""
    there = CODE + RESERVED - OUT_BYTES  # what a bare-metal program may write
    sequence = [
        (funct, first - OUTPUT + there if funct == 3 else first, second)
        for funct, first, second in draw.draw(commands(shape))
    ]
    elf, table = timed_program([*sequence, (FENCE, 0, 0)], TABLE)
    skipping, stepping = (
        run_program(
            shape.config,
            elf,
            [(TABLE, table), (INPUT, shape.data(seed).tobytes())],
            read=[(there, OUT_BYTES)],
            every_cycle=every_cycle,
        )
        for every_cycle in (False, True)
    )
    assert skipping.status == "ok", skipping.fault
    assert skipping.cycles > 0
    assert skipping == stepping


def comparable(data: Any, shape: Shape) -> Any:
    """Bits of every value; which not-a-number it is says nothing."""
    if not shape.floats:
        return data
    values = data.view(np.float32)
    return np.where(np.isnan(values), np.uint32(0x7FC00000), values.view(np.uint32))


def simulate(config: SimConfig, sequence: Commands, data: object, timing: bool) -> Any:
    elf, table = command_stream([*sequence, (FENCE, 0, 0)])
    regions = [
        Region(TABLE, table, False, "commands"),
        Region(INPUT, data, False, "input"),
        Region(OUTPUT, bytes(OUT_BYTES), True, "output"),
    ]
    result = run_kernel(config, elf, regions, timing=timing, limit_cycles=10**6)
    assert result.status == "ok", result.fault
    return np.frombuffer(result.outputs[2], np.uint8)


def test_a_fused_multiply_add_rounds_once() -> None:
    """(1 + u)^2 - 1 with u = 2^-13: 2^-12 + 2^-26 exactly; rounded twice it would be 2^-12."""
    values = np.array([1 + 2.0**-13, -1.0], np.float32)
    data = np.zeros(IN_BYTES, np.uint8)
    data[:8] = values.view(np.uint8)
    sequence = [
        m.config_ex(), m.config_ld(4, 1.0, 4, 0), m.config_st(4),
        m.mvin(0, INPUT, 0, 1, 1), m.mvin(0, INPUT + 4, 100, 1, 1),
        m.preload(0, m.ACC, 1, 1, 1, 1), m.compute(0, 100, 1, 1, 1, 1),
        m.mvout(OUTPUT, m.ACC, 1, 1),
    ]  # fmt: skip
    outputs = simulate(FP32.config, sequence, data, False)
    assert struct.unpack("<f", outputs[:4].tobytes())[0] == 2.0**-12 + 2.0**-26

"""Every accelerator command against the numpy model, on random sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from target.sim import numpy_model as m
from target.sim.assembler import FENCE, command_stream
from tilewright.targets.gemmini.sim import Region, SimConfig, run_kernel

INPUT, OUTPUT, TABLE = 0x9000_0000, 0x9100_0000, 0x9200_0000
IN_BYTES, OUT_BYTES = 1 << 14, 1 << 15
SCALES = st.sampled_from([1.0, 0.5, 0.25, 1.5, 1 / 512, 3.7, -0.75])
DIMS = st.integers(1, 16)
# A small part of local memory, so that commands meet each other's rows.
SPAD_ROWS = st.integers(0, 150)
ACC_ROWS = st.integers(0, 150)


@st.composite
def commands(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Fills local memory, then moves and multiplies at random, then moves out."""
    out = [m.config_ld(64, 1.0, 16, 0), m.config_ld(64, 1.0, 64, 1)]
    for row in range(0, 256, 16):
        out.append(m.mvin(0, INPUT + row * 32, row, 16, 16))
        out.append(m.mvin(1, INPUT + row * 24, m.ACC | row, 16, 16))
    for index in range(draw(st.integers(3, 12))):
        out += draw(st.sampled_from([moves_in, products, moves_out]))(draw, index)
    for index in range(2):
        out += moves_out(draw, 20 + index)
    return out


def moves_in(draw: st.DrawFn, _: int) -> list[tuple[int, int, int]]:
    ident, cols, rows = draw(st.integers(0, 2)), draw(st.integers(1, 64)), draw(DIMS)
    block = draw(st.integers(rows, 30))
    stride = draw(st.sampled_from([0, 1, 16, 64, 100]))
    config = m.config_ld(stride, draw(SCALES), block, ident, draw(st.integers(0, 1)))
    to_acc = draw(st.booleans())
    address = draw(st.sampled_from([0, INPUT + draw(st.integers(0, 8192))]))
    row = draw(st.integers(0, 128))
    local = m.ACC | draw(st.sampled_from([0, m.ADD])) | row if to_acc else row
    return [config, m.mvin(ident, address, local, cols, rows)]


def products(draw: st.DrawFn, _: int) -> list[tuple[int, int, int]]:
    at, bt = draw(st.sampled_from([(0, 0), (1, 0), (0, 1)]))
    strides = st.integers(1, 3)
    out = [m.config_ex(draw(st.integers(0, 1)), draw(strides), at, bt, draw(strides))]
    for keep in (False, draw(st.booleans())):
        c = draw(st.sampled_from([m.ACC, m.ACC | m.ADD, 0])) | draw(ACC_ROWS)
        b = draw(st.one_of(st.just(m.NONE), SPAD_ROWS))
        a = draw(st.one_of(st.just(m.NONE), SPAD_ROWS))
        d = draw(st.one_of(st.just(m.NONE), SPAD_ROWS, ACC_ROWS.map(lambda r: m.ACC | r)))
        sizes = [draw(DIMS) for _ in range(8)]
        out.append(m.preload(b, draw(st.sampled_from([c, c, m.NONE])), *sizes[:4]))
        out.append(m.compute(a, d, *sizes[4:], keep=keep))
    return out


def moves_out(draw: st.DrawFn, index: int) -> list[tuple[int, int, int]]:
    from_acc, cols, rows = draw(st.booleans()), draw(st.integers(1, 64)), draw(DIMS)
    local = m.ACC | draw(st.sampled_from([0, m.FULL])) if from_acc else 0
    config = m.config_st(draw(st.sampled_from([256, 300])), draw(SCALES), draw(st.integers(0, 1)))
    to = OUTPUT + draw(st.integers(0, 20000))
    return [config, m.mvout(to, local | draw(st.integers(0, 128)), cols, rows)]


@settings(max_examples=150, deadline=None)
@given(commands(), st.integers(0, 2**32 - 1))
def test_random_command_sequences_equal_numpy(
    config: SimConfig, sequence: list[tuple[int, int, int]], seed: int
) -> None:
    data = np.random.default_rng(seed).integers(0, 256, IN_BYTES, dtype=np.uint8)
    memory = np.zeros(OUTPUT - INPUT + OUT_BYTES, np.uint8)
    memory[:IN_BYTES] = data
    model = m.Model(memory, INPUT)
    for command in sequence:
        model.run(*command)
    for timing in (False, True):
        outputs = simulate(config, sequence, data, timing)
        np.testing.assert_array_equal(outputs, memory[OUTPUT - INPUT :])


def simulate(
    config: SimConfig, sequence: list[tuple[int, int, int]], data: object, timing: bool
) -> object:
    elf, table = command_stream([*sequence, (FENCE, 0, 0)])
    regions = [
        Region(TABLE, table, False, "commands"),
        Region(INPUT, data, False, "input"),
        Region(OUTPUT, bytes(OUT_BYTES), True, "output"),
    ]
    result = run_kernel(config, elf, regions, timing=timing, limit_cycles=10**6)
    assert result.status == "ok", result.fault
    return np.frombuffer(result.outputs[2], np.uint8)

"""RV64F and D against exact rational arithmetic, in every rounding mode."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from target.sim import assembler as asm
from target.sim.assembler import A0, A1
from target.sim.exact_floats import DOUBLE, SINGLE, Format, round_to, round_to_integer, square_root
from tilewright.targets.gemmini.sim import Region, SimConfig, SimResult, run_kernel

IN, OUT = 0x9000_0000, 0x9100_0000
INVALID, BY_ZERO, OVERFLOW, UNDERFLOW, INEXACT = 16, 8, 4, 2, 1
MODES = st.integers(0, 3)
DYNAMIC = 7
BOX = 0xFFFFFFFF << 32
NAN_S, NAN_D = 0x7FC00000, 0x7FF8000000000000
FORMATS = {"single": (SINGLE, 0), "double": (DOUBLE, 1)}


def execute(config: SimConfig, code: list[int | bytes], inputs: list[int]) -> SimResult:
    regions = [
        Region(IN, struct.pack(f"<{len(inputs)}Q", *inputs), False, "in"),
        Region(OUT, bytes(16), True, "out"),
    ]
    return run_kernel(config, asm.link([*code, asm.RETURN]), regions, timing=False)


def operate(
    config: SimConfig,
    instruction: int,
    values: list[int],
    *,
    mode: int = 0,
    to_integer: bool = False,
) -> tuple[int, int]:
    """f4 (or x7) and the flags, after an instruction on f1, f2, f3 = values and x5 = values[0]."""
    code: list[int | bytes] = [asm.fld(i + 1, A0, 8 * i) for i in range(len(values))]
    code += [asm.ld(5, A0, 0), asm.i_type(0x73, 5, 0, mode, 2), instruction]
    code += [asm.i_type(0x73, 2, 8, 0, 1), asm.sd(8, A1, 8)]
    code.append(asm.sd(7, A1, 0) if to_integer else asm.fsd(4, A1, 0))
    result = execute(config, code, values)
    assert result.status == "ok", result.fault
    got, flags = struct.unpack("<QQ", result.outputs[1])
    return got, flags


def fp(f5: int, fmt: int, rs2: int = 2, rm: int = DYNAMIC, rd: int = 4, rs1: int = 1) -> int:
    return asm.r_type(0x53, rm, f5 << 2 | fmt, rd, rs1, rs2)


def pack(form: Format, value: float) -> int:
    bits = form.bits(value)
    return bits | BOX if form is SINGLE else bits


def numbers(form: Format) -> st.SearchStrategy[float]:
    width = 32 if form is SINGLE else 64
    plain = st.floats(allow_nan=False, allow_infinity=False, width=width)
    return st.one_of(
        plain, st.sampled_from([0.0, -0.0, 1.0, -1.5, 3.0]), st.integers(-9, 9).map(float)
    )


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=150)
@given(data=st.data(), mode=MODES, operation=st.integers(0, 3))
def test_arithmetic(config: SimConfig, name: str, data: st.DataObject, mode: int, operation: int):
    form, fmt = FORMATS[name]
    a, b = data.draw(numbers(form)), data.draw(numbers(form))
    x, y = Fraction(a), Fraction(b)
    assume(operation != 3 or y != 0)
    exact = [x + y, x - y, x * y, x / y if y else x][operation]
    assume(exact != 0)
    expected = round_to(exact, mode, form)
    got, flags = operate(config, fp(operation, fmt), [pack(form, a), pack(form, b)], mode=mode)
    assert got == pack(form, expected)
    is_exact = math.isfinite(expected) and Fraction(expected) == exact
    assert bool(flags & INEXACT) == (not is_exact)
    largest = Fraction(2) ** (form.greatest + 1)
    if math.isinf(expected) or abs(exact) >= largest:
        assert flags & OVERFLOW
    assert not flags & (INVALID | BY_ZERO)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100)
@given(data=st.data(), mode=MODES, kind=st.integers(0, 3))
def test_fused_multiply_add_rounds_once(
    config: SimConfig, name: str, data: st.DataObject, mode: int, kind: int
) -> None:
    form, fmt = FORMATS[name]
    a, b, c = (data.draw(numbers(form)) for _ in range(3))
    product, addend = Fraction(a) * Fraction(b), Fraction(c)
    exact = [product + addend, product - addend, -product + addend, -product - addend][kind]
    assume(exact != 0)
    opcode = (0x43, 0x47, 0x4B, 0x4F)[kind]
    instruction = asm.r_type(opcode, DYNAMIC, 3 << 2 | fmt, 4, 1, 2)
    got, _ = operate(config, instruction, [pack(form, v) for v in (a, b, c)], mode=mode)
    assert got == pack(form, round_to(exact, mode, form))


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=40)
@given(data=st.data(), mode=MODES)
def test_square_root(config: SimConfig, name: str, data: st.DataObject, mode: int) -> None:
    form, fmt = FORMATS[name]
    a = abs(data.draw(numbers(form)))
    assume(a > 0)
    got, _ = operate(config, fp(0x0B, fmt, rs2=0), [pack(form, a)], mode=mode)
    assert got == pack(form, square_root(Fraction(a), mode, form))


INTEGERS = [(32, True), (32, False), (64, True), (64, False)]


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100)
@given(data=st.data(), mode=st.integers(0, 4), kind=st.integers(0, 3))
def test_conversion_to_integer(
    config: SimConfig, name: str, data: st.DataObject, mode: int, kind: int
) -> None:
    form, fmt = FORMATS[name]
    width, is_signed = INTEGERS[kind]
    near = st.floats(-300, 300, width=32).map(lambda v: round(v * 4) / 4)
    a = data.draw(st.one_of(numbers(form), near))
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if is_signed else (0, (1 << width) - 1)
    rounded = round_to_integer(Fraction(a), mode)
    clipped = min(max(rounded, low), high)
    got, flags = operate(
        config, fp(0x18, fmt, rs2=kind, rd=7, rm=mode), [pack(form, a)], to_integer=True
    )
    sign_extended = clipped - (1 << 32) if width == 32 and clipped >> 31 > 0 else clipped
    assert got == sign_extended & (1 << 64) - 1
    expected = INVALID if clipped != rounded else INEXACT if rounded != a else 0
    assert flags == expected


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=60)
@given(value=st.integers(0, 2**64 - 1), mode=MODES, kind=st.integers(0, 3))
def test_conversion_from_integer(
    config: SimConfig, name: str, value: int, mode: int, kind: int
) -> None:
    form, fmt = FORMATS[name]
    width, is_signed = INTEGERS[kind]
    source = value & (1 << width) - 1
    if is_signed and source >> (width - 1):
        source -= 1 << width
    got, _ = operate(config, fp(0x1A, fmt, rs2=kind, rs1=5), [value], mode=mode)
    assert got == pack(form, round_to(Fraction(source), mode, form))


@settings(max_examples=60)
@given(value=numbers(DOUBLE), mode=MODES)
def test_conversion_between_formats(config: SimConfig, value: float, mode: int) -> None:
    got, _ = operate(config, fp(0x08, 0, rs2=1), [pack(DOUBLE, value)], mode=mode)
    zero = math.copysign(1, value) < 0
    single = round_to(Fraction(value), mode, SINGLE, negative_zero=zero)
    assert got == pack(SINGLE, single)
    back, flags = operate(config, fp(0x08, 1, rs2=0), [got])
    assert (back, flags) == (pack(DOUBLE, single), 0)


def nan(form: Format) -> int:
    return NAN_S | BOX if form is SINGLE else NAN_D


@pytest.mark.parametrize("name", FORMATS)
def test_special_results_and_flags(config: SimConfig, name: str) -> None:
    form, fmt = FORMATS[name]
    one, zero, inf = (pack(form, v) for v in (1.0, 0.0, math.inf))
    minus = pack(form, -1.0)
    assert operate(config, fp(3, fmt), [one, zero]) == (inf, BY_ZERO)
    assert operate(config, fp(3, fmt), [zero, zero]) == (nan(form), INVALID)
    assert operate(config, fp(1, fmt), [inf, inf]) == (nan(form), INVALID)
    assert operate(config, fp(2, fmt), [inf, zero]) == (nan(form), INVALID)
    assert operate(config, fp(0x0B, fmt, rs2=0), [minus]) == (nan(form), INVALID)
    payload = nan(form) | 5
    assert operate(config, fp(0, fmt), [payload, one]) == (nan(form), 0)
    fused = asm.r_type(0x43, DYNAMIC, 3 << 2 | fmt, 4, 1, 2)
    assert operate(config, fused, [inf, zero, nan(form)]) == (nan(form), INVALID)


@pytest.mark.parametrize("name", FORMATS)
def test_minimum_maximum_and_comparisons(config: SimConfig, name: str) -> None:
    form, fmt = FORMATS[name]
    plus, minus, two = (pack(form, v) for v in (0.0, -0.0, 2.0))
    quiet = nan(form)
    signalling = (0x7F800001 | BOX) if form is SINGLE else 0x7FF0000000000001
    least, most = fp(5, fmt, rm=0), fp(5, fmt, rm=1)
    assert operate(config, least, [plus, minus]) == (minus, 0)
    assert operate(config, most, [minus, plus]) == (plus, 0)
    assert operate(config, least, [quiet, two]) == (two, 0)
    assert operate(config, most, [two, signalling]) == (two, INVALID)
    assert operate(config, most, [quiet, quiet]) == (nan(form), 0)
    cases = [(2, plus, minus, 1, 0), (1, plus, two, 1, 0), (0, two, two, 1, 0), (1, two, two, 0, 0)]
    cases += [(2, quiet, two, 0, 0), (2, signalling, two, 0, INVALID)]
    cases += [(1, quiet, two, 0, INVALID), (0, two, quiet, 0, INVALID)]
    for rm, a, b, expected, flags in cases:
        instruction = fp(0x14, fmt, rm=rm, rd=7)
        assert operate(config, instruction, [a, b], to_integer=True) == (expected, flags)


@pytest.mark.parametrize("name", FORMATS)
def test_sign_injection_classes_and_moves(config: SimConfig, name: str) -> None:
    form, fmt = FORMATS[name]
    one, minus = pack(form, 1.0), pack(form, -1.0)
    for rm, a, b, expected in [
        (0, one, minus, minus),
        (1, one, minus, one),
        (2, minus, minus, one),
    ]:
        assert operate(config, fp(4, fmt, rm=rm), [a, b])[0] == expected
    tiny = 2.0 ** (form.least - 1)
    values = [-math.inf, -1.0, -tiny, -0.0, 0.0, tiny, 1.0, math.inf]
    patterns = [pack(form, v) for v in values]
    patterns += [(0x7F800001 | BOX) if form is SINGLE else 0x7FF0000000000001, nan(form)]
    for index, bits in enumerate(patterns):
        classify = fp(0x1C, fmt, rs2=0, rm=1, rd=7)
        assert operate(config, classify, [bits], to_integer=True) == (1 << index, 0)
    to_x = fp(0x1C, fmt, rs2=0, rm=0, rd=7)
    moved = operate(config, to_x, [minus], to_integer=True)[0]
    assert moved == (0xFFFFFFFFBF800000 if form is SINGLE else minus)
    to_f = fp(0x1E, fmt, rs2=0, rm=0, rs1=5)
    assert operate(config, to_f, [0x123456789ABCDEF0])[0] == (
        0x9ABCDEF0 | BOX if form is SINGLE else 0x123456789ABCDEF0
    )


def test_a_single_that_is_not_boxed_is_nan(config: SimConfig) -> None:
    one = SINGLE.bits(1.0)
    assert operate(config, fp(0, 0), [one, one | BOX]) == (NAN_S | BOX, 0)


def test_loads_box_and_stores_do_not_care(config: SimConfig) -> None:
    code: list[int | bytes] = [
        asm.i_type(0x07, 2, 4, A0, 4),
        asm.fsd(4, A1, 0),
        asm.s_type(0x27, 2, A1, 4, 8),
    ]
    result = execute(config, code, [0x40490FDB_00000000])
    assert struct.unpack("<QQ", result.outputs[1]) == (0x40490FDB | BOX, 0x40490FDB)


def test_rounding_to_nearest_away_is_refused_in_arithmetic(config: SimConfig) -> None:
    result = execute(config, [fp(0, 0, rm=4)], [0])
    assert result.fault is not None
    assert result.fault.kind == "illegal_instruction"

"""Products of 8-bit numbers as sums of unsigned by signed bytes."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from c_programs import built, results
from test_loop_reading import needs_gcc
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step
from tilewright.proposers.loops.rewrites.bytes import unsigned_by_signed

HEAD = (
    "void kernel(const int8_t a[4][7], const int8_t b[5][7], const uint8_t u[4][7], "
    "const uint8_t v[7][5], int32_t c[4][5])"
)


def product(term: str, start: str = "0", kind: str = "int") -> str:
    return (
        f"{HEAD} {{ for (int i = 0; i < 4; i++) for (int j = 0; j < 5; j++) {{ "
        f"{kind} sum = {start}; for (int k = 0; k < 7; k++) {{ {term} }} c[i][j] = sum; }} }}"
    )


@pytest.mark.parametrize(
    "source",
    [
        product("sum += a[i][k] * b[j][k];"),
        product("sum += (int32_t)a[i][k] * (int32_t)b[j][k];", "i - j"),
        product("sum = (a[i][k] - 3) * b[j][k] + sum;"),
        product("int x = b[j][k] + 7; sum += (u[i][k] - 131) * x;"),
        product("int16_t x = u[i][k], y = (int)v[k][j] - 128; sum += x * y;"),
        product("sum += u[i][k] * v[k][j];"),
        product("sum += u[i][k] * (b[j][k] + 9);"),
        product("sum += a[i][6 - k] * b[j][k];"),
        product("sum += a[i][k] * b[0][k];"),
        product("int x = a[i][k], y = b[j][k]; sum += (y + (int32_t)-3) * (12 + (x + 1));"),
        product("int16_t x = (int16_t)(a[i][k] + 32640); sum += (x - 32640) * b[j][k];"),
        product("sum += a[2][k] * b[0][k];").replace("j = 0; j < 5", "j = 1; j < 4"),
        product("sum += a[i][k] * b[j][k];").replace("i = 0; i < 4", "i = 1; i < 4"),
    ],
)
def test_sums_of_bytes_have_the_same_results(source: str) -> None:
    start = parse(source)
    kernel = unsigned_by_signed(start, 2)
    assert parse(emit(kernel)) == kernel
    assert "dot_1 = dot_1 + " in emit(kernel)
    for array, expected in outputs(start, 3).items():
        np.testing.assert_array_equal(outputs(kernel, 3)[array], expected)


def test_one_operand_becomes_unsigned_and_sums_make_up_for_it() -> None:
    text = emit(unsigned_by_signed(parse(product("sum += a[i][k] * (b[j][k] - 3);")), 2))
    assert "static _Alignas(64) uint8_t a_1[4][7];" in text
    assert "a_1[at_1][at_2] = a[at_1][at_2] + 128;" in text
    assert "dot_1 = dot_1 + a_1[i][k] * b[j][k];" in text
    assert "sum = sum + (dot_1 - 3 * sums_1[i] - 128 * sums_2[j] + 2688);" in text


@pytest.mark.parametrize(
    "source",
    [
        product("sum += u[i][k] * b[j][k];"),  # the compiler sees the bytes itself
        product("sum += a[i][k] * b[j][k];", kind="int64_t"),
        product("sum += a[i][k] * b[j][k];", kind="float"),
        product("sum += a[i][k] * 3;"),
        product("sum += a[i][k] * c[i][k];"),
        product("sum -= a[i][k] * b[j][k];"),
        product("sum += a[i][k] + b[j][k];"),
        product("sum += a[i][k] * b[j][k]; c[0][k] = k;"),
        product("int8_t x = a[i][k] - 3; sum += x * b[j][k];"),
        product("sum += a[i][b[j][k] & 3] * b[j][k];"),
        product("sum = sum * 2 + a[i][k] * b[j][k];"),
        product("sum += a[i][k] * b[j][k];").replace("k = 0", "k = 1"),
        product("sum += a[i][k] * b[j][k];").replace("const int8_t a", "int8_t a"),
        product("sum += a[i][k] * (b[j][k] + 99999999);"),
        product("int16_t x = (int16_t)(a[i][k] + 32641); sum += (x - 32641) * b[j][k];"),
        product("sum += (3 - a[i][k]) * b[j][k];"),
        product("float x = a[i][k]; sum += x * b[j][k];"),
        product("sum += a[i][k] * b[j][k];").replace("i++", "i += 2"),
    ],
)
def test_other_sums_stay(source: str) -> None:
    with pytest.raises(NotApplicableError):
        unsigned_by_signed(parse(source), 2)


ROWS = (
    "#include <stdint.h>\nvoid kernel(const int8_t m[6][40], const int8_t x[40], int32_t c[6]) { "
    "for (int i = 0; i < 6; i++) { int sum = c[i]; "
    "for (int k = 0; k < 40; k++) TERM c[i] = sum; } }"
)


def test_a_matrix_that_is_read_once_is_not_copied() -> None:
    start = parse(ROWS.replace("TERM", "sum += (x[k] - 7) * m[i][k];"))
    text = emit(unsigned_by_signed(start, 1))
    assert "dot_1 = dot_1 + (uint8_t)(m[i][k] + 128) * x[k];" not in text, "-7 needs sums of m"
    start = parse(ROWS.replace("TERM", "sum += x[k] * (m[i][k] + 9);"))
    text = emit(unsigned_by_signed(start, 1))
    assert "dot_1 = dot_1 + (uint8_t)(m[i][k] + 128) * x[k];" in text
    assert "sum = sum + (dot_1 - 119 * sums_1[0]);" in text
    assert "uint8_t m" not in text
    found = Whole(4, 16, frozenset({"bytes", "jam"})).sequences(start)
    assert ["bytes 1 0", "jam 1 6"] in [[str(s) for s, _ in steps] for steps, _ in found]


@needs_gcc
def test_random_sums_of_bytes_keep_their_results(tmp_path: Path) -> None:
    rng, sources = random.Random(7), {}

    def factor(element: str) -> str:
        number = rng.choice(["1", "-3", "(int32_t)-128", "128", "(int16_t)40", "255"])
        return rng.choice(
            [element, f"({element} + {number})", f"({number} + {element})",
             f"((int32_t){element} - {number})", f"((int16_t)({element} + 2) + {number})"]
        )  # fmt: skip

    for number in range(60):
        kinds = rng.choice(["int8_t", "uint8_t"]), rng.choice(["int8_t", "uint8_t"])
        left, right = factor("m[i][k]"), factor("x[k]")
        left, right = rng.choice([(left, right), (right, left)])
        term = f"sum += {left} * {right};"
        if rng.random() < 0.5:
            term = f"{{ const int p = {left}; int16_t q = {right}; sum += q * p; }}"
        text = ROWS.replace("TERM", term).replace("const int8_t m", f"const {kinds[0]} m")
        text = text.replace("const int8_t x", f"const {kinds[1]} x")
        try:
            made = unsigned_by_signed(parse(text), 1)
        except NotApplicableError:
            continue
        sources |= {f"before_{number}": text, f"after_{number}": emit(made)}
    assert len(sources) > 80
    library = built(sources, tmp_path)
    values = np.random.default_rng(1)
    arrays = [values.integers(0, 256, size).astype(np.uint8) for size in ((6, 40), (40,))]
    arrays[1][:8] = 128, 127, 0, 255, 128, 129, 1, 254
    arrays.append(values.integers(-1000, 1000, 6).astype(np.int32))
    for name in (n for n in sources if n.startswith("after")):
        before = name.replace("after", "before")
        assert results(library, name, arrays) == results(library, before, arrays), sources[before]


def test_sums_of_bytes_are_tried_with_other_sequences() -> None:
    offered = frozenset(TECHNIQUES) - {"share", "interleave", "stage"}
    start = parse(product("sum += a[i][k] * b[j][k];"))
    made = [[str(s) for s, _ in steps] for steps, _ in Whole(4, 16, offered).sequences(start)]
    assert ["bytes 2 0"] in made
    assert ["bytes 2 0", "jam 4 4"] in made
    without = Whole(4, 16, offered - {"bytes"}).sequences(start)
    assert not any("bytes" in str(s) for steps, _ in without for s, _ in steps)
    assert Step("bytes", 2).sentence(start) == (
        "sum products of unsigned and signed bytes in the loop over k (loop 3)"
    )


def test_rows_of_products_that_are_bytes_already_are_computed_at_once() -> None:
    start = parse(product("sum += a[i][k] * b[j][k];").replace("const int8_t a", "const uint8_t a"))
    found = Whole(4, 16, frozenset({"jam"})).sequences(start)
    assert ["jam 0 4"] in [[str(s) for s, _ in steps] for steps, _ in found]
    other = parse(product("sum += a[i][k] * b[k][j];"))
    assert not list(Whole(4, 16, frozenset({"jam"})).sequences(other))

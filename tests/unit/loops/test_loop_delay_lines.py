"""Arrays whose elements a loop shifts are replaced by arrays that stay in place."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from c_programs import HEAD, SIGNATURE, built, random_arrays, results

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.linear import linear, sum_of
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Binary, Kernel, Number, Var, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.delay_lines import without_shifts
from tilewright.proposers.loops.rewrites.roll import roll
from tilewright.proposers.loops.rewrites.vectorise import vectorise

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
FIXTURES = Path(__file__).parents[2] / "fixtures" / "plain_c"
PROGRAMS = 150
BYTES = (384, 384, 96, 384, 384, 64)
"""Sizes of the kernel's arrays."""


def whole(body: str) -> str:
    """A kernel with a body."""
    return f"#include <string.h>\n{HEAD}void kernel{SIGNATURE} {{\n{body}\n}}"


def random_body(rng: random.Random) -> str:
    """A loop that shifts an array in one of many forms, some of which cannot be rewritten."""
    size, up = rng.randint(2, 7), rng.random() < 0.6
    last = size - 1
    kind = rng.choice(["float", "float", "float", "int32_t", "int16_t"])
    number = rng.choice(["P[(n * 3) % 90]", "X[n % 12][2]", "A[n]", "(P[n] * 2.0f)", "in"])
    some = rng.randrange(size)
    shifts = (
        [
            f"memmove(d + 1, d, {last} * sizeof({kind}));",
            f"for (int k = {last}; k > 0; k--) d[k] = d[k - 1];",
            f"for (int k = {last - 1}; k >= 0; k--) d[k + 1] = d[k];",
            f"for (int k = 1; k < {size}; k++) d[k] = d[k - 1];",  # repeats the first element
            f"for (int k = {last}; k > 1; k--) d[k] = d[k - 1];",  # leaves one in place
        ]
        if up
        else [
            f"memmove(d, d + 1, {last} * sizeof(*d));",
            f"for (int k = 0; k < {last}; k++) d[k] = d[k + 1];",
            f"for (int k = {last - 1}; k >= 0; k--) d[k] = d[k + 1];",
            f"for (int k = 0; k < {last - 1}; k++) d[k] = d[k + 1];",
        ]
    )
    vacated = 0 if up else last
    uses = [
        f"for (int k = 0; k < {size}; k++) Q[n] += P[k] * d[k];",
        f"for (int k = 0; k < {size}; k++) Q[n] += P[{last} - k] * d[{last} - k];",
        f"Y[n % 12][1] = d[{some}] - d[{last}];",
        f"H[n & 15] += d[{some}];",
        f"d[{some}] *= 3;",
        f"d[{vacated}] += 1;",
        f"if (d[{some}] > 1) Q[n] = d[0];",
        "Q[n] += in;",
    ]
    fill = rng.choice([f"d[{vacated}] = {number};"] * 6 + [f"d[{vacated}] = Q[n - 1];",
                      f"d[{some}] = {number};", f"if (A[n] > 0) d[{vacated}] = {number};",
                      f"d[{vacated}] = {number} + d[{some}];"])  # fmt: skip
    used = rng.sample(uses, rng.randint(1, 3))
    shift = rng.choice(shifts[:2] * 4 + shifts)
    parts = rng.choice([[shift, fill, *used]] * 3 + [[fill, *used, shift], [*used, shift, fill],
                       [*used[:1], fill, *used[1:], shift], [fill, shift, *used]])  # fmt: skip
    first = rng.choice([f"for (int k = 0; k < {size}; k++) d[k] = {rng.choice(['0', 'P[k]'])};"] * 4
                       + [f"for (int k = {last}; k >= 0; k--) d[k] = k;"])  # fmt: skip
    begin, end = rng.choice([1, 1, 5]), rng.choice([9, 30, 60])
    new = rng.choice(["float in = P[n + 3];"] * 3 + ["int8_t in = A[n] * 3;", "int in = P[n] * 9;"])
    inner = f"for (int n = {begin}; n < {end}; n++) {{ {new} {' '.join(parts)} }}"
    after = rng.choice([""] * 5 + [f"H[3] += d[{some}];"])
    declared = f"{rng.choice(['', '', 'static '])}{kind} d[{size}];"
    if rng.random() < 0.3:
        return f"for (int r = 0; r < 3; r++) {{ {kind} d[{size}]; {first} {inner} {after} }}"
    if rng.random() < 0.3:
        return f"{declared} {first} for (int r = 0; r < 3; r++) {{ {inner} {after} }}"
    return f"{declared} {first} {inner} {after}"


def after_shifts(kernel: Kernel) -> Kernel | None:
    """The kernel without shifts in the first loop in which they can be left out."""
    for number in range(len(loops(kernel))):
        try:
            return without_shifts(kernel, number)
        except NotApplicableError:
            continue
    return None


@needs_gcc
def test_random_loops_keep_their_results(tmp_path: Path) -> None:
    rng = random.Random(11)
    sources: dict[str, str] = {}
    for number in range(PROGRAMS):
        text = whole(random_body(rng))
        after = after_shifts(parse(text, given_bytes=BYTES))
        if after is not None:
            sources |= {f"before_{number}": text, f"after_{number}": emit(after)}
    assert PROGRAMS // 5 < len(sources) // 2 < PROGRAMS
    library = built(sources, tmp_path)
    for name in sources:
        if name.startswith("before"):
            for seed in range(2):
                arrays = random_arrays(seed)
                expected = results(library, name, arrays)
                found = results(library, name.replace("before", "after"), arrays)
                assert found == expected, sources[name]


LINE = "float d[4]; for (int k = 0; k < 4; k++) d[k] = 0;"
SHIFT = "memmove(d + 1, d, 12);"
USE = "for (int k = 0; k < 4; k++) Q[n] += P[k] * d[k];"


@pytest.mark.parametrize(
    "body",
    [
        f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} {USE} d[0] = P[n]; }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} d[0] = P[n] + d[0]; {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} d[1] = P[n]; {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} if (A[n] > 0) d[0] = P[n]; {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ memmove(d + 1, d, 8); d[0] = P[n]; {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ memmove(d + 2, d, 8); d[0] = P[n]; {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} d[0] = P[n]; {USE} }} Q[3] = d[2];",
        f"{LINE} for (int r = 0; r < 2; r++) for (int n = 0; n < 9; n++) {{ {SHIFT} d[0] = P[n]; "
        f"{USE} }}",
        f"static {LINE} for (int r = 0; r < 2; r++) for (int n = 0; n < 9; n++) {{ {SHIFT} "
        f"d[0] = P[n]; {USE} }}",
        f"static float d[4]; d[3] = 0;"
        f" for (int n = 0; n < 9; n++) {{ {SHIFT} d[0] = P[n]; {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ for (int k = 1; k < 4; k++) d[k] = d[k - 1]; "
        f"d[0] = P[n]; {USE} }}",
        f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} {SHIFT} d[0] = P[n]; {USE} }}",
        f"{LINE} for (int n = 0; n < 90; n += 2) {{ {SHIFT} d[0] = P[n]; {USE} }}",
    ],
)
def test_other_shifts_stay(body: str) -> None:
    assert after_shifts(parse(whole(body))) is None


def test_iterations_become_independent() -> None:
    kernel = roll(parse((FIXTURES / "fir_delay.c").read_text()), 1)
    text = emit(kernel)
    assert "static _Alignas(64) float line_1[16416];" in text
    assert "line_1[32 + n] = x[n];" in text
    assert "acc = acc + h[k] * line_1[32 + n - k];" in text
    assert "line[" not in text
    assert vectorise(kernel, 2, 16)


def test_a_result_that_is_shifted_stays_in_the_loop() -> None:
    body = f"{LINE} for (int n = 0; n < 9; n++) {{ {SHIFT} d[0] = P[n]; {USE} d[0] = Q[n]; }}"
    kernel = after_shifts(parse(whole(body)))
    assert kernel is not None
    assert len(loops(kernel)) == 4  # the filling, the new elements, the loop, and the loop in it
    fed_back = f"{LINE} for (int n = 1; n < 9; n++) {{ {SHIFT} d[0] = Q[n - 1]; {USE} }}"
    kernel = after_shifts(parse(whole(fed_back)))
    assert kernel is not None
    assert len(loops(kernel)) == 3


def test_new_elements_are_converted_as_the_variables_that_held_them() -> None:
    body = (
        f"{LINE} for (int n = 0; n < 9; n++) {{ int8_t in = A[n] * 3; {SHIFT} d[0] = in; {USE} }}"
    )
    kernel = after_shifts(parse(whole(body)))
    assert kernel is not None
    assert "d_1[4 + n] = (int8_t)(A[n] * 3);" in emit(kernel)


def test_very_long_arrays_are_not_made() -> None:
    body = f"{LINE} for (int n = 0; n < 5000000; n++) {{ {SHIFT} d[0] = P[0]; H[0] += d[2]; }}"
    assert after_shifts(parse(whole(body))) is None


def test_a_sum_of_terms_has_its_positive_constant_first_and_negative_terms_last() -> None:
    i, n = Var("i"), Var("n")
    expected = Binary("-", Binary("+", Number("3"), n), Binary("*", i, Number("2")))
    assert sum_of({i: -2, n: 1}, 3) == expected
    for terms, offset in (({i: -2, n: 1}, -5), ({i: -1}, 0), ({}, -4), ({}, 0)):
        assert linear(sum_of(terms, offset)) == (terms, offset)

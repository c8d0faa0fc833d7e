"""The estimate that orders complete plans of plain C kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.proposers.loops.analysis.changes import array_types
from tilewright.proposers.loops.analysis.recurrences import Types, longest_chain
from tilewright.proposers.loops.compiled_time import compiled_time
from tilewright.proposers.loops.ir import Declare, loops, statements
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import TECHNIQUES

FIXTURES = Path(__file__).parents[2] / "fixtures" / "plain_c"
HEAD = (
    "void kernel(const float X[64][64], float Y[64][64], const int8_t A[4096], "
    "const uint8_t B[4096], const int Z[4096], int H[256])"
)


def cycles(body: str) -> float:
    return compiled_time(parse(f"#include <math.h>\n#include <stdint.h>\n{HEAD} {{ {body} }}"), 64)


def chain(body: str) -> float:
    kernel = parse(f"{HEAD} {{ {body} }}")
    variables = {s.name: s.type for s in statements(kernel.body) if isinstance(s, Declare)}
    return longest_chain(loops(kernel)[-1], Types(array_types(kernel), variables))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("for (int i = 0; i < 64; i++) Y[0][i] = X[0][i] * 2.0f;", 0),
        ("float s = 0; for (int i = 0; i < 64; i++) s += X[0][i] * X[1][i];", 4),
        ("int s = 0; for (int i = 0; i < 64; i++) s += A[i] * B[i];", 1),
        ("int s = 1; for (int i = 0; i < 64; i++) s = s * 5 + A[i];", 4),
        ("float s = 1; for (int i = 0; i < 64; i++) s = X[0][i] / s;", 12),
        ("float s = 0, lost = 0; for (int i = 0; i < 64; i++) { float y = X[0][i] - lost; "
         "float t = s + y; lost = (t - s) - y; s = t; }", 16),
        ("for (int i = 0; i < 64; i++) H[B[i]] += 1;", 5),
        ("for (int i = 0; i < 64; i++) { int b = B[i]; H[b] += 1; H[b + 1] += 1; }", 10),
    ],
)  # fmt: skip
def test_the_longest_chain_to_the_next_iteration_is_found(body: str, expected: float) -> None:
    assert chain(body) == expected


SUM = "{0} s = 0; for (int i = 0; i < 4096; i++) s += {1}; H[0] = s;"
EACH = "for (int i = 0; i < 64; i++) for (int j = 0; j < 64; j++) Y[{0}] = {1};"


@pytest.mark.parametrize(
    ("shorter", "longer"),
    [
        # chains of floats, and values that are read while they are summed
        (EACH.format("i][j", "X[i][j]"), SUM.format("float", "X[0][i & 63]")),
        (
            "int s = 0; for (int i = 0; i < 256; i++) { s += Z[i]; H[i] = Z[i]; }",
            "int s = 0; for (int i = 0; i < 256; i++) { s += Z[i]; H[i] = s; }",
        ),
        (SUM.format("float", "X[0][i & 63] / 3"), SUM.format("float", "X[0][i & 63] / s")),
        # products of bytes, which have an instruction
        (SUM.format("int", "A[i] * B[i]"), SUM.format("int", "A[i] * A[i]")),
        # elements of a column, functions, divisions
        (EACH.format("i][j", "X[i][j]"), EACH.format("i][j", "X[j][i]")),
        (EACH.format("i][j", "sqrtf(X[i][j])"), EACH.format("i][j", "expf(X[i][j])")),
        (EACH.format("i][j", "X[i][j] * X[i][j]"), EACH.format("i][j", "X[i][j] / X[i][j]")),
    ],
)
def test_loops_that_a_compiler_makes_vectors_of_take_less_time(shorter: str, longer: str) -> None:
    assert 1.2 * cycles(shorter) < cycles(longer)


def test_short_loops_inside_do_not_prevent_vectors() -> None:
    taps = "for (int i = 0; i < 60; i++) { float s = 0; for (int t = 0; t < 4; t++) s += X[t][i]; "
    assert (
        cycles(taps + "Y[0][i] = s; }")
        < cycles(taps.replace("t < 4", "t < 8") + "Y[0][i] = s; }") / 3
    )


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("cross_entropy", "vectorise"), ("depthwise_padded", "vectorise"), ("int8_dots", "bytes"),
        ("rope_llama", "vectorise"), ("edit_distance", "pack"), ("mlp_tanh", "jam"),
        ("argmax_rows", "accumulators"), ("stencil7_3d", "vectorise"),
    ],
)  # fmt: skip
def test_the_plan_that_measurements_show_to_be_fast_comes_first(name: str, first: str) -> None:
    """In each of these kernels, another complete plan takes at least 1.6 times as long."""
    kernel = parse((FIXTURES / f"{name}.c").read_text())
    offered = frozenset(TECHNIQUES) - {"share", "interleave", "stage"}
    steps, _ = next(Whole(16, 32, offered).sequences(kernel))
    assert first in {step.technique for step, _ in steps}
    assert first == "pack" or "lanes" not in {step.technique for step, _ in steps}

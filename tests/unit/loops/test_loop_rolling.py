"""Loops that were unrolled by hand are rolled."""

from __future__ import annotations

import pytest

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Kernel, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.rewrites.roll import roll

HEAD = "void kernel(const float X[64], const float Y[64], float Z[64], const int8_t *A)"
ALL = frozenset({"vectorise", "accumulators", "roll"})


def kernel_of(body: str) -> Kernel:
    return parse(f"#include <stdint.h>\n#include <math.h>\n{HEAD} {{ {body} }}")


def body_of(kernel: Kernel) -> str:
    assert parse(emit(kernel)) == kernel
    text = emit(kernel)
    return " ".join(text[text.index("void kernel") :].split("{", 1)[1].rsplit("}", 1)[0].split())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("for (int i = 0; i < 64; i += 2) { Z[i] = X[i] * Y[i]; Z[i + 1] = X[i + 1] * Y[i + 1]; }",
         "for (int i = 0; i < 64; i++) { Z[i + 0] = X[i + 0] * Y[i + 0]; }".replace(" + 0", "")),
        ("for (int i = 0; i < 64; i += 4) { float a = X[i], b = X[i + 2]; "
         "Z[i] = a * a; Z[i + 2] = b * b; }",
         "for (int i = 0; i < 64; i += 2) { Z[i] = X[i] * X[i]; }"),
        ("for (int i = 0; i < 64; i += 2) { float a = Z[i], b = Z[i + 1]; "
         "Z[i] = a * a; Z[i + 1] = b * b; }",
         "for (int i = 0; i < 64; i++) { Z[i] = Z[i] * Z[i]; }"),
        ("float s = 0.0f, t = 0.0f; for (int i = 0; i < 64; i += 2) "
         "{ s += X[i] * Y[i]; t += X[i + 1] * Y[i + 1]; } Z[0] = s + t;",
         "float s = 0.0f; float t = 0.0f; for (int i = 0; i < 64; i++) "
         "{ s = s + X[i] * Y[i]; } Z[0] = s + t;"),
        ("float s = 0.0f; for (int i = 0; i < 64; i += 3) s += X[i] + X[i + 1] + X[i + 2];",
         "float s = 0.0f; for (int i = 0; i < 66; i++) { s = s + X[i]; }"),
        ("float s = 1.0f, t = 1.0f; for (int i = 0; i < 64; i += 2) { Z[i] = X[i]; "
         "Z[i + 1] = X[i + 1]; s = fmaxf(s, X[i]); t = fmaxf(t, X[i + 1]); } Z[0] = s + t;",
         "float s = 1.0f; float t = 1.0f; for (int i = 0; i < 64; i++) "
         "{ Z[i] = X[i]; s = fmaxf(s, X[i]); } Z[0] = s + t;"),
        ("float s = 0, t = 0; for (int i = 0; i < 8; i++) { s += A[4 * i + 16] * A[8 * i]; "
         "t += A[4 * i + 18] * A[8 * i + 4]; } Z[0] = s + t;",
         "float s = 0; float t = 0; for (int i = 0; i < 32; i += 2) "
         "{ s = s + A[i + 16] * A[i * 2]; } Z[0] = s + t;"),
        ("int s = 0; for (int i = 0; i < 32; i += 2) s += A[i] * A[i + 1] + A[i + 1] * A[i + 2];",
         "int s = 0; for (int i = 0; i < 32; i++) { s = s + A[i] * A[i + 1]; }"),
    ],
)  # fmt: skip
def test_copies_become_iterations(before: str, after: str) -> None:
    assert body_of(roll(kernel_of(before), 0)) == after


@pytest.mark.parametrize(
    "body",
    [
        "for (int i = 0; i < 64; i++) { Z[i] = X[i]; Z[i] = Y[i]; }",  # of one iteration
        "for (int i = 0; i < 32; i++) { Z[2 * i] = X[i]; Z[2 * i + 1] = X[i + 1]; }",
        "for (int i = 0; i < 32; i++) { Z[2 * i] = i; Z[2 * i + 1] = i; }",
        "for (int i = 0; i < 64; i += 2) { Z[i] = X[i]; Z[i + 1] = Y[i + 1]; }",
        "for (int i = 0; i < 64; i += 2) { Z[i] = X[i]; Z[i + 1] = X[i]; }",
        "for (int i = 0; i < 62; i += 2) { Z[i] = X[i]; Z[i + 1] = X[i + 2]; }",
        "for (int i = 0; i < 64; i += 2) { Z[i] = X[i] * 2.0f; Z[i + 1] = X[i + 1] * 3.0f; }",
        "for (int i = 0; i < 64; i += 2) { Z[i] = X[i] + Y[i]; Z[i + 1] = X[i + 1] - Y[i + 1]; }",
        "for (int i = 0; i < 64; i += 2) { Z[i] = sqrtf(X[i]); Z[i + 1] = expf(X[i + 1]); }",
        "for (int i = 0; i < 64; i += 2) { Z[i] = (float)i; Z[i + 1] = (float)(i + 1); }",
        # What a variable was made of has changed, or may have changed.
        "for (int i = 0; i < 64; i += 2) { float a = Z[i], b = Z[i]; "
        "Z[i] = a * a; Z[i + 1] = b * b; }",
        "for (int i = 0; i < 62; i += 2) { float a = Z[i + 1], b = Z[i + 2]; "
        "Z[i + 1] = a * 2.0f; Z[i] = a * a; Z[i + 2] = b * 2.0f; Z[i + 1] = b * b; }",
        "int n = A[0]; for (int i = 0; i < 64; i += 2) { float a = Z[i + n], b = Z[i + n + 1]; "
        "Z[i] = a * a; Z[i + 1] = b * b; }",
        # What a sum is multiplied with, or another statement reads, is no plain sum.
        "float s = 0, t = 0; for (int i = 0; i < 64; i += 2) { s = s * X[i]; t = t * X[i + 1]; }",
        "float s = 0, t = 0; for (int i = 0; i < 64; i += 2) { s += X[i]; t += X[i + 1] * s; }",
        "float s = 0, t = 0; for (int i = 0; i < 64; i += 2) { s += X[i]; t += X[i + 1]; "
        "Z[i] = s; Z[i + 1] = t; }",
        "float s = 0; for (int i = 0; i < 64; i += 2) { s += X[i]; s += X[i + 1]; "
        "Z[i] = s; Z[i + 1] = s; }",
        # The order in which the copies write and read.
        "for (int i = 0; i < 60; i += 2) { Z[i] = Z[i + 3]; Z[i + 1] = Z[i + 4]; X2; }".replace(
            "X2", "Z[i + 4] = X[i]; Z[i + 5] = X[i + 1]"
        ),
        "for (int i = 0; i < 60; i += 2) { float a = Z[i + 2], b = Z[i + 3]; Z[i + 3] = a; "
        "Z[i + 4] = b; }",
        "float s = 0; for (int i = 0; i < 60; i += 2) { float a = s; s += X[i]; s += X[i + 1]; "
        "Z[i] = a; Z[i + 1] = a; }",
    ],
)
def test_what_is_no_copy_of_another_iteration_stays(body: str) -> None:
    with pytest.raises(NotApplicableError):
        roll(kernel_of(body), 0)


def test_whole_sequences_roll_first() -> None:
    unrolled = (
        "double s = 0.0; for (int i = 0; i < 64; i += 2) { s += X[i]; s += X[i + 1]; "
        "Z[i] = X[i]; Z[i + 1] = X[i + 1]; } Z[0] = (float)s;"
    )
    found = [
        [step.technique for step, _ in steps]
        for steps, _ in Whole(16, 32, ALL).sequences(kernel_of(unrolled))
    ]
    assert ["roll"] in found
    assert all(techniques[0] == "roll" for techniques in found)
    assert [loop.step for loop in loops(kernel_of(unrolled))] == [2]

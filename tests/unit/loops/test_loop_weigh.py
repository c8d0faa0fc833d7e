"""Sums of running sums are computed with weights, with the same results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from c_programs import HEAD, SIGNATURE, built, random_arrays, results

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.steps import Step

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


def kernel_of(body: str) -> str:
    """A kernel with a body, and with unsigned sums of two types."""
    return (
        f"{HEAD}void kernel{SIGNATURE} {{ uint32_t a = H[0], b = H[1]; uint64_t c = H[2], d = 5; "
        f"int j; {body} H[0] = a; H[1] = b; H[2] = c; H[3] = d >> 3; H[4] = d; }}"
    )


@needs_gcc
@pytest.mark.parametrize(
    "body",
    [
        "for (j = 0; j < 90; j++) { a += A[j]; b += a; }",
        "for (j = 5; j < 7; j++) { b += a; a += A[j] * 40503u; }",
        "for (j = 3; j < 90; j++) { c += A[j]; d += c; }",
        "for (j = 0; j < 16; j++) { d += c; c = c + (A[j + 1] & 0xf); }",
        "for (j = 0; j < 88; j += 2) { a += A[j]; b += a; a += A[j + 1]; b += a; }",
        "for (j = 0; j < 22; j++) { b += a; a += A[4 * j]; b += a; a += A[4 * j + 1]; b += a; "
        "a += A[4 * j + 2]; b += a; a += A[4 * j + 3]; }",
        "for (j = 0; j < 16; j++) { a += (uint64_t)A[j] << 31; b += a; }",
    ],
)
def test_sums_with_weights_keep_their_results(body: str, tmp_path: Path) -> None:
    text = kernel_of(body)
    after = Step("weigh", 0).apply(parse(text))
    library = built({"before": text, "after": emit(after)}, tmp_path)
    assert parse(emit(after)) == after
    for seed in range(3):
        arrays = random_arrays(seed)
        assert results(library, "before", arrays) == results(library, "after", arrays)


@pytest.mark.parametrize(
    "body",
    [
        "for (j = 0; j < 9; j++) { a += A[j]; c += a; }",
        "int s = 0, t = 1; for (j = 0; j < 9; j++) { s += A[j]; t += s; } H[5] = t;",
        "for (j = 0; j < 9; j++) { a += (uint32_t)P[j] + P[j]; b += a; }",
        "for (j = 0; j < 9; j++) { a += A[j] ^ b; b += a; }",
        "for (j = 0; j < 9; j++) { a += A[j] ^ a; b += a; }",
        "for (j = 0; j < 9; j++) { a -= A[j]; b += a; }",
        "for (j = 0; j < 9; j++) { a += A[j]; b += a; H[j] = b; }",
        "for (j = 0; j < 9; j++) { a += A[j]; b ^= a; }",
        "for (j = 0; j < 9; j += 2) { a += A[j]; b += a; }",
        "for (j = 0; j < 9; j++) { a += a; a += a; }",
        "for (j = 0; j < 88; j += 2) { a += A[j]; b += a; b += A[j + 1]; a += b; }",
        "for (j = 0; j < 88; j += 2) { a += A[j]; b += a; a += A[j + 2]; b += a; }",
        "for (j = 0; j < 88; j += 2) { a += A[j]; b += a; for (int i = 0; i < 3; i++) H[i] = 0; "
        "a += A[j + 1]; b += a; }",
        "uint32_t e = 0, f = 0; for (j = 0; j < 88; j += 2) { a += A[j]; b += a; e += A[j + 1]; "
        "f += e; } H[8] = e; H[9] = f;",
    ],
)
def test_other_sums_stay(body: str) -> None:
    assert Step("weigh", 0).applied(parse(kernel_of(body))) is None

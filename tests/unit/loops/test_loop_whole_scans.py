"""Running sums of whole numbers on vectors."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from c_programs import built, results
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = (
    "void kernel(const int32_t X[39], const int8_t A[39], const float F[39], int32_t Y[40], "
    "uint32_t U[39], int64_t L[39], int32_t T[3])"
)
SCANS = {
    "inclusive": "int s = 3; for (int i = 0; i < 39; i++) { s += X[i]; Y[i] = s; }",
    "exclusive": "int s = 3; for (int i = 0; i < 39; i++) { Y[i] = s; s += X[i]; }",
    "subtracted": "int32_t s = 3; for (int i = 0; i < 39; i++) { Y[i] = s; s -= X[i]; L[i] = s; }",
    "unsigned": "uint32_t s = 3; for (int i = 0; i < 39; i++) { s += X[i]; U[i] = s * 3u; }",
    "of_conditions": "int s = 0; for (int i = 0; i < 39; i++) { s += A[i] > 3; Y[i] = s; }",
    "computed": "int s = 0; for (int i = 2; i < 39; i++) { int v = A[i] * X[i - 2]; int w = v + i; "
    "int old = s; s += w; Y[i] = s + v; L[i] = old; }",
    "long": "int64_t s = 3; for (int i = 0; i < 39; i++) { s += X[i]; L[i] = s * 3; }",
    "long_before": "uint64_t s = 3; for (int i = 0; i < 39; i++) { L[i] = s; s -= X[i]; }",
    "short": "int16_t s = 3; for (int i = 0; i < 39; i++) { s += X[i]; Y[i] = s; }",
    "bytes": "uint8_t s = 3; for (int i = 0; i < 39; i++) { Y[i] = s; s = (uint8_t)(s + A[i]); "
    "U[i] = s; }",
    "in_place": "int s = 0; for (int i = 0; i < 39; i++) { s += Y[i]; Y[i] = s; }",
    "first_and_last": "int s = 2; for (int i = 0; i < 39; i++) { Y[i] = s; s += X[i]; "
    "U[i] = s - 1 + X[i]; }",
    "unsigned_of_signed": "uint32_t s = 7; for (int i = 1; i < 38; i++) { U[i] = s + X[i - 1]; "
    "s += X[i + 1]; Y[i] = (int)s; }",
    "read_after_it_is_written": "int s = 5; for (int i = 0; i < 39; i++) { s += X[i]; Y[i] = s; "
    "U[i] = Y[i] + s; }",
    "read_before_it_is_written": "int s = 5; for (int i = 0; i < 39; i++) { s += Y[i]; "
    "U[i] = Y[i] - s; Y[i] = s; }",
    "of_each_second": "int s = 5; for (int i = 0; i < 19; i++) { s += X[2 * i]; Y[i] = s; }",
    "to_each_second": "int s = 5; for (int i = 0; i < 19; i++) { s += X[i]; Y[2 * i] = s; }",
    "backwards": "int s = 5; for (int i = 0; i < 39; i++) { s += X[38 - i]; Y[38 - i] = s; }",
    "floats_besides": "int s = 1; for (int i = 0; i < 39; i++) { s += X[i]; L[i] = s; "
    "Y[i] = F[i] > 0.5f ? s : 0; }",
}


def source_of(scan: str) -> str:
    return f"#include <stdint.h>\n{HEAD} {{ {scan} T[0] = s; }}"


@pytest.mark.parametrize("lanes", [4, 8])
@pytest.mark.parametrize("name", SCANS)
def test_running_sums_of_whole_numbers_are_kept(name: str, lanes: int) -> None:
    start = parse(source_of(SCANS[name]))
    kernel = vectorise(start, 0, lanes)
    assert parse(emit(kernel)) == kernel
    assert "_running(" in emit(kernel)
    for array, expected in outputs(start, 5).items():
        np.testing.assert_array_equal(outputs(kernel, 5)[array], expected)


def test_sums_side_by_side_are_stored_as_vectors() -> None:
    text = emit(vectorise(parse(source_of(SCANS["first_and_last"])), 0, 8))
    assert "vf lanes_1 = v_bits_running(*(const vf *)&X[i]);" in text
    assert "*(vf *)&Y[i] = v_bits_minus(sums_1, *(const vf *)&X[i]);" in text
    assert "part_1" not in text
    assert "for (int n_1" not in text
    of_bytes = SCANS["inclusive"].replace("X[i]", "A[i]")
    text = emit(vectorise(parse(source_of(of_bytes)), 0, 8))
    assert "part_1[n_1] = A[i + n_1];" in text
    assert "*(vf *)&Y[i] = sums_1;" in text


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
def test_sums_begin_again_at_zero_as_in_the_loop_before(tmp_path: Path) -> None:
    """Over all numbers of 32 bits; the compiler is told that those with a sign do so as well."""
    sources = {}
    for name, scan in SCANS.items():
        start = parse(source_of(scan))
        sources |= {f"start_{name}": emit(start), f"few_{name}": emit(vectorise(start, 0, 4))}
        sources[f"many_{name}"] = emit(vectorise(start, 0, 16))
    library = built(sources, tmp_path)
    rng = np.random.default_rng(2)
    whole = rng.integers(-(1 << 31), 1 << 31, 40).astype(np.int32)
    arrays = [
        whole[:39].copy(), rng.integers(-128, 128, 39).astype(np.int8),
        rng.random(39).astype(np.float32), whole, np.zeros(39, np.uint32), np.zeros(39, np.int64),
        np.zeros(3, np.int32),
    ]  # fmt: skip
    for name in SCANS:
        expected = results(library, f"start_{name}", arrays)
        assert results(library, f"few_{name}", arrays) == expected, name
        assert results(library, f"many_{name}", arrays) == expected, name


@pytest.mark.parametrize(
    "scan",
    [
        "int s = 1; for (int i = 0; i < 39; i++) { s += s * X[i]; Y[i] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { int v = s + X[i]; s += v; Y[i] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { s = X[i] - s; Y[i] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { s ^= X[i]; Y[i] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { if (X[i] > 0) s += 2; Y[i] = s; }",
        # Fractions are cut off after each addition.
        "int s = 1; for (int i = 0; i < 39; i++) { s += 0.6f; Y[i] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { s += F[i]; Y[i] = s; }",
        # Summands that an iteration before, or the same one, writes.
        "int s = 1; for (int i = 0; i < 39; i++) { s += Y[i]; Y[i + 1] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { Y[i] = X[i]; s += Y[i]; L[i] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { s += X[i]; Y[s & 31] = i; }",
        # More is carried.
        "int s = 1, t = 0; for (int i = 0; i < 39; i++) { s += X[i]; t = s; Y[i] = t; } Y[39] = t;",
        # A double that is read before it grows would be rounded once more.
        "double s = 1; for (int i = 0; i < 39; i++) { L[i] = s; s += X[i]; }",
        # What is cut off to another type is another sum.
        "int s = 1; for (int i = 0; i < 39; i++) { s = (int16_t)(s + X[i]); Y[i] = s; }",
        "int s = 1; for (int i = 0; i < 39; i++) { s += X[i]; "
        "for (int k = 0; k < 2; k++) Y[i] += s; }",
        "int s = 1; for (int i = 0; i < 3; i++) { s += X[i]; Y[i] = s; }",
    ],
)
def test_what_is_more_than_a_running_sum_stays(scan: str) -> None:
    with pytest.raises(NotApplicableError):
        vectorise(parse(source_of(scan)), 0, 4)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
def test_running_sums_of_doubles(tmp_path: Path) -> None:
    head = "void kernel(const float F[39], const double D[39], double S[40])"
    scans = {
        "of_doubles": "double s = 0.5; for (int i = 0; i < 39; i++) { s += D[i]; S[i] = s; }",
        "of_floats": "double s = 1; for (int i = 0; i < 39; i++) { s -= F[i] * D[i]; S[i] = s; }",
    }
    sources = {}
    for name, scan in scans.items():
        start = parse(f"{head} {{ {scan} S[39] = s; }}")
        kernel = vectorise(start, 0, 16)
        assert parse(emit(kernel)) == kernel
        for array, expected in outputs(start, 5).items():
            np.testing.assert_allclose(outputs(kernel, 5)[array], expected, rtol=1e-12)
        sources |= {f"start_{name}": emit(start), f"many_{name}": emit(kernel)}
    library = built(sources, tmp_path)
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal(39).astype(np.float32), rng.standard_normal(39), np.zeros(40)]
    for name in scans:
        expected, found = (
            np.frombuffer(results(library, f"{kind}_{name}", arrays)[2])
            for kind in ("start", "many")
        )
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)

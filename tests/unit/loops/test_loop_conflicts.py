"""Loops over triangles: which iterations touch the same elements, and rewrites of such loops."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest
from c_programs import built, results

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.steps import Step, steps_of

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
COVARIANCE = (
    "void kernel(const double D[20][37], double C[37][37]) { for (int i = 0; i < 37; i++) "
    "for (int j = i; j < 37; j++) { C[i][j] = 0.0; for (int k = 0; k < 20; k++) "
    "C[i][j] += D[k][i] * D[k][j]; C[j][i] = C[i][j]; } }"
)
CHOLESKY = (
    "void kernel(double *a) { for (int j = 0; j < 40; j++) for (int i = j + 1; i < 40; i++) { "
    "double t = a[i + j * 40]; for (int k = 0; k < j; k++) t -= a[i + k * 40] * a[j + k * 40]; "
    "a[i + j * 40] = t * 0.001; } }"
)
RED_BLACK = (
    "void kernel(float *u) { for (int i = 1; i < 9; i++) for (int j = 1 + i % 2; j < 30; j += 2) "
    "u[i * 32 + j] = u[i * 32 + j - 1] + u[i * 32 + j + 1]; }"
)


def is_independent(source: str, number: int) -> bool:
    kernel = parse(source)
    try:
        require_independent(loops(kernel)[number], kernel)
    except NotApplicableError:
        return False
    return True


@pytest.mark.parametrize(
    ("source", "number", "independent"),
    [
        (COVARIANCE, 0, True),
        (COVARIANCE, 1, True),
        (COVARIANCE, 2, False),
        (CHOLESKY, 0, False),
        (CHOLESKY, 1, True),
        (RED_BLACK, 1, True),
        (RED_BLACK.replace("j += 2", "j += 1"), 1, False),
        (COVARIANCE.replace("C[j][i] = C[i][j]", "C[36 - j][i] = C[i][j]"), 1, False),
        (COVARIANCE.replace("j = i;", "j = 0;"), 0, False),
        ("void kernel(int *A) { int n = 0; for (int i = 0; i < 9; i++) { n = (n * 3 + 5) % 64; "
         "A[i * 9 + n] = i; } }", 0, False),
        ("typedef float vf __attribute__((vector_size(16)));\nvoid kernel(float A[40][64]) { "
         "for (int i = 0; i < 9; i++) for (int j = i; j < 32; j += 2) "
         "*(vf *)&A[3][j + i] = *(vf *)&A[4][j]; }", 1, False),
    ],
)  # fmt: skip
def test_bounds_of_loops_show_which_iterations_meet(
    source: str, number: int, independent: bool
) -> None:
    assert is_independent(source, number) == independent


def triangle(rng: random.Random) -> str:
    """Nested loops over a triangle that read and write one array."""
    start = rng.choice(["0", "i", "i + 1", "i + 2", "3"])
    end = rng.choice(["i", "i + 1", "20", "18", "i + 3"])
    places = ["i][j", "j][i", "i][j + 1", "j + 1][i", "i + 1][j", "j][j", "i][19 - j", "i][i",
              "2][j", "j][3", "i][2 * i", "19 - i][j"]  # fmt: skip
    flat = rng.random() < 0.4
    one, *others = (f"A[{p}]" for p in rng.sample(places, 3))
    if flat:
        one, *others = (f"A[{a}]" for a in rng.sample(
            ["i * 64 + j", "j * 64 + i", "i * 64 + i", "j * 64 + 5", "i * 64 + j + 1", "i + j",
             "2 * i + 64 * j"], 3))  # fmt: skip
    value = rng.choice([f"{others[0]} + {others[1]}", f"{others[0]} + B[j]", f"{one} + B[i] * B[j]",
                        f"{one} + {others[0]} * B[i]"])  # fmt: skip
    step = rng.choice(["j++", "j++", "j++", "j += 2"])
    inner = f"{one} = {value};"
    if rng.random() < 0.3:
        inner = f"for (int k = 0; k < 5; k++) {one} += B[k] * B[j];"
    kind = "int32_t *A" if flat else "int32_t A[64][64]"
    return (
        f"#include <stdint.h>\nvoid kernel({kind}, const int32_t B[64]) {{\n"
        f"  for (int i = 0; i < 20; i++) for (int j = {start}; j < {end}; {step}) "
        f"{{ {inner} }}\n}}\n"
    )


@needs_gcc
@pytest.mark.parametrize("seed", range(2))
def test_rewrites_of_triangles_keep_their_results(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    sources: dict[str, str] = {}
    changed = 0
    for number in range(60):
        text = triangle(rng)
        kernel = parse(text)
        sources[f"before_{number}"] = text
        for way, technique in enumerate(("lanes", "keep", "jam", "exchange")):
            for step, after in [*steps_of(kernel, technique, 8)][:3]:
                if step.factor in (0, 2, 8):
                    sources[f"after_{number}_{way}{step.loop}"] = emit(after)
                    changed += 1
    assert changed >= 40
    library = built(sources, tmp_path)
    draws = np.random.default_rng(seed)
    arrays = [draws.integers(-9, 9, n).astype(np.int32) for n in (64 * 64, 64)]
    for name in (n for n in sources if n.startswith("after")):
        before = f"before_{name.split('_')[1]}"
        assert results(library, before, arrays) == results(library, name, arrays), (
            f"{sources[before]}\n{sources[name]}"
        )


@needs_gcc
@pytest.mark.parametrize(
    ("source", "steps"),
    [(COVARIANCE, "keep 2 0; lanes 1 8"), (CHOLESKY, "lanes 1 8")],
)
def test_triangles_run_side_by_side(source: str, steps: str, tmp_path: Path) -> None:
    kernel = parse(source)
    for step in steps.split("; "):
        kernel = Step.parse(step).apply(kernel)
    assert parse(emit(kernel)) == parse(emit(parse(emit(kernel))))
    library = built({"before": source, "after": emit(kernel)}, tmp_path)
    arrays = [np.random.default_rng(1).standard_normal(2000) for _ in range(2)]
    before, after = (results(library, way, arrays) for way in ("before", "after"))
    for one, other in zip(before, after, strict=True):
        np.testing.assert_allclose(np.frombuffer(other), np.frombuffer(one), rtol=1e-9)


@pytest.mark.parametrize(("first", "kept"), [("0", False), ("i", False), ("i + 1", True)])
def test_an_element_is_kept_only_if_nothing_else_touches_it(first: str, kept: bool) -> None:
    kernel = parse(
        "void kernel(float A[20][20]) { for (int i = 0; i < 20; i++) "
        f"for (int j = {first}; j < 20; j++) {{ A[i][i] += A[i][j]; A[j][i] = 1.0f; }} }}"
    )
    assert (Step("keep", 1).applied(kernel) is not None) == kept


def test_elements_of_an_array_that_a_loop_declares_are_not_kept_around_the_loop() -> None:
    kernel = parse(
        "void kernel(float X[20]) { for (int i = 0; i < 20; i++) { float w[2]; w[0] = X[i]; "
        "X[i] = w[0] * w[0]; } }"
    )
    assert Step("keep", 0).applied(kernel) is None

"""Variables that a source declares before the loops that use them."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from c_programs import HEAD, SIGNATURE, built, random_arrays, results

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import Declare, For, loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.vectorise import vectorise

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
PROGRAMS = 120
BYTES = (384, 384, 96, 384, 384, 64)


def whole(body: str) -> str:
    """A kernel with a body."""
    return f"{HEAD}void kernel{SIGNATURE} {{\n{body}\n}}"


def random_statements(rng: random.Random, depth: int, index: str) -> str:
    """Statements that set and read `t` and `u`, which are declared at the top."""
    made = []
    for _ in range(rng.randint(1, 4)):
        name, other = rng.sample(["t", "u"], 2)
        number = rng.choice([f"P[{index}]", f"X[{index} % 12][2]", f"(float)A[{index}]", "0.5f"])
        choice = rng.randrange(8 if depth < 3 else 6)
        if choice < 2:
            made.append(f"{name} = {number};")
        elif choice == 2:
            made.append(f"{name} += {number};")
        elif choice == 3:
            made.append(f"Q[{index}] += {name} * {number};")
        elif choice == 4:
            made.append(f"if ({number} > 0.1f) {name} = {other}; else H[3] += 1;")
        elif choice == 5:
            made.append(f"{name} = {other} * 0.5f + {name};")
        else:
            inner = f"i{depth}"
            begin, end = rng.choice([(0, 5), (0, 1), (2, 9), (0, "(A[0] & 3)"), (3, 3)])
            made.append(
                f"for (int {inner} = {begin}; {inner} < {end}; {inner}++) "
                f"{{ {random_statements(rng, depth + 1, inner)} }}"
            )
    return " ".join(made)


@needs_gcc
def test_random_programs_keep_their_results(tmp_path: Path) -> None:
    rng = random.Random(5)
    sources: dict[str, str] = {}
    moved = 0
    for number in range(PROGRAMS):
        first = rng.choice(["float t = 1.0f, u = 2.0f;", "float t, u; t = 3.0f; u = P[1];"])
        loops_text = " ".join(
            f"for (int i = 0; i < {rng.choice([4, 12])}; i++) "
            f"{{ {random_statements(rng, 1, 'i')} }}"
            for _ in range(rng.randint(1, 3))
        )
        last = rng.choice(["", "", "H[2] += (int)t;", "Q[3] = u; t = 2.0f;"])
        text = whole(f"{first} {loops_text} {last}")
        kernel = parse(text, given_bytes=BYTES)
        moved += any(isinstance(s, Declare) for loop in loops(kernel) for s in loop.body)
        sources |= {f"before_{number}": text, f"after_{number}": emit(kernel)}
    assert moved > PROGRAMS // 3
    library = built(sources, tmp_path)
    for number in range(PROGRAMS):
        arrays = random_arrays(number)
        expected = results(library, f"before_{number}", arrays)
        assert results(library, f"after_{number}", arrays) == expected, sources[f"before_{number}"]


def test_loops_with_variables_of_the_function_become_vectors() -> None:
    text = emit(
        vectorise(
            parse(
                "void kernel(const float *x, const float *b, float *y) { int i, j; float t, s; "
                "for (i = 0; i < 64; i++) { s = 0.0f; for (j = 0; j < 64; j++) { "
                "t = x[i * 64 + j] + b[j]; y[i * 64 + j] = t / (1. + expf(-1.702 * t)); "
                "s += t; } y[i * 64] = s; } }"
            ),
            1,
            16,
        )
    )
    assert "v_exp(" in text


@pytest.mark.parametrize(
    "body",
    [
        "float t = 0; for (i = 0; i < 8; i++) { Q[i] = t; t = P[i]; }",
        "float t = 0; for (i = 0; i < 8; i++) { t = P[i]; Q[i] = t; } Q[9] = t;",
        "float t = 0; for (i = 0; i < 8; i++) { if (P[i] > 0) t = P[i]; Q[i] = t; }",
        "float t = 0; for (i = 0; i < 8; i++) { for (j = 0; j < (A[i] & 3); j++) t = P[j]; "
        "Q[i] = t; }",
        "float t = 0; for (i = 0; i < 8; i++) { t = P[i] * t; Q[i] = t; }",
        "float t = 0; for (i = 0; i < 8; i++) { for (j = 0; j < 2; j++) { Q[j] += t; t = P[j]; } }",
    ],
)
def test_values_that_are_needed_later_are_kept(body: str) -> None:
    kernel = parse(whole(f"int i, j; {body}"), given_bytes=BYTES)
    names = [s.name for loop in loops(kernel) for s in loop.body if isinstance(s, Declare)]
    assert not any(name.startswith("t") for name in names)


def test_loops_that_share_a_variable_get_one_each() -> None:
    kernel = parse(
        whole(
            "int i; float t; for (i = 0; i < 8; i++) { t = P[i]; Q[i] = t * t; } t = P[0]; "
            "for (i = 0; i < 8; i++) Q[i] += t; for (i = 0; i < 8; i++) { t = Q[i]; Q[i] = t; }"
        ),
        given_bytes=BYTES,
    )
    names = [s.name for loop in loops(kernel) for s in loop.body if isinstance(s, Declare)]
    assert names == ["t_1", "t_2"]
    assert [s.name for s in kernel.body if isinstance(s, Declare)] == ["t"]
    assert sum(isinstance(s, For) for s in kernel.body) == 3

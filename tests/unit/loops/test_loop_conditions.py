"""What conditions say about the whole numbers under them, and null pointers in conditions."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from c_programs import built, results
from test_loop_reading import body_of, needs_gcc

from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError

HEAD = "#include <stdint.h>\n#include <stddef.h>\n"
ADD = "static void add(float *to, const float *by, int n) { for (int i = 0; i < n; i++) "
STATE = (
    "typedef struct { int n; const float *from; float *to; } state;\n"
    "static void run(const state *s) { for (int i = 0; i < s->n; i++) s->to[i] = s->from[i]; }\n"
)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("for (unsigned i = 0; i < 64; i++) if (i >= 4) { unsigned k = i - 4; X[i] = Y[k]; }",
         "for (int i = 0; i < 64; i++) { X[i] = (uint32_t)i >= 4 ? Y[i - 4] : X[i]; }"),
        ("for (size_t i = 0; i < 64; i++) X[i] = i > 0 && 1 ? Y[i - 1] : Y[0];",
         "for (int i = 0; i < 64; i++) "
         "{ X[i] = ((uint64_t)i > 0) && 1 ? Y[i - 1] : Y[0]; }"),
        ("for (unsigned i = 0; i < 64; i++) { if (i < 1) continue; X[i] = Y[i - 1]; }",
         "for (int i = 0; i < 64; i++) { X[i] = (uint32_t)i < 1 == 0 ? Y[i - 1] : X[i]; }"),
        ("for (unsigned i = 0; i < 64; i++) { if (i < 1 || i > 60) continue; X[i] = Y[i - 1]; }",
         "for (int i = 0; i < 64; i++) { X[i] = ((uint32_t)i < 1 || (uint32_t)i > 60) == 0 ? "
         "Y[i - 1] : X[i]; }"),
        ("for (int i = 0; i < 9; i++) X[i] = Y[i < 5 ? i : 5];",
         "for (int i = 0; i < 9; i++) { X[i] = Y[i < 5 ? i : 5]; }"),
        ("for (unsigned i = 9; i >= 2; i--) X[i] = Y[i];",
         "for (int i = 0; i < 8; i++) { X[9 - i] = Y[9 - i]; }"),
        ("for (unsigned i = 8; i >= 1; i -= 2) X[i] = Y[i];",
         "for (int i = 0; i < 4; i++) { X[8 - i * 2] = Y[8 - i * 2]; }"),
    ],
)  # fmt: skip
def test_conditions_narrow_ranges(written: str, read: str) -> None:
    assert body_of(f"{HEAD}void kernel(float X[64], const float Y[64]) {{ {written} }}") == read


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("for (unsigned i = 0; i < 64; i++) X[i] = Y[i - 1];", "leaves the range"),
        ("for (int i = 0; i < 64; i++) if (Y[i] > 3) X[i * i] = Y[i];", "condition fails"),
        ("for (int i = 0; i < 64; i++) for (int j = 0; j < 2; j++) "
         "if (i + j < 64) X[i + j] = Y[i];", "condition fails"),
        ("for (unsigned i = 0; i < 64; i++) if (i > 3 || Y[i] > 0) X[i] = Y[i - 4];",
         "leaves the range"),
        ("for (unsigned i = 0; i < 64; i++) if (!(i > 3 && Y[i] > 0)) X[i] = Y[3 - i];",
         "leaves the range"),
        ("for (int i = -3; i < 9; i++) if (i > 2u) { unsigned k = i - 3; X[k & 7] = 1; }", "fit"),
        ("for (unsigned i = 0; i < 8; i++) if (i >= 4) for (unsigned j = i - 4; j < 4; j++) "
         "X[j] = 1.0f;", "j may be negative"),
        ("for (int i = 0; i < 64; i++) if (i < 2) { int k = i * 2000000000; X[i] = k; }", "range"),
        ("for (unsigned i = 9; i >= 1 - 1; i--) X[i] = Y[i];", "always holds"),
        ("for (unsigned i = 9; i >= 1; i -= 2) X[i] = Y[i];", "i may be negative"),
    ],
)  # fmt: skip
def test_what_holds_only_under_conditions_is_not_used_elsewhere(written: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        parse(f"{HEAD}void kernel(float X[64], const float Y[64]) {{ {written} }}")


@pytest.mark.parametrize(
    ("parameter", "element", "kept"),
    [
        ("Y[64]", "Y[i]", "float v_1 = Y[i];"),
        ("Y[64]", "Y[i + 1]", "float v_1 = holds ? Y[i + 1] : 0;"),
        ("Y[64]", "Y[i - 1]", "float v_1 = holds ? Y[i - 1] : 0;"),
        ("*Y", "Y[i]", "float v_1 = holds ? Y[i] : 0;"),
    ],
)
def test_an_element_that_exists_in_any_case_is_read_in_any_case(
    parameter: str, element: str, kept: str
) -> None:
    text = emit(
        parse(
            f"void kernel(const float {parameter}, float X[64]) {{ for (int i = 0; i < 64; i++) "
            f"{{ if (X[i] < 1) continue; float v = {element}; X[i] += v; X[i] *= v; }} }}"
        )
    )
    assert kept in text


PAIRS = [
    ("i >= 4", "i - 4"), ("i > 2u", "i - 3"), ("!(i < 4)", "i - 4"), ("i < 8", "8 - i"),
    ("i >= j", "i - j"), ("!(j > i)", "i - j"), ("i + j >= 5", "i + j - 5"), ("i - j > -1", "3"),
    ("2 * i >= 6 && j", "2 * i - 6"), ("9 - i > 1", "8 - i"), ("!(i < 3 || j > 4)", "i - 3"),
    ("i == 5 && j < 4", "i - 5"), ("T[j] > 3 && i > 0", "i - 1"), ("i > 2", "i * 3 - 7"),
]  # fmt: skip
"""Conditions, and values that are not negative under them for many types of the variables."""


def random_conditions(rng: random.Random) -> str:
    """A loop over whole numbers of some type, with values that are computed under conditions."""
    kinds = ["int", "unsigned", "size_t", "uint8_t", "long", "short"]
    kind, local = rng.choice(kinds), rng.choice(kinds)

    def pair() -> tuple[str, str]:
        (test, value), (other, more) = rng.choice(PAIRS), rng.choice(PAIRS)
        form = rng.choice(["{0}", "{0}", "({0}) && ({1})", "({0}) || ({1})", "!({0})", "{1}"])
        return form.format(test, other), rng.choice([value, value, value, more, "i"])

    def block(deep: int = 0) -> str:
        name, (test, value) = f"k{rng.randrange(10**6)}", pair()
        if rng.random() < 0.4:
            value = "({} ? {} : {})".format(*pair(), rng.choice(["2", "i"]))
        inner = block(deep + 1) if deep < 2 and rng.random() < 0.4 else ""
        other = f" else {{ {block(deep + 1)} }}" if rng.random() < 0.3 and deep < 2 else ""
        loop = rng.choice(
            ["", "", f"for (int t = {name}; t < 9; t++) H[(t + 40) & 63] += 2;",
             f"for ({local} t = {name}; t < 12; t++) H[t & 63] += T[(t + 5) & 15];"]
        )  # fmt: skip
        return (
            f"if ({test}) {{ const {local} {name} = {value}; "
            f"H[({name} + 7) & 63] += {rng.choice(['i + 1', f'T[{name} & 15]', name])}; "
            f"if ({name} < {rng.choice(['3', '4u', 'j'])}) H[1] -= 5; {loop} {inner} }}{other}\n"
        )

    first = rng.choice([0, 0, 2, -3] if kind in ("int", "long", "short") else [0, 1])
    return (
        f"{HEAD}void kernel(int32_t H[64], const int32_t T[16]) {{\n"
        f"  for ({kind} i = {first}; i < {rng.choice([5, 12])}; i++)\n"
        f"  for ({rng.choice(kinds)} j = 0; j < 6; j++) {{\n{block()}{block()}  }}\n}}\n"
    )


@pytest.mark.slow
@needs_gcc
def test_values_under_random_conditions_keep_their_results(tmp_path: Path) -> None:
    rng = random.Random(11)
    sources: dict[str, str] = {}
    for number in range(300):
        text = random_conditions(rng)
        try:
            sources[f"after_{number}"] = emit(parse(text))
        except UnsupportedError:
            continue
        sources[f"before_{number}"] = text
    library = built(sources, tmp_path)
    assert len(sources) > 100
    table = np.arange(16, dtype=np.int32) * 3
    for name in (n for n in sources if n.startswith("after")):
        before, numbers = name.replace("after", "before"), [np.zeros(64, np.int32), table]
        assert results(library, name, numbers) == results(library, before, numbers), sources[before]


def test_pointers_are_compared_with_null() -> None:
    source = (
        f"{ADD}if (by) to[i] += by[i]; else if (n && !by) to[i] = 0; }}\n"
        "void kernel(float *X, const float *Y) { add(X, Y, 4); add(X, NULL, 4); "
        "if (X != NULL) X[8] = 1.0f; if (Y == 0) X[9] = 2.0f; }"
    )
    assert body_of(source) == (
        "for (int i = 0; i < 4; i++) { X[i] = X[i] + Y[i]; } "
        "for (int i = 0; i < 4; i++) { X[i] = 0; } X[8] = 1.0f;"
    )
    with pytest.raises(UnsupportedError, match="different arrays"):
        parse("void kernel(float *X, float *Y) { if (X == Y) X[0] = 1.0f; }")


def test_fields_of_structures_may_be_set_after_their_declaration() -> None:
    use = "state s; ; s.from = Y; s.n = 4; s.to = X + 2; run(&s); X[0] = s.n;"
    assert body_of(f"{STATE}void kernel(float *X, const float *Y) {{ {use} }}") == (
        "for (int i = 0; i < 4; i++) { X[2 + i] = Y[i]; } X[0] = 4;"
    )


@pytest.mark.parametrize(
    ("use", "says"),
    [
        ("state s; s.to = X; s.n = 4; run(&s);", "does not match|is not an array|points nowhere"),
        ("state s; s.n = 4; s.from = Y; s.to = X; run(&s); s.to = X + 4;", "with pointers"),
        ("state s; s.n = 4; s.from = Y; s.to = X; if (Y[0] > 0) { s.to = X + 4; } run(&s);",
         "with pointers"),
        ("state s; s.n = 4; s.from = Y; s.to = X; for (int i = 0; i < 4; i++) { run(&s); s.to++; }",
         "with pointers"),
        ("state s, *p = &s; p->to = X; s.n = 4; s.from = Y; run(&s);", "with pointers"),
    ],
)  # fmt: skip
def test_fields_that_change_are_not_first_values(use: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        parse(f"{STATE}void kernel(float *X, const float *Y) {{ {use} }}")


@pytest.mark.parametrize(
    "pragma", ["scop", "GCC ivdep", "unroll(4)", "clang loop vectorize(enable)"]
)
def test_pragmas_that_only_give_hints_are_ignored(pragma: str) -> None:
    source = (
        f"void kernel(float X[8]) {{\n#pragma {pragma}\n"
        "  for (int i = 0; i < 8; i++) X[i] = 0.0f;\n}"
    )
    assert body_of(source) == "for (int i = 0; i < 8; i++) { X[i] = 0.0f; }"

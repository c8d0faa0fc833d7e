"""Loops that are split while they are read, because an element exists only under a condition."""

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

HEAD = "#include <stdint.h>\nvoid kernel(float *X, const float *Y)"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("for (int i = 0; i < 8; i++) { X[i] = 1; if (i < 2) X[i + 9] = Y[i]; }",
         "for (int i = 0; i < 2; i++) { X[i] = 1; X[i + 9] = Y[i]; } "
         "for (int i = 2; i < 8; i++) { X[i] = 1; }"),
        ("for (int i = 0; i < 8; i++) { if (i < 1) continue; X[i - 1] = Y[i]; }",
         "for (int i = 0; i < 1; i++) { } for (int i = 1; i < 8; i++) { X[i - 1] = Y[i]; }"),
        ("for (int i = 0; i < 8; i++) if (i == 3) X[i + 9] = Y[i]; else X[i] = 0;",
         "for (int i = 0; i < 3; i++) { X[i] = 0; } for (int i = 3; i < 4; i++) { X[i + 9] = Y[i]; "
         "} for (int i = 4; i < 8; i++) { X[i] = 0; }"),
        ("for (int i = 0; i < 8; i += 3) if (i > 1) X[i - 2] = Y[i];",
         "for (int i = 0; i < 3; i += 3) { } for (int i = 3; i < 9; i += 3) { X[i - 2] = Y[i]; }"),
    ],
)  # fmt: skip
def test_a_loop_is_split_where_a_condition_changes(written: str, read: str) -> None:
    assert body_of(f"{HEAD} {{ {written} }}") == read


def test_no_more_than_eight_places() -> None:
    tests = " ".join(f"if (i == {2 * n}) X[i + 100] = {n};" for n in range(1, 9))
    with pytest.raises(UnsupportedError, match="condition fails"):
        parse(f"{HEAD} {{ for (int i = 0; i < 64; i++) {{ {tests} }} }}")


CONDITIONS = ("{v} < {n}", "{v} >= {n}", "{v} == {n}", "!({v} > {n})", "{n} <= {v}")


def random_cuts(rng: random.Random) -> str:
    """Nested loops that write some elements only under conditions on the loops' variables."""

    def test() -> str:
        form = rng.choice(CONDITIONS)
        return form.format(v=rng.choice("ij"), n=rng.randrange(6))

    def line() -> str:
        element = rng.choice(["X[i]", "X[j + 8]", "X[i * 8 + j]", "X[count + 40]"])
        value = rng.choice(["Y[i]", "Y[j] + X[i]", "Y[7 - j]", "i * j"])
        other = " else { X[j] -= 2; }" if rng.random() < 0.3 else ""
        return f"if ({test()}) {{ {element} += {value}; }}{other}"

    skip = f"if ({test()}) continue;" if rng.random() < 0.4 else ""
    count = "count++;" if rng.random() < 0.5 else ""
    head = rng.choice(
        ["int j = 0; j < 6; j++", "int j = 5; j >= 0; j--", "int j = 1; j < 8; j += 2"]
    )
    return (
        f"{HEAD} {{ int count = 0; for (int i = 0; i < 8; i++) {{ {count} "
        f"for ({head}) {{ {line()} {skip} {line()} }} }} }}"
    )


@needs_gcc
def test_split_loops_compute_the_same(tmp_path: Path) -> None:
    rng = random.Random(5)
    sources: dict[str, str] = {}
    for number in range(60):
        source = random_cuts(rng)
        try:
            sources[f"after_{number}"] = emit(parse(source))
        except UnsupportedError:
            continue
        sources[f"before_{number}"] = source
    assert len(sources) > 30
    library, values = built(sources, tmp_path), np.random.default_rng(2)
    arrays = [values.integers(-9, 9, 128).astype(np.float32) for _ in range(2)]
    for before in (n for n in sources if n.startswith("before")):
        after = before.replace("before", "after")
        assert results(library, after, arrays) == results(library, before, arrays), sources[before]

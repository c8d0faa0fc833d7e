"""Running maxima and minima, whose lanes are compared with all earlier lanes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from c_programs import built, results
from hypothesis import given, settings
from hypothesis import strategies as st
from test_loop_rewrites import outputs

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.rewrites.vectorise import vectorise

HEAD = "void kernel(const float X[37], float Y[37], float Z[37])"
RUNNING = [
    "m = X[i] > m ? X[i] : m; Y[i] = m;",
    "m = fmaxf(m, X[i] * 2.0f); Y[i] = m - X[i];",
    "if (X[i] < m) m = X[i]; Y[i] = m; Z[i] = m + 1.0f;",
    "m = fminf(X[i], m); Y[i] = m;",
    "float v = X[i] - 1.0f; if (v >= m) m = v; s += v; Y[i] = m; Z[i] = s;",
]
OTHER = [
    "Y[i] = m; m = X[i] > m ? X[i] : m;",  # it is read before it changes
    "m = X[i] > m ? X[i] : m; Y[i] = m; m = fmaxf(m, Z[i]);",  # it changes twice
    "m = X[i] > m ? X[i] * 2.0f : m; Y[i] = m;",  # what is kept is not what is compared
    "m = fmaxf(m, m * X[i]); Y[i] = m;",
]


def kernel_of(body: str, count: int = 37) -> str:
    loop = f"for (int i = 1; i < {count}; i++) {{ {body} }}"
    return f"{HEAD} {{ float m = X[0], s = 0.0f; {loop} Z[0] = m; }}"


@pytest.mark.parametrize("body", RUNNING)
@pytest.mark.parametrize("count", [5, 9, 17, 36, 37])
def test_running_extremes_are_kept(body: str, count: int) -> None:
    start = parse(kernel_of(body, count))
    kernel = vectorise(start, 0, 4)
    assert parse(emit(kernel)) == kernel
    assert "v_running_" in emit(kernel)
    for array, expected in outputs(start, 4).items():
        np.testing.assert_allclose(outputs(kernel, 4)[array], expected, rtol=1e-12)


@pytest.mark.parametrize("body", OTHER)
def test_what_is_no_running_extreme_stays(body: str) -> None:
    with pytest.raises(NotApplicableError):
        vectorise(parse(kernel_of(body)), 0, 4)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
def test_what_is_not_a_number_is_never_the_largest(tmp_path: Path) -> None:
    source = kernel_of(RUNNING[0])
    fast = emit(vectorise(parse(source), 0, 4))
    library = built({"plain": source, "fast": fast}, tmp_path)
    drawn = st.lists(
        st.sampled_from([0.0, 1.0, -2.0, 5.0, np.nan, np.inf]), min_size=37, max_size=37
    )

    @settings(max_examples=60, deadline=None)
    @given(drawn)
    def same(values: list[float]) -> None:
        arrays = [np.array(values, np.float32), np.zeros(37, np.float32), np.zeros(37, np.float32)]
        one, other = (b"".join(results(library, name, arrays)) for name in ("plain", "fast"))
        np.testing.assert_array_equal(
            np.frombuffer(one, np.float32), np.frombuffer(other, np.float32)
        )

    same()

"""Loops whose bounds depend on data, as in products with sparse matrices."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from c_programs import built, results

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.ir import loops
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step, possible

HEAD = (
    "#include <stdint.h>\n"
    "void kernel(const int p[9], const int c[64], const float v[64], float y[8])"
)
ROWS = "for (int i = 0; i < 8; i++) {{ float s = 0.0f; {0} y[i] = s; }}"
SUM = "s += v[j] * v[c[j]];"
ROW = "for (int j = p[i]; j < p[i + 1]; j++)"
STYLES = [
    f"for (int j = p[i]; j < p[i + 1]; j++) {SUM}",
    f"int j; for (j = p[i]; j < p[i + 1]; j += 1) {SUM}",
    f"const int b = p[i], e = p[i + 1]; for (int j = b; j < e; ++j) {{ {SUM} }}",
    f"for (int64_t j = p[i], e = p[i + 1]; j < e; j++) {SUM}".replace("int64_t", "int32_t"),
    f"for (int64_t j = p[i]; j < p[i + 1]; j++) {SUM}",
    "int n = p[i]; for (int j = 0; j < n; j++) { float w = v[j]; s = s + w; }",
    f"for (int j = p[i] + 1; j < p[i + 1] - 1; j++) {SUM}",
    "for (int j = p[i]; j < p[i + 1]; j++) { int n = 0; if (v[j] > 0.0f) n++; s += v[j] * n; }",
    f"for (int j = p[i]; j <= p[i + 1] - 1; j++) {SUM}",
    f"for (unsigned j = p[i]; j < p[i + 1]; j++) {SUM}",
    f"const unsigned b = p[i], e = p[i + 1]; for (unsigned j = b; j < e; ++j) {SUM}",
    "for (uint64_t j = p[i], e = p[i + 1]; j < e; j++) { const unsigned n = c[j]; s += v[n]; }",
    f"int64_t e = p[i]; for (int j = 0; j < e; j++) {SUM}",
    # several passes over one row, as in a softmax
    f"float w = 0.0f; for (int j = p[i]; j < p[i + 1]; j++) w += v[j]; {ROW} s += (v[j] - w) * w;",
    f"{ROW} s = s < v[j] ? v[j] : s; {ROW} s += v[j] * v[j]; {ROW} s += v[c[j]];",
    "for (int j = p[i], e = p[i + 1]; j < e; j++) s += v[j]; "
    "for (int j = p[i], e = p[i + 1]; j < e; j++) s += v[c[j]];",
]


def kernel_of(rows: str) -> str:
    return f"{HEAD} {{ {ROWS.format(rows)} }}"


def data() -> list[np.ndarray]:
    rng = np.random.default_rng(2)
    # an empty row, a row that ends before it begins, and rows of many lengths
    places = np.array([0, 3, 3, 20, 11, 12, 14, 40, 64], np.int32)
    columns = rng.integers(0, 64, 64).astype(np.int32)
    values = rng.standard_normal(64).astype(np.float32)
    return [places, columns, values, np.zeros(8, np.float32)]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
@pytest.mark.parametrize("rows", STYLES)
def test_rows_of_any_length_are_summed(rows: str, tmp_path: Path) -> None:
    kernel = parse(kernel_of(rows))
    numbers = [n for n, loop in enumerate(loops(kernel)) if loop.limits is not None]
    ways = {"before": kernel_of(rows), "read": emit(kernel)}
    steps = [Step("accumulators", number, copies) for number in numbers for copies in (2, 4, 8)]
    steps += [Step("lanes", number, lanes) for number in numbers for lanes in (8, 16)]
    for step in steps:
        after = step.apply(kernel)
        ways[f"{step}".replace(" ", "_")] = emit(after)
        again = parse(emit(after))
        assert parse(emit(again)) == again
    library = built(ways, tmp_path)
    expected = np.frombuffer(results(library, "before", data())[3], np.float32)
    assert expected.any()
    assert results(library, "read", data()) == results(library, "before", data())
    for name in ways:
        found = np.frombuffer(results(library, name, data())[3], np.float32)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5, err_msg=ways[name])


def test_the_first_plan_sums_each_row_in_lanes() -> None:
    kernel = parse(kernel_of(STYLES[0]))
    steps, after = next(Whole(16, 30, frozenset(TECHNIQUES)).sequences(kernel))
    assert [str(step) for step, _ in steps] == ["lanes 1 8"]
    assert [loop.step for loop in loops(after) if loop.limits is not None] == [8]


def test_lanes_beyond_the_end_of_a_row_do_nothing() -> None:
    """Neither do they read, nor do they write; what other lanes write, they would overwrite."""
    after = Step("lanes", 1, 8).apply(parse(kernel_of(STYLES[0])))
    assert "j + lane_1 < j_end ? s_1[lane_1] + v[" in emit(after)
    for row in ("y[j & 7] = v[j];", "y[j] = y[j + 20];", "float z[2]; z[0] = v[j]; s += z[0];"):
        kernel = parse(kernel_of(f"for (int j = p[i]; j < p[i + 1]; j++) {{ {row} }}"))
        with pytest.raises(NotApplicableError, match="sums of single values"):
            Step("lanes", 1, 8).apply(kernel)


def test_other_rewrites_leave_the_whole_nest_as_it_is() -> None:
    """They would take the example of the number of iterations for the number itself."""
    inner = "for (int j = p[i]; j < p[i + 1]; j++) for (int k = 0; k < 8; k++) y[k] += v[j];"
    kernel = parse(f"{HEAD} {{ for (int i = 0; i < 8; i++) {{ {inner} }} }}")
    steps = [s for technique in TECHNIQUES for s in possible(kernel, technique, 4, threads=2)]
    assert len(steps) > 40
    for step in steps:
        with pytest.raises(NotApplicableError):
            step.apply(kernel)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (f"for (int j = p[i]; j != p[i + 1]; j++) {SUM}", "count up with <"),
        (f"for (int j = p[i + 1]; j < p[i]; j--) {SUM}", "count up with <"),
        (f"for (int j = p[i]; j < p[i + 1]; j++) {{ {SUM} j++; }}", "the loop.s body changes j"),
        (f"int e = p[i]; for (int j = 0; j < e; j++) {{ {SUM} e--; }}", "changes its own limit"),
        ("for (unsigned j = p[i]; j < p[i + 1]; j++) s += j;", "not used in subscripts only"),
        ("for (size_t j = p[i]; j < p[i + 1]; j++) if (s > 2.0f) s += v[j];",
         "not used in subscripts only"),
        ("for (size_t j = p[i]; j < p[i + 1]; j++) s += v[j / 2];", "not used in subscripts only"),
        (f"for (uint8_t j = p[i]; j < p[i + 1]; j++) {SUM}", "not integers of 32 or 64 bits"),
        (f"if (v[i] > 0.0f) for (int j = p[i]; j < p[i + 1]; j++) {SUM}", "under a condition"),
        ("int o[1]; o[0] = p[i]; for (int j = 0; j < o[0]; j++) { o[0] = o[0] - 1; s += v[j]; }",
         "changes its own limit"),
        ("int o[1]; o[0] = p[i]; int *q = o; for (int j = 0; j < *q + 1; j++) { o[0]--; s++; }",
         "changes its own limit"),
        ("int n = p[i]; for (int j = 0; j < n * 2; j++) { s += v[j]; n--; }",
         "changes its own limit"),
        ("int n = p[i]; for (int j = 0; j < n + 1; j++) { if (v[j] > 2.0f) n = n - 1; s += v[j]; }",
         "changes its own limit"),
        ("int n = p[i], j; for (j = n, n = 5; j < p[i + 1]; j++) s += v[j];",
         "the first value of j depends on what the head changes after it"),
        ("const float *w = v; for (int j = p[i]; j < p[i + 1]; j++) s += *w++;", "w is changed"),
        (f"int j; for (j = p[i]; j < p[i + 1]; j++) {SUM} y[0] = j;", "value of j after"),
    ],
)  # fmt: skip
def test_other_loops_over_data_are_named(rows: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        parse(kernel_of(rows))


WIDE = "#include <stdint.h>\nvoid kernel(const {0} p[9], const float v[64], float y[8])"


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
@pytest.mark.parametrize("loop", ["{0} j = p[i]; j < p[i + 1]", "int j = p[i]; j <= p[i + 1]"])
@pytest.mark.parametrize("kind", ["uint32_t", "int64_t", "uint64_t"])
def test_limits_that_no_int_holds_are_compared_in_their_own_type(
    kind: str, loop: str, tmp_path: Path
) -> None:
    rows = ROWS.format(f"for ({loop.format(kind)}; j++) s += v[j];")
    source = f"{WIDE.format(kind)} {{ {rows} }}"
    kernel = parse(source)
    lanes = Step("lanes", 1, 8).apply(kernel)
    library = built({"before": source, "read": emit(kernel), "lanes": emit(lanes)}, tmp_path)
    places = np.array([3, 9, 5, 7, 40, 2, 64, 4, 1], np.uint64)
    if "int j" not in loop:  # the first row is empty, but would not be with ends of type int
        places[0] = np.iinfo(np.uint32).max if kind == "uint32_t" else 1 << 40
    values = np.random.default_rng(1).integers(-9, 9, 64).astype(np.float32)
    arrays = [places.astype(kind.removesuffix("_t")), values, np.zeros(8, np.float32)]
    for name in ("read", "lanes"):
        assert results(library, name, arrays) == results(library, "before", arrays)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler for this machine")
@pytest.mark.parametrize(
    "rows",
    [
        "int b = p[i]; for (int j = b; j < p[i + 1]; j++) { b += 2; s += v[j]; } s += b;",
        "int o[1]; o[0] = p[i]; for (int j = o[0]; j < 64; j++) { o[0] = 3; s++; } s += o[0];",
    ],
)
def test_the_first_value_is_computed_once(rows: str, tmp_path: Path) -> None:
    read = emit(parse(kernel_of(rows)))
    assert "for (int j = j_first; j < " in read
    library = built({"before": kernel_of(rows), "read": read}, tmp_path)
    assert results(library, "read", data()) == results(library, "before", data())


@pytest.mark.parametrize(("count", "is_read"), [("8", True), ("0", False), ("p[0]", False)])
def test_an_element_that_a_loop_inside_reads_is_read_if_the_loop_runs(
    count: str, is_read: bool
) -> None:
    inner = f"for (unsigned k = 0; k < {count}; k++) s += v[j] * v[k];"
    source = kernel_of(f"for (unsigned j = p[i]; j < p[i + 1]; j++) {{ s += 1.0f; {inner} }}")
    if is_read:
        assert loops(parse(source))[1].limits is not None
        return
    with pytest.raises(UnsupportedError):
        parse(source)


def test_threads_do_not_share_loops_over_data() -> None:
    pragma = "\n#pragma omp parallel for num_threads(2)\n"
    with pytest.raises(UnsupportedError, match="it contains a loop whose bounds depend on data"):
        parse(f"{HEAD} {{ {pragma} {ROWS.format(STYLES[0])} }}")


def test_the_variable_of_a_loop_may_be_set_under_a_condition() -> None:
    body = "int i; if (v[0] > 1.0f) { for (i = 0; i < 8; i++) y[i] = 0.0f; }"
    text = emit(parse(f"{HEAD} {{ {body} }}"))
    assert "for (int i = 0; i < 8; i++)" in text
    assert "y[i] = holds ? 0.0f : y[i];" in text
    with pytest.raises(UnsupportedError):
        parse(f"{HEAD} {{ {body} y[i - 8] = 1.0f; }}")

"""The array computes maxima that the core takes of results that are not negative."""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import indent

import pytest

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.data import (
    Comparison,
    Data,
    Element,
    Greatest,
    Undecided,
    chosen,
    narrowed,
)
from tilewright.proposers.rewriter.raising.execute import NotRaised
from tilewright.proposers.rewriter.raising.maxima import Maxima, Maximum
from tilewright.proposers.rewriter.raising.memory_order import MemoryOrder
from tilewright.proposers.rewriter.raising.own_arrays import Fillings
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.raising.translation.parts import SPACING

PAIRS = """for (int i = 0; i < 16; i++)
  for (int j = 0; j < 20; j++) {
    int8_t most = T[2 * i][j];
    if (T[2 * i + 1][j] > most) most = T[2 * i + 1][j];
    C[i][j] = most;
  }
"""


def pooled(core: str = PAIRS, activation: str = "RELU", after: str = "") -> str:
    """A product whose results the core compares."""
    return f"""
static int8_t T[32][20];
void kernel(const int8_t A[32][16], const int8_t B[16][20], int8_t C[16][20]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 16, 0);
  config_ld(20, 1.0f, 16, 1);
  config_st(20, 0.25f, {activation});
  for (int i = 0; i < 32; i += 16) {{
    mvin(&A[i][0], SPAD(0), 16, 16);
    mvin2(&B[0][0], SPAD(64), 20, 16);
    preload(SPAD(64), ACC(0), 16, 16, 16, 16);
    compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
    preload(SPAD(80), ACC(16), 4, 16, 4, 16);
    compute_preloaded(SPAD(0), NONE, 16, 16, 4, 16);
    mvout(&T[i][0], ACC(0), 20, 16);
  }}
  fence();
{indent(core, "  ")}{after}}}
"""


@pytest.mark.parametrize(
    "change",
    [
        ("if (T[2 * i + 1][j] > most) most = T[2 * i + 1][j];",
         "most = most < T[2 * i + 1][j] ? T[2 * i + 1][j] : most;"),
        ("int8_t most = T[2 * i][j];",
         "int most = 0; if (T[2 * i][j] >= most) most = T[2 * i][j];"),
        ("if (T[2 * i + 1][j] > most) most = T[2 * i + 1][j];",
         "const int8_t other = T[2 * i + 1][j]; most = most <= other ? other : most;"),
    ],
)  # fmt: skip
def test_forms_of_a_maximum_are_the_same(machine: Machine, change: tuple[str, str]) -> None:
    def body(core: str) -> str:
        return emit(raised(pooled(core), machine)).partition("void kernel")[2]

    assert "most" not in body(PAIRS)
    assert body(PAIRS.replace(*change)) == body(PAIRS)


@pytest.mark.parametrize(
    "source",
    [
        pooled(activation="NO_ACTIVATION"),
        pooled().replace("0.25f", "-0.25f"),
        pooled(PAIRS.replace("> most", "< most")),
        pooled(PAIRS.replace("int8_t most = T[2 * i][j];", "int8_t most = 5;")),
        pooled(PAIRS.replace("T[2 * i][j];", "T[2 * i][j] + 1;")),
        "static int n; static int8_t counted(int8_t v) { n++; return v; }"
        + pooled(
            PAIRS.replace(
                "if (T[2 * i + 1][j] > most) most = T[2 * i + 1][j];",
                "most = T[2 * i + 1][j] > most ? counted(T[2 * i + 1][j]) : most;",
            )
        ),
    ],
)
def test_other_comparisons_stay_code_of_the_core(machine: Machine, source: str) -> None:
    assert re.search("[<>] most", emit(raised(source, machine)).partition("void kernel")[2])


def test_a_window_that_local_memory_cannot_hold_stays_code_of_the_core(machine: Machine) -> None:
    def text(elements: int) -> str:
        core = f"""int8_t most = 0;
for (int k = 0; k < {elements}; k++) {{
  const int8_t one = T[k / 20][k % 20];
  most = one > most ? one : most;
}}
C[0][0] = most;
"""
        return emit(raised(pooled(core), machine)).partition("void kernel")[2]

    assert "most" not in text(128)
    assert "most" in text(129)


THEN_MULTIPLIED = """
static int8_t T[32][16], P[16][16];
void kernel(const int8_t A[32][16], const int8_t B[16][16], const int8_t D[16][16],
            int8_t C[16][16]) {
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(16, 1.0f, 16, 0);
  config_st(16, 0.25f, RELU);
  mvin(&B[0][0], SPAD(64), 16, 16);
  for (int i = 0; i < 32; i += 16) {
    mvin(&A[i][0], SPAD(0), 16, 16);
    preload(SPAD(64), ACC(0), 16, 16, 16, 16);
    compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
    mvout(&T[i][0], ACC(0), 16, 16);
  }
  fence();
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) {
      const int8_t one = T[2 * i][j], other = T[2 * i + 1][j];
      P[i][j] = one > other ? one : other;
    }
  mvin(&P[0][0], SPAD(0), 16, 16);
  mvin(&D[0][0], SPAD(64), 16, 16);
  preload(SPAD(64), ACC(0), 16, 16, 16, 16);
  compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
  mvout(&C[0][0], ACC(0), 16, 16);
  fence();
}
"""


def test_a_product_reads_maxima_from_memory_after_a_fence(machine: Machine) -> None:
    text = emit(raised(THEN_MULTIPLIED, machine)).partition("void kernel")[2]
    assert text.count("fence();") == 3
    assert "mvout(&P[0][0], ACC(" in text
    with pytest.raises(NotRaised, match="no product can read the results"):
        raised(THEN_MULTIPLIED, machine, chained=True)


def followed(*, stored: int, read: int, least: int = 0, size: int = 1) -> list[Maximum]:
    """The maxima of 20 pairs of bytes that event `stored` wrote and the core read after `read`
    events."""
    first, target = SPACING, 2 * SPACING
    maxima = Maxima(Fillings({}), MemoryOrder(frozenset((1, 2))), frozenset((1,)))
    maxima.keep(first, first + 100, 32, 20, 2, stored, negative=False)
    for column in reversed(range(20)):
        pair = {Element(first + 32 * row + column, 1, read) for row in range(2)}
        value = Greatest(frozenset(pair), least)
        maxima.store(target + column, size, value, (), 0)
    return list(maxima.rows(16))


def test_adjacent_maxima_are_rows() -> None:
    sources = tuple(SPACING + 100 + 32 * row for row in range(2))
    assert followed(stored=3, read=4) == [
        Maximum(2 * SPACING, sources, 16, 0),
        Maximum(2 * SPACING + 16, tuple(at + 16 for at in sources), 4, 0),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {"stored": 4, "read": 4},
        {"stored": 3, "read": 4, "least": 1},
        {"stored": 3, "read": 4, "size": 2},
    ],
)
def test_maxima_of_other_values_are_refused(given: dict[str, int]) -> None:
    with pytest.raises(NotRaised):
        followed(**given)


def test_an_element_that_was_read_twice_is_no_pair() -> None:
    maxima = Maxima(Fillings({}), MemoryOrder(frozenset((1, 2))), frozenset((1,)))
    maxima.keep(SPACING, SPACING, 0, 1, 1, 3, negative=False)
    value = Greatest(frozenset(Element(SPACING, 1, moment) for moment in (4, 5)), 0)
    with pytest.raises(NotRaised):
        maxima.store(2 * SPACING, 1, value, (), 0)


X, Y = (Data((Element(address, 1, 0),)) for address in (64, 65))


def test_the_greater_of_two_values_is_a_maximum_only_if_it_is_chosen() -> None:
    for most in (chosen(X > Y, lambda: X, lambda: Y), chosen(X <= Y, lambda: Y, lambda: X)):
        assert (most.terms, most.least) == ((*X.terms, *Y.terms), -128)
    for test, yes, no in ((X > Y, Y, X), (X < Y, X, Y), (X > Y, X, 0), (X > Y, X, X)):
        with pytest.raises(Undecided):
            chosen(test, lambda yes=yes: yes, lambda no=no: no)
    wide = Data((Element(64, 2, 0),))
    with pytest.raises(Undecided):
        chosen(wide > Y, lambda: wide, lambda: Y)


def test_python_decides_nothing_by_values_that_depend_on_elements() -> None:
    most = chosen(X > Y, lambda: X, lambda: Y)
    uses: list[Callable[[object], object]] = [
        bool, lambda v: v == 0, lambda v: v != most, {0: 1}.get, lambda v: 1 - v, lambda v: v // 2
    ]  # fmt: skip
    for value in (most, Comparison("gt", X, Y)):
        for use in uses:
            with pytest.raises(Undecided):
                use(value)
    with pytest.raises(Undecided):
        {0: 1}.get(X)


def test_a_maximum_is_converted_only_without_change() -> None:
    limited = chosen(X > 5, lambda: X, lambda: 5)
    most = chosen(limited > Y, lambda: limited, lambda: Y)
    assert most.least == 5
    assert narrowed(most, 8) is most
    with pytest.raises(Undecided):
        narrowed(chosen(most > 200, lambda: most, lambda: 200), 8)
    with pytest.raises(Undecided):
        narrowed(most, 4)

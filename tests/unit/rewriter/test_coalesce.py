"""Two loops as one, and moves that are spread over the computation beside them."""

from __future__ import annotations

import pytest
from kernel_model import trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffer
from tilewright.proposers.rewriter.analysis.ranges import entered, mean_trips, simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.contention import disturbing_loads
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.expr import Expr, minimum, quotient, var
from tilewright.proposers.rewriter.ir import Kernel, Loop
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

SETTINGS = (
    "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0); config_st(64);"
    "config_ld(64, 1.0f, 16, 0); config_ld(64, 1.0f, 16, 1); config_ld(0, 1.0f, 16, 2);"
)
PRODUCT = (
    "preload(SPAD(4096), ACC({acc}), 16, 16, 16, 16); "
    "compute_preloaded(SPAD({row}), NONE, 16, 16, 16, 16);"
)


def kernel_of(machine: Machine, text: str) -> Kernel:
    source = (
        "void kernel(const int8_t A[256][64], const int8_t B[16][64], const int32_t D[64], "
        f"int8_t C[256][64]) {{ {SETTINGS} mvin2(&B[0][0], SPAD(4096), 16, 16); {text} fence(); }}"
    )
    return simplify(lift(source, machine))


def after(kernel: Kernel, machine: Machine, *steps: str) -> Kernel:
    for step in steps:
        kernel = Step.parse(step).apply(kernel, machine)
    return kernel


def tile(inner: str, upper: str = "64") -> str:
    return f"""
  for (int y = 32; y < 128; y += 32) {{
    for (int x = 0; x < {upper}; x += 16) {{
      mvin(&A[y][x], SPAD(0), 16, 16);
      {inner}
      mvout(&C[y][x], ACC(0), 16, 16);
    }}
  }}"""


def test_one_loop_does_what_two_did_in_the_same_order(machine: Machine) -> None:
    kernel = kernel_of(machine, tile(PRODUCT.format(acc=0, row=0)))
    one = after(kernel, machine, "coalesce y")
    assert list(trace(one.body)) == list(trace(kernel.body))
    assert "for (int yx = 0; yx < 12; yx++)" in emit(one)


def test_loads_ahead_go_on_in_the_next_row(machine: Machine) -> None:
    kernel = kernel_of(machine, tile(PRODUCT.format(acc=0, row=0)))
    apart, one = (
        [c[1] for c in trace(after(kernel, machine, *steps).body) if c[0] == "mvin"]
        for steps in (["pipeline A x 2"], ["coalesce y", "pipeline A yx 2"])
    )
    assert len(apart) == len(one) == 12
    assert len({rows[1] for rows in one}) == 2


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (tile("fence();").replace("for (int x", "fence(); for (int x"), "more than one loop"),
        (tile("fence();").replace("16);\n    }", "16); } fence();"), "more than one loop"),
        (tile(PRODUCT.format(acc=0, row=0), upper="y"), "iterations of loops y and x vary"),
    ],
)
def test_other_loops_stay_apart(machine: Machine, text: str, reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        after(kernel_of(machine, text), machine, "coalesce y")


AHEAD = """
  for (int k = 0; k < 7; k++) mvin(&A[16 * k][0], SPAD(16 * k), 16, 16);
  for (int y = 0; y < 2; y++) {{
    if (y + 1 < 2) {{
      for (int k = 0; k < 7; k++) mvin(&A[16 * k][16], SPAD(16 * k + 2048), 16, 16);
    }}
    for (int x = 0; x < {upper}; x++) {{ {product} }}
    for (int k = 0; k < 7; k++) mvout(&C[16 * k][16 * y], ACC(16 * k), 16, 16);
  }}"""
USE = PRODUCT.format(acc="16 * x", row="16 * x + 2048 * y")


@pytest.mark.parametrize("upper", [3, 5, 9])
def test_moves_are_shared_out_evenly_and_all_of_them(machine: Machine, upper: int) -> None:
    text = AHEAD.format(upper=upper, product=USE)
    kernel = kernel_of(machine, text)
    calls = list(trace(after(kernel, machine, "interleave y").body))
    assert sorted(map(str, calls)) == sorted(map(str, trace(kernel.body)))
    names = [name for name, _ in calls[calls.index(next(c for c in calls if c[0] == "preload")) :]]
    bursts = "".join("m" if n == "mvin" else " " for n in names).split()
    assert max(map(len, bursts)) <= -(-7 // upper)


def test_moves_are_not_shared_out_over_a_number_of_iterations_that_varies(
    machine: Machine,
) -> None:
    kernel = kernel_of(machine, AHEAD.format(upper="(8 - 5 * y < 6 ? 8 - 5 * y : 6)", product=USE))
    with pytest.raises(NotApplicable, match="cannot be distributed evenly"):
        after(kernel, machine, "interleave y")


def test_a_burst_of_nested_loops_is_shared_out_move_by_move(machine: Machine) -> None:
    text = """
  for (int i = 0; i < 256; i += 64) {
    for (int k = 0; k < 64; k += 16) {
      for (int ii = 0; ii < 64; ii += 16) mvin(&A[i + ii][k], SPAD(4 * k + ii), 16, 16);
    }
    for (int k = 0; k < 128; k += 8) {
      preload(SPAD(4096), ACC(0), 16, 16, 16, 16);
      compute_preloaded(SPAD(2 * k), NONE, 16, 16, 16, 16);
    }
    mvout(&C[i][0], ACC(0), 16, 16);
  }"""
    spread = after(kernel_of(machine, text), machine, "pipeline A i 2", "interleave i")
    calls = [name for name, _ in trace(spread.body)]
    first = calls.index("preload")
    assert calls[first - 1 : first + 6] == ["mvin", "preload", "compute_preloaded"] * 2 + ["mvin"]
    assert find_buffer(spread, machine, "A").slots == 2


def test_iterations_are_counted_on_average() -> None:
    turn = quotient(var("k"), 4)
    loop = Loop("m", turn, quotient(var("k") + 1, 4), 1, ())
    around = Loop("k", Expr(), Expr(16), 1, (loop,))
    assert mean_trips(loop, (around,)) == 0.25
    ragged = Loop("m", var("k"), minimum(Expr(4), var("k") + 8), 1, ())
    assert mean_trips(ragged, (around,)) == (4 + 3 + 2 + 1) / 16


def test_a_loop_that_begins_at_a_multiple_of_its_step_ends_at_one() -> None:
    env = {"k": (0.0, 31.0)}
    loop = Loop("i", quotient(var("k"), 4) * 16, Expr(128), 16, ())
    assert entered(env, loop)["i"] == (0, 112)
    assert entered(env, Loop("i", var("k"), Expr(128), 16, ()))["i"] == (0, 127)


def test_a_row_of_sums_takes_as_long_as_its_bytes(machine: Machine) -> None:
    def moves(source: str) -> float:
        loads = f"for (int y = 0; y < 8; y++) mvin3({source}, ACC(0), 64, 16);"
        return estimate(kernel_of(machine, loads), machine).moves

    given, zeros = moves("&D[0]"), moves("0")
    assert given - zeros == pytest.approx(8 * 64 * 3)


@pytest.mark.parametrize(("test", "disturbs"), [("", False), ("if (y == 0) ", True)])
def test_loads_into_a_buffer_in_use_disturb_its_reads(
    machine: Machine, test: str, disturbs: bool
) -> None:
    text = f"""
  for (int y = 0; y < 4; y++) {{
    for (int x = 0; x < 4; x++) {{
      {test}mvin(&A[16 * x][0], SPAD(16 * x), 16, 16);
      {PRODUCT.format(acc=0, row="16 * x")}
      mvout(&C[16 * y][16 * x], ACC(0), 16, 16);
    }}
  }}"""
    kernel = kernel_of(machine, text)
    buffer = find_buffer(kernel, machine, "A")
    found = disturbing_loads([buffer], machine)
    assert set(found.values()) == {1.0 if disturbs else 0.0}


def test_one_loop_is_read_as_two_again(machine: Machine) -> None:
    kernel = kernel_of(machine, tile(PRODUCT.format(acc=0, row=0)))
    again = read(emit(after(kernel, machine, "coalesce y")), machine)
    assert list(trace(again.body)) == list(trace(kernel.body))

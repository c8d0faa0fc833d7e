"""First plans that overlap all moves with products, and the loads ahead that they are made of."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from byte_model import convolution_is_right
from kernel_model import gemm, gemm_is_right, trace
from test_legality import PRODUCT, assert_keeps, assert_refused, floats_kernel

from tilewright.core.tasks import open_task
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops, simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel, Loop, commands
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.moves import load_first_tile_late
from tilewright.proposers.rewriter.planning.overlapped.sequences import (
    LATE,
    TECHNIQUES,
    overlapped_sequences,
)
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.convolution import parse_convolution


@pytest.fixture(scope="module")
def floats() -> Machine:
    return Machine.of(create_fp32_target().brief())


def after(kernel: Kernel, machine: Machine, steps: str) -> Kernel:
    for text in steps.split("; "):
        kernel = Step.parse(text).apply(kernel, machine)
    return kernel


@pytest.mark.parametrize(
    "shape",
    [(64, 128, 48), (40, 64, 80), (250, 90, 24)],
    ids=["even tiles", "a short last tile", "partial tiles in all three sizes"],
)
def test_a_product_stays_right(machine: Machine, shape: tuple[int, int, int]) -> None:
    kernel = simplify(lift(gemm(*shape), machine))
    found = list(overlapped_sequences(kernel, machine, TECHNIQUES))
    assert found
    for steps, result in found:
        assert gemm_is_right(result, *shape), steps
        assert gemm_is_right(lift(emit(result), machine), *shape), steps


def test_a_kernel_of_few_tiles_has_no_separate_first_tile(machine: Machine) -> None:
    for shape, is_late in ((200, 104, 72), False), ((256, 256, 192), True):
        kernel = simplify(lift(gemm(*shape), machine))
        found = overlapped_sequences(kernel, machine, TECHNIQUES | LATE)
        assert any("stagger" in {step.technique for step in steps} for steps, _ in found) == is_late


@pytest.mark.parametrize("shape", [(256, 256, 192), (250, 330, 200), (300, 136, 160)])
def test_the_first_tile_need_not_wait_for_all_its_data(
    machine: Machine, shape: tuple[int, int, int]
) -> None:
    """Before its first product, only the first part of the depth is loaded."""
    kernel = simplify(lift(gemm(*shape), machine))
    (steps, result), (late_steps, late), *_ = overlapped_sequences(
        kernel, machine, TECHNIQUES | LATE
    )
    assert late_steps[: len(steps)] == steps
    assert {s.technique for s in late_steps[len(steps) :]} <= LATE
    assert loaded_first(late, machine) < 0.8 * loaded_first(result, machine)
    assert gemm_is_right(late, *shape)
    assert gemm_is_right(lift(emit(late), machine), *shape)


def strips_of(machine: Machine, shape: tuple[int, int, int]) -> list[tuple[list[str], Kernel]]:
    """Those of the first sequences that load A once for each strip of tiles."""
    kernel = simplify(lift(gemm(*shape), machine))
    return [
        (texts, result)
        for steps, result in islice(overlapped_sequences(kernel, machine, TECHNIQUES | LATE), 3)
        if "resident A j before" in (texts := [str(s) for s in steps])
    ]


@pytest.mark.slow
def test_a_strip_with_a_narrow_last_tile_is_loaded_once(machine: Machine) -> None:
    """Other tiles than the last one also have time for its loads, and for those of the next
    strip."""
    shape = 250, 330, 200
    ((steps, result),) = strips_of(machine, shape)
    assert {"pipeline A i 2", "pipeline-nest B j 2", "peel i first", "peel j first"} <= set(steps)
    assert gemm_is_right(lift(emit(result), machine), *shape)
    plain = next(overlapped_sequences(simplify(lift(gemm(*shape), machine)), machine, TECHNIQUES))
    times = estimate(plain[1], machine), estimate(result, machine)
    assert times[1].loaded_rows < 0.7 * times[0].loaded_rows


@pytest.mark.parametrize(
    "shape",
    [(250, 256, 200), (250, 330, 720)],
    ids=["all tiles are equally wide", "two strips take too much memory"],
)
def test_other_strips_are_not_loaded_once(machine: Machine, shape: tuple[int, int, int]) -> None:
    assert not strips_of(machine, shape)


def test_a_first_tile_whose_loads_cannot_move_stays_in_its_loop(machine: Machine) -> None:
    made = ((), simplify(lift(gemm(64, 128, 48), machine)))
    assert load_first_tile_late(made, machine, "j") is made


LOADS = """void kernel(const int8_t A[32][128], int8_t C[16][16]) {
  config_ld(128, 1.0f, 16, 0);
  config_st(16);
  for (int i = 0; i < 32; i += 16) {
    for (int j = 0; j < 128; j += 64) {
      mvin(&A[i][j], SPAD(ROW), 64, 16);
    }
  }
  for (int k = 0; k < 32; k += 16) {
    preload(SPAD(0), ACC(0), 16, 16, 16, 16);
    compute_preloaded(SPAD(k), NONE, 16, 16, 16, 16);
    mvout(&C[0][0], ACC(0), 16, 16);
  }
}
"""


def test_loops_that_only_load_are_swapped_if_every_row_is_loaded_once(machine: Machine) -> None:
    kernel = lift(LOADS.replace("ROW", "8 * i + j"), machine)
    swapped = Step.parse("reorder i").apply(kernel, machine)
    before, now = list(trace(kernel.body)), list(trace(swapped.body))
    assert before != now
    assert sorted(map(str, before)) == sorted(map(str, now))
    again = lift(LOADS.replace("ROW", "0"), machine)
    with pytest.raises(NotApplicable):
        Step.parse("reorder i").apply(again, machine)


def loaded_first(kernel: Kernel, machine: Machine) -> float:
    """Rows that are loaded before the first loop of products."""
    first = next(n for n, s in enumerate(kernel.body) if isinstance(s, Loop) and multiplies(s))
    return estimate(kernel.with_body(kernel.body[:first]), machine).loaded_rows


def test_a_result_that_fits_local_memory_stays_there(machine: Machine) -> None:
    kernel = simplify(lift(gemm(96, 112, 64), machine))
    _, (steps, result), *_ = overlapped_sequences(kernel, machine, TECHNIQUES)
    assert [s.technique for s in steps][:3] == ["overwrite", "retile", "retile"]
    assert "finish-tiles" in [s.technique for s in steps]
    assert gemm_is_right(result, 96, 112, 64)
    loops = [s for s in result.body if isinstance(s, Loop)]
    assert [s for s in loops if stores_and_multiplies(s)] == loops[-1:]


def test_partial_last_tiles_do_not_keep_the_loops_of_whole_tiles(machine: Machine) -> None:
    """Only the loop over columns varies. The blocks of rows inside it become one body."""
    kernel = simplify(lift(gemm(250, 330, 72), machine))
    _, result = next(overlapped_sequences(kernel, machine, TECHNIQUES))
    loops = [loop for _, loop, _ in labelled_loops(result.body) if multiplies(loop)]
    innermost = [s for s in loops if not any(isinstance(t, Loop) for t in s.body)]
    assert len(innermost) == 1
    assert len(innermost[0].body) >= 2 * 8


@pytest.mark.parametrize("shape", [(100, 300, 500), (333, 77, 130)])
def test_moves_are_distributed_although_the_last_tile_is_partial(
    machine: Machine, shape: tuple[int, int, int]
) -> None:
    """A whole tile has enough products between two moves, and most tiles are whole."""
    kernel = simplify(lift(gemm(*shape), machine))
    steps, _ = next(overlapped_sequences(kernel, machine, TECHNIQUES))
    techniques = [s.technique for s in steps]
    assert techniques[techniques.index("double-accumulator") + 1] == "interleave"
    for number, technique in enumerate(techniques):
        if technique.startswith("pipeline"):
            assert techniques[number + 1] == "interleave"


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(152, 136, 92), (250, 330, 200)])
def test_distributed_moves_of_partial_tiles_are_expected_to_take_as_long_as_before(
    machine: Machine, shape: tuple[int, int, int]
) -> None:
    """The number of moves in an iteration depends on several loops with many iterations."""
    start = simplify(lift(gemm(*shape), machine))
    for steps, _ in overlapped_sequences(start, machine, TECHNIQUES):
        kernel = start
        for step in steps:
            before, kernel = kernel, step.apply(kernel, machine)
            if step.technique == "interleave":
                moved = estimate(kernel, machine).moves, estimate(before, machine).moves
                assert moved[0] < 1.25 * moved[1], step


def multiplies(loop: Loop) -> bool:
    return any("compute" in c.name for c in commands(loop.body))


def test_a_result_that_does_not_fit_is_stored_tile_by_tile(machine: Machine) -> None:
    kernel = simplify(lift(gemm(160, 160, 64), machine))
    for _, result in overlapped_sequences(kernel, machine, TECHNIQUES):
        assert any(isinstance(s, Loop) and stores_and_multiplies(s) for s in result.body)


def stores_and_multiplies(loop: Loop) -> bool:
    names = {c.name for c in commands(loop.body)}
    return any("mvout" in n for n in names) and any("compute" in n for n in names)


@pytest.mark.parametrize("name", ["conv-2x4x14x32x128-k3s1", "conv-1x4x40x32x32-k3s1"])
def test_a_convolution_stays_right(machine: Machine, name: str) -> None:
    conv = parse_convolution(name, create_target().instance)
    kernel = read(open_task(f"gemmini:{name}", {}).task.start, machine)
    found = list(overlapped_sequences(kernel, machine, TECHNIQUES))
    assert {s.technique for steps, _ in found for s in steps} > {"pipeline", "interleave", "pack"}
    for steps, result in found:
        assert convolution_is_right(result, conv), steps


def test_weights_that_do_not_fit_are_loaded_ahead_over_all_loops(machine: Machine) -> None:
    kernel = read(open_task("gemmini:conv-4x14x14x128x128-k3s1", {}).task.start, machine)
    steps, result = next(overlapped_sequences(kernel, machine, TECHNIQUES))
    techniques = [s.technique for s in steps]
    assert techniques.count("pipeline") == 2
    assert techniques.count("pipeline-nest") == 1
    assert techniques[-2:] == ["unroll", "pack"]
    assert estimate(result, machine).total < 0.3 * estimate(kernel, machine).total


def test_zeros_are_not_moved_for_any_of_several_products(machine: Machine) -> None:
    folder = Path(__file__).parents[2] / "fixtures" / "foreign_folders" / "attention_tiles"
    kernel = Step("raise").apply(read((folder / "kernel.c").read_text(), machine), machine)
    assert emit(kernel).count("(0, ACC(") == 2
    for steps, result in overlapped_sequences(kernel, machine, TECHNIQUES):
        assert [s.technique for s in steps].count("overwrite") == 2
        assert "(0, ACC(" not in emit(result)


def test_the_first_tile_stays_if_its_first_products_are_outside_the_loop_with_its_store(
    machine: Machine,
) -> None:
    body = """void kernel(const int8_t A[64][16], int8_t C[64][16]) {
      for (int i = 0; i < 64; i += 16) {
        mvin(A[i], SPAD(i), 16, 16);
        preload(SPAD(i), ACC(i), 16, 16, 16, 16);
        compute_preloaded(SPAD(i), NONE, 16, 16, 16, 16);
      }
      for (int i = 0; i < 64; i += 16) {
        preload(SPAD(i), ACC(i) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(i), NONE, 16, 16, 16, 16);
        mvout(C[i], ACC(i), 16, 16);
      }
    }
    """
    made = ((), simplify(lift(body, machine)))
    assert load_first_tile_late(made, machine, "i") is made


def test_without_one_of_the_techniques_there_are_no_sequences(machine: Machine) -> None:
    kernel = simplify(lift(gemm(32, 64, 32), machine))
    for technique in TECHNIQUES:
        assert not list(overlapped_sequences(kernel, machine, TECHNIQUES - {technique}))


NEST = """
  for (int s = 0; s < 24; s += 12) {
    BETWEEN
    for (int t = 0; t < 12; t += 4) {
      mvin2(&y[s + t][0], SPAD(4), 4, 4);
      preload(SPAD(4), ACC(0), 4, 4, 4, 4);
      compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
      mvout(&x[s + t][0], ACC(0), 4, 4);
    }
  }"""


@pytest.mark.parametrize("slots", [2, 3])
def test_the_first_loads_of_an_inner_loop_run_ahead_in_the_outer_one(
    floats: Machine, slots: int
) -> None:
    kernel = floats_kernel(NEST.replace("BETWEEN", ""), floats)
    step = f"pipeline-nest y t {slots}"
    assert_keeps(kernel, floats, step)
    result = after(kernel, floats, step)
    assert emit(result).count("mvin2(&y") == 2  # the very first one, and those ahead


def test_loads_do_not_run_ahead_of_stores_in_an_outer_loop(floats: Machine) -> None:
    """The store of one iteration of s comes after the last load of the iteration before."""
    store = "mvout(&y[s][0], ACC(4), 4, 4); fence();"
    kernel = floats_kernel(f"{PRODUCT.format(b=0, c=4)}{NEST.replace('BETWEEN', store)}", floats)
    assert_refused(kernel, floats, "pipeline-nest y2 t 2", "y is stored to in loop s")


def test_loads_do_not_run_ahead_of_a_fence_that_orders_them(floats: Machine) -> None:
    store = f"{PRODUCT.format(b=0, c=4)} mvout(&y[0][0], ACC(4), 4, 4);"
    kernel = floats_kernel(store + NEST.replace("BETWEEN", "fence();"), floats)
    assert_refused(kernel, floats, "pipeline-nest y2 t 2", "fences in loop s order accesses to y")


def test_loads_stay_after_settings_of_an_outer_loop(floats: Machine) -> None:
    scaled = "config_ld(16, 2.0f, 4, 1);"
    kernel = floats_kernel(NEST.replace("BETWEEN", scaled), floats)
    assert_keeps(kernel, floats, "pipeline-nest y t 2")


def test_a_loop_without_another_one_around_it_is_not_a_nest(floats: Machine) -> None:
    inner = NEST.split("BETWEEN")[1].rsplit("}", 1)[0].replace("s + t", "t")
    kernel = floats_kernel(inner, floats)
    assert_refused(
        kernel, floats, "pipeline-nest y t 2", "does not have a constant number of iterations"
    )


def test_a_loop_that_is_shorter_in_the_last_tile_is_not_counted(floats: Machine) -> None:
    """Then the first loads of the next tile would be those after a whole tile."""
    shorter = NEST.replace("BETWEEN", "").replace("t < 12", "t < (20 - s < 12 ? 20 - s : 12)")
    kernel = floats_kernel(shorter, floats)
    assert_refused(
        kernel, floats, "pipeline-nest y t 2", "does not have a constant number of iterations"
    )


SUM = """
  for (int t = 0; t < 16; t += 4) {
    HEAD
    mvin2(&y[t][0], ACC(0), 4, 4);
    preload(SPAD(0), ACC(0) | ACCUMULATE, 4, 4, 4, 4);
    compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    mvout(&x[t][0], ACC(0), 4, 4);
    TAIL
  }"""


def summed(machine: Machine, head: str = "", tail: str = "") -> Kernel:
    kernel = floats_kernel(SUM.replace("HEAD", head).replace("TAIL", tail), machine)
    return after(kernel, machine, "double-accumulator y t 2 delayed")


def test_sums_are_loaded_ahead_after_the_stores_that_free_their_rows(floats: Machine) -> None:
    kernel = summed(floats)
    assert_keeps(kernel, floats, "pipeline y t 2")
    text = emit(after(kernel, floats, "pipeline y t 2"))
    assert text.index("mvout") < text.index("y for the next iteration")


def test_sums_are_not_loaded_ahead_of_what_stores_them(floats: Machine) -> None:
    kernel = floats_kernel(
        f"""{PRODUCT.format(b=0, c=8)}
  for (int t = 0; t < 16; t += 4) {{
    mvin2(&y[t][0], ACC(4 * (t / 4 % 2)), 4, 4);
    preload(SPAD(0), ACC(4 * (t / 4 % 2)) | ACCUMULATE, 4, 4, 4, 4);
    compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    if (t > 0) mvout(&x[t - 4][0], ACC(4 * ((t / 4 + 1) % 2)), 4, 4);
    mvout(&y[t + 4][0], ACC(8), 4, 4);
    fence();
  }}
  mvout(&x[12][0], ACC(4), 4, 4);""",
        floats,
    )
    assert_refused(kernel, floats, "pipeline y2 t 2", "y is stored to in loop t")


def test_blocks_that_a_loop_counts_are_not_slots(floats: Machine) -> None:
    """A number that turns over like the slots of a buffer, but at another distance."""
    kernel = floats_kernel(
        """
  for (int t = 0; t < 24; t += 8) {
    for (int k = 0; k < 8; k += 4) mvin2(&y[t + k][0], ACC(k), 4, 4);
    for (int n = 0; n < 2; n++) {
      preload(SPAD(0), ACC(n % 2 * 4) | ACCUMULATE, 4, 4, 4, 4);
      compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    }
    for (int n = 0; n < 6; n++) {
      preload(SPAD(0), ACC(n % 2 * 4) | ACCUMULATE, 4, 4, 4, 4);
      compute_preloaded(SPAD(0), NONE, 4, 4, 4, 4);
    }
    for (int k = 0; k < 8; k += 4) mvout(&x[t + k][0], ACC(k), 4, 4);
  }""",
        floats,
    )
    assert_keeps(kernel, floats, "double-accumulator y t 2 delayed")
    assert_keeps(kernel, floats, "double-accumulator y t 2 in-place")


def loads(kernel: Kernel, name: str) -> list[int]:
    """The columns of the loads of an array that a run issues."""
    return [
        columns
        for _, (place, _, columns, _) in (c for c in trace(kernel.body) if c[0].startswith("mvin"))
        if isinstance(place, tuple) and place[0] == name
    ]


def test_a_deep_product_is_tiled_in_two_levels_of_depth(machine: Machine) -> None:
    shape = (224, 64, 1024)  # its first operand is too large to be loaded for all of the depth
    kernel = simplify(lift(gemm(*shape), machine))
    steps, result = next(overlapped_sequences(kernel, machine, TECHNIQUES))
    assert {"split", "block-load"} <= {s.technique for s in steps}
    assert set(loads(result, "A")) == {64}
    assert gemm_is_right(result, *shape)


def test_loads_that_would_not_become_fewer_stay(machine: Machine) -> None:
    for shape in ((224, 64, 512), (64, 128, 48)):
        kernel = simplify(lift(gemm(*shape), machine))
        for steps, _ in overlapped_sequences(kernel, machine, TECHNIQUES):
            assert "split" not in {s.technique for s in steps}


def test_products_of_few_rows_are_unrolled_and_less_often_interrupted(floats: Machine) -> None:
    kernel = read(open_task("gemmini-fp32-4x4:gemm-256x256x256", {}).task.start, floats)
    for steps, result in overlapped_sequences(kernel, floats, TECHNIQUES):
        if str(steps[1]) == "keep-operand i 8" and str(steps[2]) == "retile j 16":
            last = ["unroll ii#2 0", "unroll jj2#3 4", "write-moves-out", "pack"]
            assert [str(s) for s in steps][-4:] == last
            assert "interleave jj" not in map(str, steps)
            before = after(kernel, floats, "; ".join(map(str, steps[:-3])))
            assert estimate(result, floats).total < 0.8 * estimate(before, floats).total
            break
    else:
        raise AssertionError("a tile of 32 rows and all columns is not among the first plans")

"""What the feedback on a modelled kernel says about bounds and transfers."""

from __future__ import annotations

from pathlib import Path

import pytest
from nki_world import TRN1

from tilewright.core.records import Argument, Failed, Measured
from tilewright.targets.trainium import create_target
from tilewright.targets.trainium.counts import counts_of
from tilewright.targets.trainium.feedback import in_words
from tilewright.targets.trainium.latency.model import estimate
from tilewright.targets.trainium.program import Call, parse, trace_program

WORKLOAD = create_target().open("cumsum-128x1100", {}).workload
FOLDER = Path(__file__).parents[2] / "fixtures" / "foreign_nki" / "gqa_decode"


def gqa() -> Measured:
    task = create_target().open_folder(FOLDER, {})
    return measured(task.modelled(task.start))


def cumsum() -> Measured:
    task = create_target().open("cumsum-2048x2048", {})
    return measured(task.modelled(task.baselines["tuned"]))


def measured(outcome: Measured | Failed) -> Measured:
    assert isinstance(outcome, Measured)
    return outcome


def test_the_bound_at_which_a_search_stops_is_explained_beside_the_roofline() -> None:
    found = gqa()
    assert found.bound is not None
    assert f"{found.bound:,.0f}" == "15,030"
    assert (
        "including 15.00 us that the launch of any kernel takes. With the launch, the roofline is "
        "22.77 us (moving every argument once); for all kernels, only 15.03 us are certain (the "
        "launch and storing the outputs).\n"
    ) in found.feedback


def test_where_the_roofline_is_certain_it_is_the_only_bound() -> None:
    found = cumsum()
    assert found.bound is not None
    told = f"the roofline is {found.bound / 1e3:.2f} us (moving every argument once).\n"
    assert told in found.feedback


def test_longer_runs_are_recommended_where_runs_are_short() -> None:
    advice = "(`larger-transfers`, `adjacent-rows`)"
    assert advice in gqa().feedback
    assert advice not in cumsum().feedback


def baseline(name: str, kernel: str) -> str:
    task = create_target().open(name, {})
    return measured(task.modelled(task.baselines[kernel])).feedback


def test_what_shortens_the_work_of_the_busiest_engine_is_named() -> None:
    """Prompts offer every option that the feedback names."""
    naive = baseline("layernorm-4096x512", "naive")
    assert "DVE works longest: shorten its work, or move some of it elsewhere" in naive
    assert "(`balance-engines`, `operand-in-psum`)" in naive


def test_short_ends_are_recommended_where_dma_is_idle_only_there() -> None:
    assert "more are in its first and its last tenth (`short-ends`)." in baseline(
        "layernorm-4096x512", "tuned"
    )
    # Where another engine works longest, the ends are not what matters.
    assert "`short-ends`" not in baseline("layernorm-4096x512", "naive")


def test_data_that_are_loaded_again_are_named() -> None:
    options = "(`hoist-loads`, `load-once`, `block-in-sbuf`)"
    told = baseline("gemm-256x512x512", "naive")
    assert f" MB again that it has loaded before {options}." in told
    # Every partition needs the row gamma, which is loaded only once.
    assert options not in baseline("layernorm-4096x512", "naive")


def test_the_costly_lines_are_a_list_of_their_own() -> None:
    lines = baseline("layernorm-4096x512", "naive").split("\n")
    first = lines.index("The lines that take most time:") + 1
    assert len(lines) > first
    assert all(line.startswith("  line ") for line in lines[first:])


ROWS = """
import nki
import nki.language as nl
import nki.isa as nisa


@nki.jit
def kernel(x):
    out = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)
    t = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.sbuf)
    for first in range(0, 128, {0}):
        nisa.dma_copy(dst=t[first : first + {0}, :], src=x[first : first + {0}, :])
    nisa.dma_copy(dst=out, src=t)
    return out
"""


@pytest.mark.parametrize(("rows", "waiting"), [(32, 0), (16, 4), (8, 12)])
def test_transfers_that_share_a_group_of_partitions_are_named(rows: int, waiting: int) -> None:
    call = Call(
        (Argument("x", (128, 512), "float32", "input"),),
        (Argument("out", (128, 512), "float32", "output"),),
        {},
    )
    trace = trace_program(parse(ROWS.format(rows)), call, TRN1)
    found = estimate(trace, TRN1)
    assert found.sharing == ({12: waiting} if waiting else {})
    told = in_words(WORKLOAD, TRN1, found, counts_of(trace), ROWS)
    sentence = f"{waiting} transfers wait for a transfer to or from other partitions"
    assert (sentence in told) == bool(waiting)
    assert (f": line 12 ({waiting})." in told) == bool(waiting)

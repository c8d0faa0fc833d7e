"""What is counted in a kernel's trace, the options that are left out for it, and the bound."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.core.records import Argument, Candidate, Measured, Trial
from tilewright.proposers.applicable import applicable
from tilewright.targets.trainium import create_target
from tilewright.targets.trainium.counts import NAMES, counts_of
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.problems.exact import LargeExactProblem
from tilewright.targets.trainium.program import Call, parse, trace_program
from tilewright.targets.trainium.shapes import parse_shape
from tilewright.targets.trainium.trace import Trace

HEAD = """
import nki
import nki.isa as nisa
import nki.language as nl

@nki.jit
def kernel(x):
    out = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.shared_hbm)
    kept = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.hbm)
    a = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    b = nl.ndarray((128, 64), dtype=nl.bfloat16, buffer=nl.sbuf)
    sums = nl.ndarray((64, 64), dtype=nl.float32, buffer=nl.psum)
    nisa.dma_copy(dst=a, src=x)
"""
TAIL = """
    nisa.dma_copy(dst=out, src=a)
    return out
"""
ROW = 128 * 64 * 4


def traced(body: str) -> Trace:
    array = Argument("x", (128, 64), "float32", "input")
    out = Argument("out", (128, 64), "float32", "output")
    source = f"{HEAD}    {body}{TAIL}"
    return trace_program(parse(source), Call((array,), (out,), {}), load_machine("trn1"))


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        ("pass", {}),
        ("nisa.nc_matmul(sums, a, a)", {"float32_products": 1}),
        ("nisa.nc_matmul(sums, b, b)", {}),
        ("nisa.tensor_tensor(a, a, a, op=nl.add)", {"additions_of_tiles": 1, "two_cycle_pairs": 1}),
        ("nisa.tensor_tensor(a, a, a, op=nl.multiply)", {"squares": 1, "two_cycle_pairs": 1}),
        (
            "nisa.tensor_tensor(a[:, 0:32], a[:, 0:32], a[:, 32:64], op=nl.multiply)",
            {"two_cycle_pairs": 1},
        ),
        ("nisa.tensor_tensor(b, b, b, op=nl.subtract)", {}),
        (
            "nisa.nc_matmul(sums, b, b); "
            "nisa.tensor_tensor(a[0:64, :], a[0:64, :], sums, op=nl.subtract)",
            {"on_few_partitions": 1},
        ),
        ("nisa.nc_matmul(sums, b, b, is_transpose=True)", {"transposes": 1}),
        (
            "nisa.nc_transpose(a[0:32, 0:32], a[32:64, 0:32], engine=nisa.engine.vector)",
            {"transposes": 1, "on_few_partitions": 1},
        ),
        ("nisa.tensor_tensor(a, a, a, op=nl.subtract, engine=nisa.engine.gpsimd)", {}),
        ("nisa.memset(a, value=0.0)", {"copies_and_memsets": 1}),
        ("nisa.tensor_copy(b, a)", {"copies_and_memsets": 1, "converting_copies": 1}),
        (
            "nisa.affine_select(a, pattern=[[1, 64]], channel_multiplier=1, on_true_tile=a, "
            "on_false_value=0.0, cmp_op=nl.greater_equal)",
            {"selections": 1},
        ),
        (
            "nisa.tensor_tensor_scan(a, a, a, initial=0.0, op0=nl.multiply, op1=nl.add)",
            {"scans": 1},
        ),
        ("nisa.dma_copy(dst=b, src=x)", {"converting_transfers": 1, "bytes_loaded_again": ROW}),
        (
            "nisa.dma_copy(dst=a, src=x.ap(pattern=[[0, 128], [1, 64]]))",
            {"broadcast_loads": 1, "bytes_loaded_again": ROW / 128},
        ),
        (
            "nisa.dma_copy(dst=a[:, 0:32], src=x.ap(pattern=[[64, 128], [2, 32]]))",
            {"single_element_transfers": 1, "bytes_loaded_again": ROW / 2},
        ),
        (
            "nisa.dma_copy(dst=kept, src=a); nisa.dma_copy(dst=a, src=kept)",
            {"bytes_of_intermediates": ROW},
        ),
        (
            "nisa.tensor_scalar(a, a, op0=nl.multiply, operand0=2.0); "
            "nisa.activation(a, op=nl.exp, data=a)",
            {"scaled_before_activation": 1},
        ),
        ("nisa.activation(a, op=nl.exp, data=a, scale=2.0)", {}),
        (
            "nisa.tensor_scalar(a, a, op0=nl.maximum, operand0=2.0); "
            "nisa.activation(a, op=nl.exp, data=a)",
            {},
        ),
        ("nisa.activation(a[:, 0:1], op=nl.exp, data=a[:, 0:1])", {"rescaling_exponentials": 1}),
        ("nisa.activation(a[:, 0:1], op=nl.square, data=a[:, 0:1])", {"squares": 1}),
        (
            "nisa.memset(b, value=1.0); nisa.nc_matmul(sums, b, b)",
            {"copies_and_memsets": 1},  # ones alone broadcast or sum a tile
        ),
        (
            "nisa.memset(b[:, 63:64], value=1.0); nisa.dma_copy(dst=b[:, 0:63], src=x[:, 0:63]); "
            "nisa.nc_matmul(sums, b, b)",
            {
                "copies_and_memsets": 1,
                "converting_transfers": 1,
                "bytes_loaded_again": 63 * 4 * 128,
                "products_with_a_column_of_ones": 1,
            },
        ),
        (
            "nisa.tensor_tensor(a[:, 0:62], a[:, 0:62], a[:, 2:64], op=nl.maximum)",
            {"shifted_windows": 1, "windows": 1, "two_cycle_pairs": 1},
        ),
        (
            "nisa.tensor_tensor(a[:, 0:32], a[:, 0:32], a[:, 32:64], op=nl.maximum)",
            {"two_cycle_pairs": 1},
        ),
        (
            "nisa.tensor_tensor(a[:, 0:3], a[:, 0:3], a[:, 2:5], op=nl.maximum)",
            {"windows": 1, "two_cycle_pairs": 1},
        ),
        (
            "nisa.tensor_reduce(a[:, 0:62], op=nl.maximum, axis=2, "
            "data=a.ap(pattern=[[64, 128], [1, 62], [1, 3]]))",
            {"windows": 1},
        ),
        (
            "nisa.tensor_tensor(a[:, 0:32], a[:, 0:32], a[:, 32:64], op=nl.maximum); "
            "nisa.tensor_reduce(a[:, 32:33], op=nl.maximum, data=a[:, 0:32], axis=1)",
            {"repeated_reductions": 1, "two_cycle_pairs": 1},
        ),
    ],
)
def test_instructions_are_counted(body: str, counts: dict[str, float]) -> None:
    assert counts_of(traced(body)) == {**dict.fromkeys(NAMES, 0.0), **counts}


def left_out(name: str, kernel: str) -> set[str]:
    """The options for this workload that a language model is not offered for a baseline."""
    target = create_target()
    task = target.open(name, {})
    source = task.baselines[kernel]
    found = task.modelled(source)
    assert isinstance(found, Measured)
    menu = target.brief().menu_for(task.workload)
    kept = applicable(target.brief(), Trial(0, 0, Candidate(source), found), menu)
    return {option.id for option in menu} - {option.id for option in kept}


@pytest.mark.parametrize(
    ("name", "kernel", "without", "kept"),
    [
        (
            "rmsnorm-512x4096",
            "naive",
            {"stay-on-chip", "avoid-transposes", "iterations-on-partitions"},
            {"hoist-loads", "broadcast-by-pe"},
        ),
        ("rope-128x512", "naive", {"avoid-transposes"}, {"iterations-on-partitions"}),
        ("rmsnorm-512x4096", "tuned", {"hoist-loads", "broadcast-by-pe"}, {"bn-stats"}),
        ("cumsum-256x2048", "naive", {"scan-instruction", "pe-transpose"}, {"drop-redundant-work"}),
        ("attention-512x128", "naive", {"cast-on-the-way"}, {"stay-on-chip", "bf16-products"}),
        ("attention-512x128", "tuned", {"stay-on-chip"}, {"load-in-stored-type"}),
        ("rope-128x512", "tuned", {"drop-redundant-work", "block-in-sbuf"}, {"operand-in-psum"}),
        ("maxpool-256x256-k3", "naive", set(), {"separable-windows", "taps-in-place"}),
        ("maxpool-256x256-k3", "tuned", {"separable-windows", "taps-in-place"}, set()),
        ("conv1d-1x128x1024-k3", "naive", {"fuse-activation"}, {"taps-in-place"}),
        ("conv1d-1x128x1024-k3", "tuned", {"taps-in-place", "fuse-activation"}, set()),
        ("attention-512x128", "naive", set(), {"online-softmax", "column-of-ones"}),
        ("attention-512x128", "tuned", {"column-of-ones"}, set()),
        ("attention_tile-4096x128-q20", "naive", {"online-softmax"}, {"column-of-ones"}),
        (
            "layernorm-256x1024",
            "naive",
            {"hoist-loads", "reorder-loops", "fuse-loops", "recompute"},
            {"fuse-activation", "operand-in-psum", "broadcast-by-pe", "other"},
        ),
        ("attention-512x128", "naive", set(), {"fuse-loops", "recompute", "avoid-transposes"}),
        ("gemm-256x512x512", "naive", {"recompute"}, {"hoist-loads", "fuse-loops"}),
        ("gemm-256x512x512", "tuned", {"bf16-products", "accumulate-in-psum"}, {"change-a-size"}),
        ("attention_tile-16384x128-q127", "naive", {"load-whole-runs"}, {"skip-masked"}),
    ],
)
def test_what_is_done_or_impossible_is_not_offered(
    name: str, kernel: str, without: set[str], kept: set[str]
) -> None:
    gone = left_out(name, kernel)
    assert without <= gone
    assert not kept & gone


def test_a_decoding_step_of_attention_is_offered_no_windows_and_no_statistics() -> None:
    target = create_target()
    folder = Path(__file__).parents[2] / "fixtures" / "foreign_nki" / "gqa_decode"
    task = target.open_folder(folder, {})
    found = task.modelled(task.start)
    assert isinstance(found, Measured)
    menu = target.brief().menu_for(task.workload)
    kept = applicable(target.brief(), Trial(0, 0, Candidate(task.start), found), menu)
    gone = {option.id for option in menu} - {option.id for option in kept}
    assert gone >= {
        "separable-windows", "pairs-of-windows", "taps-in-place", "bands-of-rows", "bn-stats",
        "load-windows-once", "skip-masked", "scan-instruction",
    }  # fmt: skip
    assert not gone & {"adjacent-rows", "avoid-transposes", "column-of-ones", "bf16-products"}


def test_menus_name_counts_that_exist() -> None:
    for option in create_target().brief().menu:
        assert {*option.requires, *option.unless} <= set(NAMES), option.id


def test_results_state_the_latency_that_no_kernel_can_beat() -> None:
    task = create_target().open("cumsum-2048x2048", {})
    found = task.modelled(task.baselines["tuned"])
    assert isinstance(found, Measured)
    assert found.bound == task.floor(found)[0]
    assert found.is_near_bound(0.1)
    assert not found.refutes_bound


def test_inputs_of_large_copies_have_all_digits_of_float32() -> None:
    problem = LargeExactProblem(parse_shape("transpose-8x512x512"))
    argument = Argument("x", (3, 999), "float32", "input")

    def draw(seed: int) -> np.ndarray:
        return problem.draw(argument, "small", np.random.default_rng(seed))

    values = draw(1)
    assert values.shape == argument.shape
    assert values.dtype == np.float32
    assert len(np.unique(values)) > 0.99 * values.size
    assert -0.5 <= values.min() < -0.49
    assert 0.49 < values.max() <= 0.5
    digits = np.frexp(values)[0] * 2**24
    assert (digits % 2 == 1).mean() > 0.4  # the last of 24 binary digits
    np.testing.assert_array_equal(values, draw(1))
    assert not np.array_equal(values, draw(2))

"""Kernels in styles of other projects: what they compute is found, and they are read where told."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tilewright.core.tasks import open_task
from tilewright.proposers.c.limits import limits
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Loop, Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.by_hand import left_alone
from tilewright.proposers.rewriter.raising.execute import executed
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.reading import understood
from tilewright.targets.gemmini import create_fp32_target
from tilewright.targets.gemmini.toolchain import RUNTIME

FOREIGN = Path(__file__).parents[2] / "golden" / "rewriter" / "foreign"
TUNED = Path(__file__).parents[2] / "fixtures" / "foreign"
SMALLER = {
    "hand_tuned": ("gemmini:gemm-96x64x256", {"M": 96}),
    "exported": ("gemmini:gemm-128x192x128", {"M": 128, "N": 192, "K": 128}),
    "winner": ("gemmini:gemm-224x256x128", {"M": 224, "K": 128}),
    "conv_public": (
        "gemmini:conv-2x20x20x64x64-k3s1", {"BATCH": 2, "CH": 64, "OUT": 64, "SIDE": 20},
    ),
    "conv_rows": ("gemmini:conv-2x14x14x64x64-k3s1", {"BATCH": 2, "CH": 64, "OUT": 64}),
    "fp32_strips": ("gemmini-fp32-4x4:gemm-32x48x32", {"M": 32, "N": 48, "K": 32}),
    "rocc_auto_512": (
        "gemmini:gemm-160x192x96", {"MAT_DIM_I": 160, "MAT_DIM_J": 192, "MAT_DIM_K": 96},
    ),
    "conv_relu_28": (
        "gemmini:conv-2x12x12x64x128-k3s1",
        {"BATCH_SIZE": 2, "OUT_ROW_DIM": 12, "OUT_COL_DIM": 12, "IN_CHANNELS": 64},
    ),
    "rocc_os_512": ("gemmini:gemm-128x128x128", {"N": 128}),
    "rocc_ws_tiles_784": (
        "gemmini:gemm-112x128x256", {"DIM_I": 112, "DIM_J": 128, "DIM_K": 256},
    ),
}  # fmt: skip
"""Sizes of the kernels of tests/fixtures/foreign for which they are quickly followed."""


@pytest.mark.parametrize("name", sorted(p.stem for p in FOREIGN.glob("*.c")))
def test_the_computation_is_one_nest(machine: Machine, name: str) -> None:
    naive = raised((FOREIGN / f"{name}.c").read_text(), machine)
    assert sum(isinstance(s, Loop) for s in naive.body) == 1
    assert not any(isinstance(s, Opaque) for s in walk(naive.body))


def issued(source: str, machine: Machine) -> list[tuple[object, ...]]:
    """The commands of a run, whatever they are written like; local addresses have 32 bits."""
    run = executed(source, machine)
    low = [
        [v & 0xFFFFFFFF if isinstance(v, int) and v < 1 << 32 else v for v in event[2:]]
        for event in run.events
    ]
    names = (run.commands[event[0]] for event in run.events)
    return [(name, *values) for name, values in zip(names, low, strict=True)]


@pytest.mark.parametrize("name", sorted(p.stem for p in FOREIGN.glob("*.c")))
def test_all_of_a_kernel_is_understood_and_issues_what_it_did(machine: Machine, name: str) -> None:
    source = (FOREIGN / f"{name}.c").read_text()
    assert left_alone(source, machine) == []
    assert issued(emit(understood(source, machine)), machine) == issued(source, machine)


@pytest.mark.parametrize("name", ["hand_tuned", "exported", "winner", "conv_rows", "conv_relu_28"])
def test_so_is_a_tuned_kernel_of_its_own_size(machine: Machine, name: str) -> None:
    source = smaller(name)
    kernel = understood(source, machine)
    assert not any(isinstance(s, Opaque) for s in walk(kernel.body))
    assert sum(1 for _ in walk(kernel.body)) < 100
    assert issued(emit(kernel), machine) == issued(source, machine)


@pytest.mark.parametrize(
    "name",
    [
        "rocc_os_784", "exo_instr_12544", "pingpong_512", "conv_rows_7", "mpc_gains",
        "exo_blocks_512", "exo_subwindows_784", "exo_macros_3136", "exo_conv_windows_28",
        "exo_windows_fp32", "exo_pointers_12544", "exo_list_512", "exo_edges_784",
        "exo_context_3136", "hand_rob_12544", "rocc_padded_500", "llm_k_outer_784",
        "llm_pointers_3136", "hand_switch_512", "llm_ragged_250", "rocc_conv_ragged",
        "llm_taps_28", "implicit_gemm_14",
    ],
)  # fmt: skip
def test_a_tuned_kernel_is_read_whole_at_its_full_size(machine: Machine, name: str) -> None:
    """Sums that stay in the array, windows by value, pointers that begin as null, a controller,
    what Exo prints (an allocator, windows of windows, commands in macros, a null context), and
    loads that a counter deals out among products, which form hundreds of loops."""
    if name in ("mpc_gains", "exo_windows_fp32"):
        machine = Machine.of(create_fp32_target().brief())
    assert left_alone((TUNED / f"{name}.c").read_text(), machine) == []


@pytest.mark.parametrize("name", ["batched_heads", "residual_sum", "transposed_gradient"])
def test_products_with_more_than_two_plain_operands_are_read(machine: Machine, name: str) -> None:
    """Many small products, sums added to the accumulator, and blocks that the array transposes."""
    source = (TUNED / f"{name}.c").read_text()
    assert left_alone(source, machine) == []
    assert issued(emit(understood(source, machine)), machine) == issued(source, machine)


def test_sums_that_begin_in_the_first_of_two_loops_keep_that_test(machine: Machine) -> None:
    kernel = understood(smaller("winner"), machine)
    assert " + kk > 0 ? ACCUMULATE : 0)" in emit(kernel) or "> 0 ? ACCUMULATE : 0)" in emit(kernel)


def smaller(name: str) -> str:
    """A kernel of tests/fixtures/foreign, of sizes that are quickly followed."""
    source = (TUNED / f"{name}.c").read_text()
    for size, value in SMALLER[name][1].items():
        source, found = re.subn(rf"#define {size} \d+", f"#define {size} {value}", source)
        assert found == 1
    return source


@pytest.mark.parametrize("name", SMALLER)
def test_a_tuned_kernel_becomes_the_naive_nest_of_its_shape(machine: Machine, name: str) -> None:
    workload, source = SMALLER[name][0], smaller(name)
    if name.startswith("fp32"):
        machine = Machine.of(create_fp32_target().brief())
    nests = [raised(s, machine) for s in (source, open_task(workload, {}).task.start)]
    loops = [emit(replace(n, before="")).partition("\n  for ")[2] for n in nests]
    assert loops[0] == loops[1]
    assert loops[0].count("for (") >= 2


@pytest.mark.parametrize("name", ["public_names", "exported"])
def test_numbers_as_addresses_are_read_for_what_they_are(machine: Machine, name: str) -> None:
    kernel = lift((FOREIGN / f"{name}.c").read_text(), machine)
    assert [s.reason for s in walk(kernel.body) if isinstance(s, Opaque)] == []
    text = emit(kernel)
    assert "compute_preloaded(SPAD(0), NONE" in text
    assert "ACC(0) | " in text
    assert "mvout" in text


def test_the_header_has_the_macros_that_the_rewriter_knows(machine: Machine) -> None:
    header = (RUNTIME / "gemmini.h").read_text()
    given = set(re.findall(r"#define ((?:gemmini_[a-z0-9]\w*[a-z0-9]\(|[A-Z]+_).*)", header))
    assert len(machine.macros) > 25
    types = {m for m in machine.macros if m.split()[0].endswith("_t")}
    assert len(types) == 4
    assert set(machine.macros) - types - set(limits("", ("stdint.h",))) <= given

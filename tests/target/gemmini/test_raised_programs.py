"""Random programs compute on the co-simulator what their naive nest computes.

`pytest --raised-programs 200 tests/target/gemmini/test_raised_programs.py` tries 200 of them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.records import Artifact, Candidate, Verdict
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Array
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE
from tilewright.proposers.rewriter.planning.overlapped.chains import chained_sequences
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.raising.schedule import scheduled
from tilewright.targets.gemmini import create_fp32_target, create_target
from tilewright.targets.gemmini.memory import argument_addresses
from tilewright.targets.gemmini.target import GemminiTarget
from tilewright.targets.gemmini.toolchain import compile_kernel, find_gcc, find_toolchain, find_zig

from .random_programs import (
    Matrix,
    Program,
    chained_program,
    random_program,
    with_own_arrays,
)

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
TARGET = create_target()
TARGETS = {"gemmini": TARGET, "gemmini-fp32-4x4": create_fp32_target()}
C_TYPES = {"int8": "int8_t", "int32": "int32_t", "float32": "float"}
DTYPES = {c: dtype for dtype, c in C_TYPES.items()}
MACHINE = Machine.of(TARGET.brief())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(int(metafunc.config.getoption("--raised-programs"))))


def left(program: Program, source: str) -> list[bytes]:
    """What a kernel leaves in all arrays of a program."""
    return left_in(program.arguments, program.inputs, source)


def left_in(
    arguments: Sequence[Matrix | Array],
    inputs: Collection[str],
    source: str,
    target: GemminiTarget = TARGET,
) -> list[bytes]:
    """What a kernel leaves in its arrays, beginning with values of one seed."""
    from tilewright.targets.gemmini import sim

    built = compile_kernel(find_toolchain(), source, target.instance.header, 60.0)
    assert isinstance(built, bytes), built
    rng = np.random.default_rng(7)
    arrays = [rng.integers(-9, 10, a.shape).astype(DTYPES[a.element]) for a in arguments]
    places = argument_addresses([a.nbytes for a in arrays])
    regions = [
        sim.Region(place, array, a.name not in inputs, a.name)
        for a, array, place in zip(arguments, arrays, places, strict=True)
    ]
    result = sim.run_kernel(
        target.instance.config, built, regions, timing=False, ordering="fence", limit_cycles=None,
        max_instructions=100_000_000, max_host_s=60.0,
    )  # fmt: skip
    assert result.status == "ok", result
    return [bytes(output) for output in result.outputs]


@pytest.mark.parametrize("own", [False, True])
def test_the_naive_nest_leaves_the_same(seed: int, own: bool) -> None:
    program = random_program(seed)
    program = with_own_arrays(program) if own else program
    naive = emit(raised(program.source, MACHINE))
    found, expected = left(program, naive), left(program, program.source)
    assert found == expected, f"{program.source}\n\n{naive}"
    assert any(any(output) for output in expected)


def test_products_that_read_results_in_local_memory_leave_the_same(seed: int) -> None:
    program = chained_program(seed)
    chained = emit(raised(program.source, MACHINE, chained=True))
    found, expected = left(program, chained), left(program, program.source)
    assert found == expected, f"{program.source}\n\n{chained}"
    assert any(any(output) for output in expected)


def test_schedules_of_such_products_leave_the_same(seed: int) -> None:
    program = chained_program(seed, tiles=8)
    try:
        nest = raised(program.source, MACHINE, chained=True)
    except NotRaised:
        pytest.skip("the results of the products do not stay in local memory")
    expected = left(program, program.source)
    for steps, kernel in chained_sequences(nest, MACHINE, frozenset(CATALOGUE)):
        assert left(program, emit(kernel)) == expected, "; ".join(map(str, steps))


@pytest.mark.parametrize("own", [False, True])
def test_the_loops_found_in_its_commands_issue_the_same(seed: int, own: bool) -> None:
    program = random_program(seed)
    source = (with_own_arrays(program) if own else program).source
    try:
        loops = emit(scheduled(source, MACHINE))
    except NotRaised as refused:
        pytest.skip(f"no loops: {refused}")
    assert [e[2:] for e in executed(loops, MACHINE).events] == [
        e[2:] for e in executed(source, MACHINE).events
    ]


FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"
KEPT = {
    "attention_countdown": "mvout copies rows of SPAD to memory",
    "scaled_in_accumulator": "row 0 of ACC is used",
}
"""Kernels whose computation is not derived, with the reason."""


CHAINED = frozenset(
    (
        *("attention_heads", "attention_naive", "attention_packed", "attention_tiles"),
        *("generated_attention", "layers_skip", "mlp_layers", "pingpong_mlp"),
    )
)
"""Kernels with products that can read results of the product before them in local memory."""


@pytest.mark.parametrize("name", sorted(p.name for p in FOLDERS.iterdir()))
def test_kernels_of_other_authors_compute_what_their_naive_nest_computes(name: str) -> None:
    source = (FOLDERS / name / "kernel.c").read_text()
    described = tomllib.loads((FOLDERS / name / "workload.toml").read_text())
    target = TARGETS[described["target"]]
    machine = Machine.of(target.brief())
    arguments = tuple(
        Array(a["name"], tuple(a["shape"]), C_TYPES[a["dtype"]]) for a in described["argument"]
    )
    inputs = frozenset(a["name"] for a in described["argument"] if a["role"] == "input")
    expected = left_in(arguments, inputs, source, target)
    if name in KEPT:
        with pytest.raises(NotRaised, match=KEPT[name]):
            raised(source, machine)
        return
    assert left_in(arguments, inputs, emit(raised(source, machine)), target) == expected
    if name in CHAINED:
        chained = emit(raised(source, machine, chained=True))
        assert left_in(arguments, inputs, chained, target) == expected
    else:
        with pytest.raises(NotRaised):
            raised(source, machine, chained=True)


def test_config_ex_scales_operands_from_the_accumulator() -> None:
    task = TARGET.open_folder(FOLDERS / "scaled_in_accumulator", {})
    builder, checker, _ = task.evaluator
    for scale, right in (("0.03125f", True), ("0.0625f", False)):
        built = builder.build(Candidate(task.start.replace("0.03125f", scale)))
        assert isinstance(built, Artifact), built
        assert isinstance(checker.check(built), Verdict) == right

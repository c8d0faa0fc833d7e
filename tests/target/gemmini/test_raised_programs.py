"""Random programs compute on the co-simulator what their naive nest computes.

`pytest --raised-programs 200 tests/target/gemmini/test_raised_programs.py` tries 200 of them.
"""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.raising.schedule import scheduled
from tilewright.targets.gemmini import create_target
from tilewright.targets.gemmini.memory import argument_addresses
from tilewright.targets.gemmini.toolchain import compile_kernel, find_gcc, find_toolchain, find_zig

from .random_programs import Program, random_program, with_own_arrays

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
TARGET = create_target()
MACHINE = Machine.of(TARGET.brief())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(int(metafunc.config.getoption("--raised-programs"))))


def left(program: Program, source: str) -> list[bytes]:
    """What a kernel leaves in all arrays, beginning with those of the program's seed."""
    from tilewright.targets.gemmini import sim

    built = compile_kernel(find_toolchain(), source, TARGET.instance.header, 60.0)
    assert isinstance(built, bytes), built
    rng = np.random.default_rng(7)
    arrays = [
        rng.integers(-9, 10, a.shape).astype(a.element.removesuffix("_t"))
        for a in program.arguments
    ]
    places = argument_addresses([a.nbytes for a in arrays])
    regions = [
        sim.Region(place, array, a.name not in program.inputs, a.name)
        for a, array, place in zip(program.arguments, arrays, places, strict=True)
    ]
    result = sim.run_kernel(
        TARGET.instance.config, built, regions, timing=False, ordering="fence", limit_cycles=None,
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

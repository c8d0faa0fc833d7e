"""Kernels of real tile instructions on a CPU without them: what they compute, and what they ran."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.core.records import Failed
from tilewright.native.toolchain import compile_kernel, find_toolchain
from tilewright.parts.float_error import deviations
from tilewright.parts.inputs import Array
from tilewright.targets.amx.elements import Element
from tilewright.targets.amx.problems import create_problem
from tilewright.targets.amx.shapes import parse_shape
from tilewright.targets.amx.target import HEADER, header

Trapped = Callable[[str, str, Element], tuple[bool, dict[str, int]]]


MOST_DEVIATIONS = 60.0
"""Float32 sums of these lengths are off by fewer than twenty, bfloat16 ones by thousands."""


@pytest.fixture(scope="session")
def trapping_object(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`trapped.c`, compiled: a kernel is linked to it."""
    folder = tmp_path_factory.mktemp("trapped")
    (folder / HEADER).write_text(header("emulated"))
    source = Path(__file__).with_name("trapped.c")
    command = ["gcc", "-O3", "-w", f"-I{folder}", "-c", str(source), "-o", "trapped.o"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "trapped.o"


@pytest.fixture
def trapped(trapping_object: Path, tmp_path: Path) -> Trapped:
    """Whether a kernel is right on values drawn anew, and how often it ran each instruction."""

    def run(source: str, spec: str, element: Element) -> tuple[bool, dict[str, int]]:
        shape = parse_shape(spec, element)
        problem: Any = create_problem(shape, element)
        headers = {HEADER: header("hardware")}
        binary = compile_kernel(find_toolchain(), source, 20.0, headers)
        assert not isinstance(binary, Failed), binary.log
        (tmp_path / "kernel.o").write_bytes(binary)
        program = str(tmp_path / "trapped")
        parts = [str(trapping_object), str(tmp_path / "kernel.o")]
        subprocess.run(["gcc", *parts, "-o", program, "-lm"], check=True)
        rng = np.random.default_rng(7)
        given: dict[str, Array] = {}
        command = [program]
        *inputs, result = shape.arguments(element)
        for argument in inputs:
            given[argument.name] = problem.draw(argument, "small", rng)
            (tmp_path / argument.name).write_bytes(given[argument.name].tobytes())
            command += ["r", str(tmp_path / argument.name)]
        output = tmp_path / result.name
        output.write_bytes(b"\xff" * int(np.prod(result.shape)) * 4)
        printed = subprocess.run([*command, "w", str(output)], check=True, capture_output=True)
        lines = [line.split() for line in printed.stdout.decode().splitlines()]
        got = np.fromfile(output, result.dtype).reshape(result.shape)
        expected: Any = problem.reference(given)[result.name].reshape(result.shape)
        if isinstance(expected, np.ndarray):
            right = bool((got == expected).all())
        else:
            right = bool((deviations(got, expected) <= MOST_DEVIATIONS).all())
        return right, {name: int(count) for name, count in lines}

    return run

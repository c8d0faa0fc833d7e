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
from tilewright.parts.inputs import Array
from tilewright.targets.amx.elements import Element
from tilewright.targets.amx.problems import TileProblem
from tilewright.targets.amx.shapes import parse_shape
from tilewright.targets.amx.target import HEADER, header

Trapped = Callable[[str, str, Element], tuple[bool, dict[str, int]]]


@pytest.fixture(scope="session")
def trapping_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`trapped.c`, built."""
    folder = tmp_path_factory.mktemp("trapped")
    (folder / HEADER).write_text(header("emulated"))
    source = Path(__file__).with_name("trapped.c")
    command = ["gcc", "-O3", "-w", f"-I{folder}", str(source), "-o", "trapped", "-ldl", "-lm"]
    subprocess.run(command, check=True, cwd=folder)
    return folder / "trapped"


@pytest.fixture
def trapped(trapping_program: Path, tmp_path: Path) -> Trapped:
    """Whether a kernel is right on values drawn anew, and how often it ran each instruction."""

    def run(source: str, spec: str, element: Element) -> tuple[bool, dict[str, int]]:
        shape = parse_shape(spec, element)
        problem = TileProblem(shape, element)
        headers = {HEADER: header("hardware")}
        image = compile_kernel(find_toolchain(), source, 20.0, headers)
        assert not isinstance(image, Failed), image.log
        (tmp_path / "kernel.so").write_bytes(image)
        rng = np.random.default_rng(7)
        given: dict[str, Array] = {}
        command = [str(trapping_program), str(tmp_path / "kernel.so")]
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
        expected: Any = problem.reference(given)[result.name]
        if isinstance(expected, np.ndarray):
            right = bool((got == expected).all())
        else:
            right = bool((abs(got - expected.value) <= expected.error).all())
        return right, {name: int(count) for name, count in lines}

    return run

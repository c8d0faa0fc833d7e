"""Kernels of the registered kinds in the styles that others write them in, of both versions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.parts.cases import Cases
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.problems.create import create_problem
from tilewright.targets.trainium.program import Call, parse, run_program, trace_program
from tilewright.targets.trainium.shapes import parse_shape

FOREIGN = sorted((Path(__file__).parent / "foreign").glob("*.txt"))
"""The first line of each names its workload."""


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_kernels_in_foreign_styles_run_as_they_are(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    shape = parse_shape(source.partition("\n")[0].removeprefix("# "))
    given = tuple(a for a in shape.arguments if a.is_given)
    call = Call(given, tuple(a for a in shape.arguments if a.is_written), shape.constants)
    machine, program = load_machine("trn1"), parse(source)
    assert trace_program(program, call, machine).instructions
    cases = Cases(shape.workload("trainium"), create_problem(shape), 7)
    case = cases[cases.compared(1)[0]]
    found = run_program(program, call, machine, case.given, shuffle=3)
    outputs = {
        a.name: np.ascontiguousarray(values).tobytes()
        for a, values in zip(call.outputs, found, strict=True)
    }
    assert case.mismatch(outputs) is None

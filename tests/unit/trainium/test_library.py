"""The naive and tuned kernels of every workload are right, and wrong variants are refused."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import numpy as np
import pytest
from nki_world import SMALL

import tilewright.targets.trainium as trainium
from tilewright.parts.case import Case
from tilewright.parts.cases import Cases
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.machine import load_machine
from tilewright.targets.trainium.problems.create import create_problem
from tilewright.targets.trainium.program import Call, parse, run_program
from tilewright.targets.trainium.shapes import KINDS, REGISTERED, Shape, parse_shape

LIBRARY = Path(trainium.__file__).parent / "library"
WRONG = (
    # What is changed in the naive kernel, and what it then does.
    ("rmsnorm-128x600", "op=nl.square", "op=nl.abs", "sums magnitudes"),
    ("layernorm-128x512", "op0=nl.subtract, operand0=mean", "op0=nl.add, operand0=mean", "adds"),
    ("gemm-256x512x256", "K // 128)", "K // 128 - 1)", "leaves out the last block of K"),
    ("gemm-256x512x256", "moving=right)", "moving=right, accumulate=False)", "does not accumulate"),
    ("mamba-1x128x2x32", "op0=nl.multiply, op1=nl.add", "op0=nl.add, op1=nl.add", "other scan"),
    ("attention-512x128", "nl.affine_range(tiles):\n            part",
     "range(1):\n            part", "only the first keys"),
    ("sd_attention-512x64", "bias=top", "bias=None", "no maximum is subtracted"),
    ("cumsum-128x1100", "op1=nl.add", "op1=nl.maximum", "running maxima"),
    ("transpose-1x256x128", "data=tile)", "data=tile)\n                turned = tile", "swapped"),
    ("maxpool-140x150-k3", "[1, pool_size],", "[1, pool_size - 1],", "windows are too small"),
    ("rope-128x64", "op=nl.subtract", "op=nl.add", "wrong sign"),
    ("conv1d-1x128x40-k3", "[:, before : before + W]", "[:, 0:W]", "shifted by one"),
    ("conv2d-1x128x8x16x128-k3", "source = r * rows + y - 1", "source = r * rows", "same rows"),
    ("causal_attention-512x128", "offset=i * 128 - j * 512", "offset=i * 128 - j * 512 - 1",
     "the mask is off by one"),
    ("attention_tile-1024x128-q6", "operand1=9984.0", "operand1=9983.0", "mask of one"),
    ("multihead_attention-1x512x128", "q[h, first:last", "k[h, first:last", "another operand"),
)  # fmt: skip


def call_of(shape: Shape) -> Call:
    given = tuple(a for a in shape.arguments if a.is_given)
    return Call(given, tuple(a for a in shape.arguments if a.is_written), shape.constants)


def cases_of(shape: Shape) -> list[Case]:
    cases = Cases(shape.workload("trainium"), create_problem(shape), 7)
    return [cases[number] for number in cases.compared(1)]


def source_of(shape: Shape, which: str) -> str:
    return (LIBRARY / which / f"{shape.kind}.py").read_text(encoding="utf-8")


def mismatch(source: str, shape: Shape, case: Case) -> str | None:
    call = call_of(shape)
    found = run_program(parse(source), call, load_machine("trn1"), case.given)
    outputs = {
        a.name: np.ascontiguousarray(values).tobytes()
        for a, values in zip(call.outputs, found, strict=True)
    }
    return case.mismatch(outputs)


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[Case]]:
    return {}


@pytest.mark.parametrize("name", SMALL)
def test_naive_and_tuned_kernels_are_right(name: str, drawn: dict[str, list[Case]]) -> None:
    shape = parse_shape(name)
    drawn[name] = cases_of(shape)
    for which in ("naive", "tuned"):
        for case in drawn[name]:
            assert mismatch(source_of(shape, which), shape, case) is None


@pytest.mark.parametrize(("name", "before", "after", "what"), WRONG)
def test_wrong_variants_are_refused(
    name: str, before: str, after: str, what: str, drawn: dict[str, list[Case]]
) -> None:
    shape = parse_shape(name)
    source = source_of(shape, "naive")
    assert before in source
    wrong = source.replace(before, after)
    cases = drawn.get(name) or cases_of(shape)
    with contextlib.suppress(KernelError):  # refused before any comparison
        assert any(mismatch(wrong, shape, case) is not None for case in cases), what


@pytest.mark.parametrize(
    ("name", "operands", "wider"),
    [
        ("attention-512x128", r"((?:queries|keys) = .*)nl\.float32", "nl.tfloat32"),
        ("sd_attention-512x64", r"((?:values|keys|query) = .*)nl\.bfloat16", "nl.bfloat16"),
        ("gemm-256x512x256", r"((?:left|right) = .*)(?:lhsT|rhs)\.dtype", "nl.bfloat16"),
    ],
)
def test_operands_may_be_rounded_but_not_to_the_range_of_float16(
    name: str, operands: str, wider: str, drawn: dict[str, list[Case]]
) -> None:
    shape = parse_shape(name)
    cases = drawn.get(name) or cases_of(shape)
    for kind, right in ((wider, True), ("nl.float16", False)):
        source = re.sub(operands, rf"\1{kind}", source_of(shape, "naive"))
        assert source.count(kind) >= 2
        assert all(mismatch(source, shape, case) is None for case in cases) == right


def test_every_kind_has_a_registered_name_and_both_kernels() -> None:
    assert {name.partition("-")[0] for name in REGISTERED} == set(KINDS)
    assert {parse_shape(name).name for name in REGISTERED} == set(REGISTERED)
    for which in ("naive", "tuned"):
        assert {path.stem for path in (LIBRARY / which).glob("*.py")} == set(KINDS)

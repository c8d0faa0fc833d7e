"""The baseline of the tile targets without tiles computes what their kernels compute."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright.core.records import Artifact, Candidate, Failed, Verdict
from tilewright.targets.amx.elements import BF16, INT8, Element
from tilewright.targets.amx.shapes import parse_shape
from tilewright.targets.amx.target import AmxTarget

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None, reason="no C compiler for this machine"
)
FOLDER = Path(__file__).resolve().parents[3] / "benchmarks"


@pytest.mark.parametrize("element", [INT8, BF16], ids=lambda element: element.name)
@pytest.mark.parametrize(
    "name", ["gemm-16x48x128", "gemm-16x48x128-packed", "conv-2x3x5x64x16-k3s1"]
)
def test_plain_loops_are_right(
    name: str, element: Element, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    from amx_loops import plain_loops

    source: str = plain_loops(parse_shape(name, element), element)
    assert "tile" not in source
    builder, checker, _ = AmxTarget(element).open(name, {"input_seed": 5}).evaluator
    built = builder.build(Candidate(source))
    assert isinstance(built, Artifact), built
    assert isinstance(checker.check(built), Verdict)
    wrong = builder.build(Candidate(source.replace("] += ", "] = ")))
    assert isinstance(wrong, Artifact), wrong
    assert isinstance(checker.check(wrong), Failed)

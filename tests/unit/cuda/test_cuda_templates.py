"""Our own kernels with free parameters are right whatever values are chosen, edges included."""

from __future__ import annotations

import random
import shutil

import pytest

from tilewright.core.records import Artifact, Candidate, Failed, Verdict
from tilewright.core.templates import parse_template
from tilewright.parts.languages import CUDA
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.nvcc import Compiled
from tilewright.targets.cuda.shapes import KINDS
from tilewright.targets.cuda.source import refused
from tilewright.targets.cuda.task import CudaTask

SHAPES = {
    "gemm": "gemm-50x40x70",
    "matmul3d": "matmul3d-2x33x20x40",
    "softmax": "softmax-9x130",
    "rowsum": "rowsum-9x132",
    "chain": "chain-7x100",
    "stencil": "stencil-37x70",
    "conv2d": "conv2d-2x3x12x10x20-k3x2s2p1",
    "conv2dbias": "conv2dbias-1x3x16x16x18-k5x5s3p2",
    "conv3d": "conv3d-2x3x5x6x7x18-k3",
}


def test_every_kind_of_workload_has_one() -> None:
    assert set(SHAPES) == set(KINDS)
    for spec in SHAPES.values():
        assert create_target().open(spec, {}).templates()


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
@pytest.mark.parametrize("kind", sorted(set(SHAPES) - {"matmul3d", "rowsum", "conv2d"}))
def test_an_instance_drawn_at_random_is_right(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", ()))
    task = create_target().open(SHAPES[kind], {"input_seed": 5})
    (text,) = task.templates().values()
    assert checked(task, text, kind).precision == "float32"


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
def test_the_check_of_a_product_needs_no_further_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each condition on loaded values has had both results in the usual runs. Further runs would
    double the time of the check."""
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", ()))
    monkeypatch.setattr(CudaEvaluation, "still_untested", None)
    task = create_target().open(SHAPES["gemm"], {"input_seed": 5})
    (text,) = task.templates().values()
    template = parse_template(text, CUDA.templates)
    assert template is not None
    source = template.instance(template.first)
    verdict = task.evaluator[1].check(Artifact("", b"", "", source))
    assert isinstance(verdict, Verdict), verdict.log


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
@pytest.mark.parametrize("kind", ["gemm", "conv2dbias"])
def test_where_tf32_is_enough_products_use_tensor_cores(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", ()))
    lower = {"input_seed": 5, "target_settings": {"precision": "tf32"}}
    task = create_target().open(SHAPES[kind], lower)
    text = task.templates()["product on tensor cores"]
    assert checked(task, text, kind).precision == "tf32-like"


def test_templates_on_tensor_cores_need_tensor_cores_that_take_tf32() -> None:
    lower = {"precision": "tf32", "arch": "sm_75"}
    assert list(create_target().open(SHAPES["gemm"], {"target_settings": lower}).templates()) == [
        "product"
    ]


def checked(task: CudaTask, text: str, kind: str) -> Verdict:
    """Of an instance of a template with values drawn at random."""
    template = parse_template(text, CUDA.templates)
    assert template is not None
    assert len(template.points()) > 10
    values = template.assignment(random.Random(f"{kind} 1").choice(template.points()))
    source = template.instance(values)
    assert refused(source) is None
    verdict = task.evaluator[1].check(Artifact(Candidate(source).id, b"", "", source))
    assert not isinstance(verdict, Failed), f"{values}: {verdict.log}"
    return verdict

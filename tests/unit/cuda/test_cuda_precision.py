"""A user may accept less than float32, class by class; a verdict names the class that it found."""

from __future__ import annotations

import shutil

import pytest

from tilewright.core.errors import UnknownNameError
from tilewright.core.records import Artifact, Candidate, Failed
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.checker import CudaChecker
from tilewright.targets.cuda.evaluation import CudaEvaluation
from tilewright.targets.cuda.nvcc import Compiled

ROUNDED = {
    "float32": "A[(size_t)row * K + k]",
    "tf32-like": "__half2float(__float2half(A[(size_t)row * K + k]))",
    "bf16-like": "__bfloat162float(__float2bfloat16(A[(size_t)row * K + k]))",
}
HEADERS = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"


def checked(found: str, allowed: str, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(CudaEvaluation, "compiled", lambda self, source: Compiled(b"", ()))
    settings = {"input_seed": 3, "target_settings": {"precision": allowed}}
    task = create_target().open("gemm-16x16x64", settings)
    source = HEADERS + task.start.replace(ROUNDED["float32"], ROUNDED[found], 1)
    assert found == "float32" or ROUNDED[found] in source
    checker = task.evaluator[1]
    assert isinstance(checker, CudaChecker)
    return checker.check_first(Artifact(Candidate(source).id, b"", "", source))


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
@pytest.mark.parametrize(
    ("found", "allowed", "right"),
    [
        ("float32", "tf32", True),
        ("tf32-like", "float32", False),
        ("tf32-like", "tf32", True),
        ("bf16-like", "tf32", False),
        ("bf16-like", "bf16", True),
    ],
)
def test_what_is_allowed_passes_under_its_name(
    found: str, allowed: str, right: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = checked(found, allowed, monkeypatch)
    if right:
        assert not isinstance(outcome, Failed), outcome.log
        assert outcome.precision == found  # type: ignore[attr-defined]
    else:
        assert isinstance(outcome, Failed)
        assert outcome.kind == "wrong_result"


def test_another_name_is_refused_and_another_class_is_another_task() -> None:
    target = create_target()
    with pytest.raises(UnknownNameError, match="fp8"):
        target.open("gemm-16x16x64", {"target_settings": {"precision": "fp8"}})
    tasks = [
        target.open("gemm-16x16x64", {"target_settings": {"precision": name}})
        for name in ("float32", "tf32")
    ]
    assert tasks[0].fingerprint != tasks[1].fingerprint

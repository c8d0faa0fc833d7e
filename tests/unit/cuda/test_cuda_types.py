"""CUDA's types have the same sizes on the CPU as in NVIDIA's headers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tilewright.core.records import Argument, Failed
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.launcher import call
from tilewright.targets.cuda.nvcc import find_nvcc

SOURCE = Path(__file__).with_name("sizes_of_types.cu").read_text()
CALL = call((Argument("A", (4,), "float32", "input"), Argument("C", (4,), "float32", "output")), ())


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++ on PATH")
def test_types_have_the_expected_sizes_on_the_cpu() -> None:
    outcome = find_cpu_compiler().compile(SOURCE, CALL, 60)
    assert not isinstance(outcome, Failed), outcome.log


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc on PATH")
def test_types_have_the_expected_sizes_for_a_gpu() -> None:
    outcome = find_nvcc().compile(SOURCE, CALL, "sm_90", 120)
    assert not isinstance(outcome, Failed), outcome.log

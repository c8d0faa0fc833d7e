"""Measures the CPU seconds of each step from a CUDA kernel's source to its verdict at level 1.

Two kernels are evaluated in a row. The second one shows the cost in a search, because inputs and
expected outputs are already available. CPU time is used, because other programs extend wall time.
Needs nvcc and g++.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from tilewright.core.records import Artifact, Candidate, Verdict
from tilewright.core.templates import parse_template
from tilewright.parts.languages import CUDA
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.cpu_program import find_cpu_compiler
from tilewright.targets.cuda.nvcc import find_nvcc

SPEC = "gemm-1024x1024x1024"
Found = TypeVar("Found")


def timed(name: str, work: Callable[[], Found]) -> Found:
    """Print what a step took of the CPU, that of its compilers and kernels included."""
    before, found, after = sum(os.times()[:4]), work(), sum(os.times()[:4])
    print(f"  {name:22} {after - before:5.2f} s")
    return found


def main() -> None:
    """The starting kernel, then an instance of our own template."""
    task = create_target().open(SPEC, {})
    (text,) = task.templates().values()
    template = parse_template(text, CUDA.templates)
    assert template is not None
    find_nvcc(), find_cpu_compiler()  # found and tried once in a process
    builder, checker, _ = task.evaluator
    for name, source in {
        "start": task.start,
        "template": template.instance(template.first),
    }.items():
        print(f"{SPEC}, {name}")
        before = sum(os.times()[:4])
        artifact = timed("nvcc", partial(builder.build, Candidate(source)))
        assert isinstance(artifact, Artifact), artifact
        verdict = timed("g++, runs, comparisons", partial(checker.check, artifact))
        assert isinstance(verdict, Verdict), verdict
        print(f"  {'all':22} {sum(os.times()[:4]) - before:5.2f} s")


if __name__ == "__main__":
    main()

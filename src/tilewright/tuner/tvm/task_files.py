"""Writes arguments and expected outputs to files for the measuring process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tilewright.tuner.tvm.oracle import expectation
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.runner import Task


@contextmanager
def task_files(program: Program, seed: int) -> Iterator[Task]:
    """The arguments and the expected output of a program as files for the measuring process."""
    wanted = expectation(program.function, seed)
    with tempfile.TemporaryDirectory(prefix="tilewright-task-") as name:
        folder = Path(name)
        for n, array in enumerate(wanted.arguments):
            np.save(folder / f"{n}.npy", array)
        np.save(folder / "expected.npy", wanted.expected)
        inputs = tuple(folder / f"{n}.npy" for n in range(len(wanted.arguments)))
        yield Task(inputs, wanted.output, folder / "expected.npy", wanted.bound)

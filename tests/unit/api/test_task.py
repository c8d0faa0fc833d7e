"""A task made of a kernel, a function and arrays becomes a folder that any process opens."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright.api.task import written
from tilewright.core.errors import TilewrightError
from tilewright.core.records import Verdict
from tilewright.core.tasks import open_task

KERNEL = "void kernel(const float x[4][8], float out[8]) {}\n"
X = {"x": np.ones((4, 8), np.float32)}


def summed(x: Any) -> Any:
    return x.sum(axis=0)


def both(x: Any) -> Any:
    return x.sum(axis=0), x.max(axis=0)


calls = 0


def counts(x: Any) -> Any:
    global calls
    calls += 1
    return x + calls


def drawn(x: Any) -> Any:
    return x + np.random.default_rng().random()


def broken(x: Any) -> Any:
    raise ZeroDivisionError("no")


def nothing(x: Any) -> Any:
    return None


def imaginary(x: Any) -> Any:
    return x * np.complex64(1j)


def test_the_folder_opens_as_the_same_task(tmp_path: Path) -> None:
    task = tw.Task(KERNEL, summed, X, tolerance=tw.Tolerance(1e-5), ranges={"x": (0, 1)})
    folder = Path(written(task, tmp_path / "a"))
    assert sorted(f.name for f in folder.iterdir()) == ["kernel.c", "reference.py", "workload.toml"]
    opened = open_task(str(folder), {})
    assert opened.task.workload.name == "host-c:summed"
    assert [(a.name, a.shape, a.dtype, a.role) for a in opened.task.workload.arguments] == [
        ("x", (4, 8), "float32", "input"),
        ("out", (8,), "float32", "output"),
    ]
    assert opened.task.workload.tolerance == tw.Tolerance(1e-5, 0.0)
    assert opened.task.workload.operations == 8
    assert opened.task.start == KERNEL
    assert written(task, tmp_path / "a") == str(folder)  # the same task is the same folder
    other = tw.Task(KERNEL + "//", summed, X)
    assert written(other, tmp_path / "a") != str(folder)
    assert {f.name.partition("-")[0] for f in folder.parent.iterdir()} == {"summed"}


def test_outputs_are_named_and_counted(tmp_path: Path) -> None:
    folder = Path(written(tw.Task(KERNEL, both, X, outputs=("total", "most")), tmp_path))
    described = tomllib.loads((folder / "workload.toml").read_text())
    assert [a["name"] for a in described["argument"]] == ["x", "total", "most"]
    folder = Path(written(tw.Task(KERNEL, both, X), tmp_path))
    described = tomllib.loads((folder / "workload.toml").read_text())
    assert [a["name"] for a in described["argument"]] == ["x", "out0", "out1"]


def test_a_kernel_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.c"
    file.write_text(KERNEL)
    folder = Path(written(tw.Task(file, summed, X), tmp_path / "tasks"))
    assert (folder / "kernel.c").read_text() == KERNEL


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"reference": broken}, "raised ZeroDivisionError: no; it must compute the outputs"),
        ({"reference": counts}, "function counts changes the global 'calls'"),
        ({"reference": drawn}, "gives different results when only its source is run"),
        ({"outputs": ("a", "b")}, "returned 1 array.s., but outputs is"),
        ({"outputs": ("a b",)}, "array name 'a b' is not usable"),
        ({"inputs": {"x": np.float32(1)}}, "x is a single number"),
        ({"ranges": {"y": (0, 1)}}, "ranges names 'y'"),
        ({"kernel": Path("missing.c")}, "kernel file missing.c cannot be read"),
        ({"target": "host-d"}, "did you mean 'host-c'"),
        ({"reference": nothing}, "returned None. Return an array, or a tuple of arrays"),
        ({"reference": imaginary}, "output out is an array of complex64. Use an array of one of"),
        ({"inputs": {"x": X["x"][:0]}}, "input x has no elements"),
        ({"ranges": {"x": (1, 0)}}, "Give two numbers, the smaller one first"),
        ({"ranges": {"x": "a"}}, "Give two numbers, the smaller one first"),
        ({"kernel": None}, "kernel is None, but must be the source"),
        ({"name": "a/b"}, "task name 'a/b' is not usable"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    changed: dict[str, Any], words: str, tmp_path: Path
) -> None:
    values = {"kernel": KERNEL, "reference": summed, "inputs": X, **changed}
    with pytest.raises(TilewrightError, match=words):
        written(tw.Task(**values), tmp_path)


def test_tasks_and_records_are_shown_without_sources_and_values() -> None:
    task = tw.Task(KERNEL, summed, X)
    assert repr(task) == "Task(name='summed', target='host-c', inputs={'x': [4, 8]})"
    candidate = tw.Candidate(KERNEL)
    assert repr(candidate) == f"Candidate(id='{candidate.id}', proposer='start')"
    outcome = tw.Measured(8592.5, "ns", "measured", 0.00404, Verdict(), samples={"a": (1.0,) * 500})
    assert repr(outcome) == (
        "Measured(latency=8592.5, unit='ns', quantity='measured', utilization=0.00404, "
        "precision='')"
    )

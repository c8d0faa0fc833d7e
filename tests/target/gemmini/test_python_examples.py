"""Examples of the Python API run: docstrings of public names, docs/python.md, the notebook."""

from __future__ import annotations

import doctest
import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import tilewright as tw
from tilewright.targets.gemmini.toolchain import find_gcc, find_zig

pytestmark = [
    pytest.mark.toolchain,
    pytest.mark.skipif(
        find_gcc() is None and find_zig() is None, reason="no RISC-V cross compiler"
    ),
]
ROOT = Path(__file__).parents[3]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.S)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all, with a run of two trials that examples may open."""
    folder = tmp_path_factory.mktemp("project")
    tw.optimize("gemmini:gemm-16x16x16", budget="2 evaluations", project=folder)
    return folder


@pytest.fixture(autouse=True)
def in_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)


def examples_of(name: str) -> list[doctest.DocTest]:
    """Those of a public name and of its public members, but not of what it inherits."""
    value = getattr(tw, name)
    if inspect.ismodule(value):
        found = doctest.DocTestParser().get_doctest(value.__doc__, {}, name, None, 0)
        return [found] if found.examples else []
    tests = doctest.DocTestFinder(recurse=True).find(value, name, module=False, globs={})
    return [test for test in tests if test.examples]


@pytest.mark.parametrize("name", tw.__all__)
def test_every_public_name_has_an_example_that_runs(name: str) -> None:
    tests = examples_of(name)
    assert [test.name for test in tests if test.name == name], f"{name} has no example"
    for test in tests:
        assert "SKIP" not in test.docstring
        report: list[str] = []
        result = doctest.DocTestRunner().run(test, out=report.append)
        assert result.failed == 0, "".join(report)


class Recorder(ModuleType):
    """Stands in for a tracking package: any function, and what it was called with."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_code_of_the_documentation_runs(
    block: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trackers = {name: Recorder(name) for name in ("wandb", "mlflow") if f"import {name}" in block}
    for name, recorder in trackers.items():
        monkeypatch.setitem(sys.modules, name, recorder)
    file = project / "block.py"  # the source of a reference is read from its file
    file.write_text(block)
    exec(compile(block, str(file), "exec"), {"__name__": "block"})
    for name, recorder in trackers.items():
        names = [called for called, _, _ in recorder.calls]
        assert names[0] in ("init", "start_run"), name
        assert names[-1] in ("finish", "end_run"), name
        steps = [kwargs["step"] for _, _, kwargs in recorder.calls if "step" in kwargs]
        assert 0 in steps
        function = re.search(r"^def log_to.*?\n\n\n", block, re.S | re.M)
        assert function is not None
        assert len(function[0].splitlines()) <= 15


def test_the_notebook_runs(project: Path) -> None:
    notebook = nbformat.read(ROOT / "examples/python.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear its outputs"
    NotebookClient(notebook, timeout=240, resources={"metadata": {"path": str(project)}}).execute()
    shown = [o for c in notebook.cells for o in c.get("outputs", ()) if "data" in o]
    assert any("text/html" in output["data"] for output in shown)

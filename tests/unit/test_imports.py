"""No module imports another that imports it, also not through further ones or for types alone.

And no two test files have one name, but in folders that are packages: pytest would import one of
them for both.
"""

from __future__ import annotations

import ast
import gc
from collections import Counter
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import tilewright

ROOT = Path(tilewright.__file__).parent
TESTS = Path(__file__).parents[1]


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def parsed(file: Path) -> ast.Module:
    """Python 3.11 ends with a SystemError ("AST constructor recursion depth mismatch") if garbage
    that is collected while it makes a syntax tree formats a traceback, which makes another one.
    """
    gc.disable()
    try:
        return ast.parse(file.read_text())
    finally:
        gc.enable()


def imported(file: Path, modules: set[str], functions: bool = False) -> Iterator[str]:
    """What is imported when the module is, or for its types; what functions import if asked."""
    tree = parsed(file)
    outside = [*tree.body, *(n for b in tree.body if isinstance(b, ast.If) for n in b.body)]
    for node in ast.walk(tree) if functions else outside:
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in modules:
                    yield inner
                elif not name_of(file).startswith(f"{node.module}."):  # its extension module
                    yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)


def test_modules_do_not_import_in_a_circle() -> None:
    files = {name_of(file): file for file in ROOT.rglob("*.py")}
    graph = {name: set(imported(file, set(files))) for name, file in files.items()}
    assert len(graph) > 100
    TopologicalSorter(graph).prepare()  # `CycleError` shows the circle


def test_modules_of_trainium_do_not_import_in_a_circle_within_functions_either() -> None:
    folder = ROOT / "targets" / "trainium"
    files = {name_of(file): file for file in folder.rglob("*.py") if "library" not in file.parts}
    graph = {name: set(imported(file, set(files), functions=True)) for name, file in files.items()}
    assert len(graph) > 50
    TopologicalSorter(graph).prepare()


def test_test_files_have_names_of_their_own() -> None:
    files = [f for f in TESTS.rglob("test_*.py") if not (f.parent / "__init__.py").exists()]
    assert len(files) > 100
    count = Counter(file.name for file in files)
    assert [name for name, times in count.items() if times > 1] == []

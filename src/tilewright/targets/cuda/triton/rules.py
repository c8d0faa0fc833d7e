"""What the text of a kernel in Triton may say.

Its Python runs in a sandbox. These rules keep what it computes where it can be seen: in kernels,
not in the launcher, and not in whatever Triton's own modules could reach.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable

from tilewright.core.records import Failed
from tilewright.parts.languages import PYTHON
from tilewright.parts.source_rules import MAX_SOURCE_BYTES

_IMPORTS = {
    "import triton": "triton", "import triton.language as tl": "tl",
    "from triton import language as tl": "tl", "import torch": "torch", "import math": "math",
    "from __future__ import annotations": "annotations",
}  # fmt: skip
_OF = {
    "triton": {"jit", "cdiv", "next_power_of_2", "heuristics", "language"},
    "torch": {
        "empty", "zeros", "empty_like", "zeros_like", "Tensor", "float16", "bfloat16", "float32",
        "float64", "int8", "uint8", "int16", "int32", "int64", "bool",
    },
    "math": {"ceil", "floor", "log2", "sqrt", "prod", "gcd", "pi", "inf", "log", "exp"},
}  # fmt: skip
"""What a file may take of a module."""
_MODULES_OF_TRITON = {"core", "semantic", "standard", "random", "target_info", "extra"}
_BUILTINS = {
    "range", "min", "max", "len", "int", "float", "bool", "abs", "tuple", "list", "dict", "zip",
    "enumerate", "sum", "reversed", "sorted", "all", "any", "divmod", "round", "ValueError", "str",
}  # fmt: skip
_HIDDEN = {
    "handle", "fn", "run", "rewriter", "rewrite", "kwargs", "raw_src", "src", "data", "warmup",
    "pre_run_hooks", "add_pre_run_hook", "module", "device_caches", "room", "format", "format_map",
}  # fmt: skip
"""Attributes under which Triton and the stand-in for PyTorch keep what is theirs."""
_STATEMENTS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.Assign, ast.AnnAssign)
_REFUSED = (
    ast.Global, ast.Nonlocal, ast.Try, ast.With, ast.AsyncFunctionDef, ast.AsyncFor, ast.AsyncWith,
    ast.ClassDef, ast.Await, ast.Yield, ast.YieldFrom, ast.Delete, ast.Match,
)  # fmt: skip
_DEEPEST = 100


class _NotAllowedError(Exception):
    def __init__(self, reason: str, node: ast.AST | None = None) -> None:
        super().__init__(reason)
        self.line: int | None = getattr(node, "lineno", None)


def refused(source: str) -> Failed | None:
    """What the rules say against a source, or None."""
    try:
        _require(_parsed(source))
    except _NotAllowedError as error:
        log = PYTHON.located(f"{error}.", error.line)
        return Failed("build", "compile_error", log, error.line)
    return None


def _parsed(source: str) -> ast.Module:
    if len(source.encode("utf-8", "replace")) > MAX_SOURCE_BYTES:
        raise _NotAllowedError(f"the source is longer than {MAX_SOURCE_BYTES >> 10} KiB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source, PYTHON.file)
    except SyntaxError as error:
        found = _NotAllowedError(f"the file is no Python: {error.msg}")
        found.line = error.lineno
        raise found from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise _NotAllowedError(f"the file cannot be parsed ({type(error).__name__})") from None
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if depth > _DEEPEST:
            raise _NotAllowedError(f"the file is nested deeper than {_DEEPEST}")
        waiting.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return tree


def _require(tree: ast.Module) -> None:
    bound = set[str]()
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            bound.add(_imported(statement))
        elif not isinstance(statement, _STATEMENTS) and not _is_text(statement):
            raise _NotAllowedError("on the outermost level, only imports, functions and names that "
                                   "are given a value are allowed", statement)  # fmt: skip
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "kernel" not in functions or functions["kernel"].decorator_list:
        raise _NotAllowedError("the file defines no launcher: a plain function `kernel` with the "
                               "parameters of the starting kernel's")  # fmt: skip
    for node in ast.walk(tree):
        bound |= set(_names_of(node))
    for node in ast.walk(tree):
        _require_node(node, bound)


def _imported(node: ast.Import | ast.ImportFrom) -> str:
    said = ast.unparse(node)
    if said not in _IMPORTS:
        raise _NotAllowedError(
            f"`{said[:80]}` is not allowed: a file may `import triton`, `import triton.language as "
            "tl`, `import torch` and `import math`", node,
        )  # fmt: skip
    return _IMPORTS[said]


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _names_of(node: ast.AST) -> Iterable[str]:
    """Names that a part of the file gives a meaning; none of a module's or a builtin's."""
    found = list[str]()
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        found = [node.id]
    elif isinstance(node, ast.FunctionDef):
        found = [node.name]
    elif isinstance(node, ast.arg):
        found = [node.arg]
    for name in found:
        if name in {*_IMPORTS.values(), *_BUILTINS}:
            raise _NotAllowedError(f"{name} is given another meaning", node)
    return found


def _require_node(node: ast.AST, bound: set[str]) -> None:
    match node:
        case ast.Name(id=name):
            if name.startswith("__") or (name not in bound and name not in _BUILTINS):
                raise _NotAllowedError(f"{name} is not known here: it is defined nowhere in the "
                                       "file", node)  # fmt: skip
        case ast.arg(arg=name) if name.startswith("__"):
            raise _NotAllowedError(f"{name} begins with two underscores", node)
        case ast.Attribute(attr=name):
            _require_attribute(node, name)
        case ast.FunctionDef():
            for decorator in node.decorator_list:
                _require_decorator(decorator)
        case ast.ImportFrom() | ast.Import() if node.col_offset:
            raise _NotAllowedError("imports stand on the outermost level", node)
        case _ if isinstance(node, _REFUSED):
            raise _NotAllowedError(f"{type(node).__name__.lower()} is not allowed", node)
        case _:
            pass


def _require_attribute(node: ast.Attribute, name: str) -> None:
    root = node.value.id if isinstance(node.value, ast.Name) else ""
    if name.startswith("_") or name in _HIDDEN or not isinstance(node.ctx, ast.Load):
        raise _NotAllowedError(f".{name} is not allowed", node)
    if root in _OF and name not in _OF[root]:
        hint = (
            "one configuration is chosen by whoever writes the kernel"
            if name == "autotune"
            else (
                "the launcher computes nothing itself"
                if root == "torch"
                else "it is not known here"
            )
        )
        raise _NotAllowedError(f"{root}.{name} is not allowed: {hint}", node)
    if (
        root == "tl" or ast.unparse(node.value) == "triton.language"
    ) and name in _MODULES_OF_TRITON:
        raise _NotAllowedError(f"tl.{name} is not allowed: use what `tl` itself has", node)


def _require_decorator(node: ast.expr) -> None:
    called = node.func if isinstance(node, ast.Call) else node
    if ast.unparse(called) == "triton.autotune":
        raise _NotAllowedError("triton.autotune is not allowed: it measures on its own, so choose "
                               "one configuration", node)  # fmt: skip
    if ast.unparse(called) not in ("triton.jit", "triton.heuristics"):
        raise _NotAllowedError("only @triton.jit and @triton.heuristics are allowed", node)

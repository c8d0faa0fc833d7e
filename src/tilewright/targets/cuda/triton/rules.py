"""Rules for the text of a Triton kernel.

Its Python runs in a sandbox. The rules ensure that all computation is in kernels, not in the
launcher and not in functions of Triton's own modules.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tilewright.core.records import Failed
from tilewright.parts.languages import PYTHON
from tilewright.parts.untrusted_python import UnparsableError, parsed, with_depths


def _words(text: str) -> set[str]:
    return set(text.split())


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
"""The names of a module that a file may use."""
_MODULES_OF_TRITON = {"core", "semantic", "standard", "random", "target_info", "extra"}
_BUILTINS = {
    "range", "min", "max", "len", "int", "float", "bool", "abs", "tuple", "list", "dict", "zip",
    "enumerate", "sum", "reversed", "sorted", "all", "any", "divmod", "round", "ValueError", "str",
}  # fmt: skip
_ATTRIBUTES = _words(
    # arrays in a launcher
    "shape stride numel dtype size dim ndim device element_size itemsize is_contiguous contiguous "
    "view reshape transpose t T zero_ "
    # tensors, pointers and types in kernels
    "abs advance argmax argmin associative_scan atomic_add atomic_and atomic_cas atomic_load "
    "atomic_max atomic_min atomic_or atomic_poll atomic_store atomic_xchg atomic_xor broadcast_to "
    "cast cdiv ceil cos cumprod cumsum erf exp exp2 expand_dims flip floor gather histogram item "
    "load log log2 logical_and logical_or max min permute ravel reduce reduce_or rsqrt scatter "
    "sigmoid sin softmax sort split sqrt sqrt_rn store sum to trans xor_sum type value scalar "
    "element_ty block_shape strides primitive_bitwidth int_bitwidth fp_mantissa_width "
    "get_int_max_value get_int_min_value is_bf16 is_block is_bool is_const is_floating is_fp16 "
    "is_fp32 is_fp64 is_fp8 is_int is_int1 is_int16 is_int32 is_int64 is_int8 is_int_signed "
    "is_int_unsigned is_ptr is_standard_floating "
    # lists, dictionaries and texts
    "append copy count extend get index insert items join keys pop update values"
)
"""The allowed attributes of values that are not modules. Internal attributes of Triton's objects
and of the replacement for PyTorch are excluded, and so are addresses, which differ when a kernel is
compiled.
"""
_OF_MATH = _words("abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn "
               "umulhi")  # fmt: skip
_CHANGEABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp,
               ast.GeneratorExp)  # fmt: skip
_MODULES = ("triton", "tl", "torch", "math", "triton.language", "tl.math", "triton.language.math")
_UNCHANGED = ("tl.constexpr", "int", "float", "bool", "min", "max", "abs", "len", "sum", "tuple",
              "round", "range", "triton.cdiv", "triton.next_power_of_2")  # fmt: skip
"""The functions that the top level may call. Their results cannot be changed later."""
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
    """The rule that a source breaks, or None."""
    try:
        _require(_parsed(source))
    except _NotAllowedError as error:
        log = PYTHON.located(f"{error}.", error.line)
        return Failed("build", "compile_error", log, error.line)
    return None


def _parsed(source: str) -> ast.Module:
    try:
        tree = parsed(source, PYTHON.file)
    except SyntaxError as error:
        found = _NotAllowedError(f"the file is not valid Python: {error.msg}")
        found.line = error.lineno
        raise found from None
    except UnparsableError as error:
        raise _NotAllowedError(str(error)) from None
    if any(depth > _DEEPEST for _, depth in with_depths(tree)):
        raise _NotAllowedError(f"the file is nested deeper than {_DEEPEST}")
    return tree


def _require(tree: ast.Module) -> None:
    bound = set[str]()
    for statement in tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            bound.add(_imported(statement))
        elif not isinstance(statement, _STATEMENTS) and not _is_text(statement):
            raise _NotAllowedError("at the top level, only imports, function definitions and "
                                   "assignments are allowed", statement)  # fmt: skip
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    if "kernel" not in functions or functions["kernel"].decorator_list:
        raise _NotAllowedError("the file defines no launcher: a plain function `kernel` with the "
                               "parameters of the starting kernel's")  # fmt: skip
    for node in ast.walk(tree):
        bound |= set(_names_of(node))
    asked = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        _require_node(node, bound)
        if id(node) not in asked and _module(node):
            raise _NotAllowedError(f"{_module(node)} is a module, which a dot must follow", node)
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            for default in [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]:
                _require_unchanged(default)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            _require_unchanged(statement.value)


def _module(node: ast.AST) -> str:
    """The module that an expression names, or an empty text."""
    if isinstance(node, ast.Attribute):
        said = f"{_module(node.value)}.{node.attr}"
    else:
        said = node.id if isinstance(node, ast.Name) else ""
    return said if said in _MODULES else ""


def _require_unchanged(node: ast.expr) -> None:
    """A value that exists longer than one call must be of a kind that no call can modify."""
    waiting: list[ast.AST] = [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Lambda):
            waiting += [*part.args.defaults, *filter(None, part.args.kw_defaults)]
            continue
        called = ast.unparse(part.func) if isinstance(part, ast.Call) else "int"
        if isinstance(part, _CHANGEABLE) or (
            called not in _UNCHANGED and not called.startswith("math.")
        ):
            raise _NotAllowedError(
                f"`{ast.unparse(part)[:60]}` outlives a call, and could pass data to the "
                "next call: use only numbers, texts and tuples here", part,
            )  # fmt: skip
        waiting.extend(ast.iter_child_nodes(part))


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
    """Names that a part of the file defines, without names of modules and builtins."""
    found = list[str]()
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        found = [node.id]
    elif isinstance(node, ast.FunctionDef):
        found = [node.name]
    elif isinstance(node, ast.arg):
        found = [node.arg]
    for name in found:
        if name in {*_IMPORTS.values(), *_BUILTINS}:
            raise _NotAllowedError(f"{name} is redefined", node)
    return found


def _require_node(node: ast.AST, bound: set[str]) -> None:
    match node:
        case ast.Name(id=name):
            if name.startswith("__") or (name not in bound and name not in _BUILTINS):
                raise _NotAllowedError(f"{name} is not defined in the file", node)  # fmt: skip
        case ast.arg(arg=name) if name.startswith("__"):
            raise _NotAllowedError(f"{name} begins with two underscores", node)
        case ast.Attribute(attr=name):
            _require_attribute(node, name)
        case ast.FunctionDef():
            for decorator in node.decorator_list:
                _require_decorator(decorator)
        case ast.ImportFrom() | ast.Import() if node.col_offset:
            raise _NotAllowedError("imports must be at the top level", node)
        case _ if isinstance(node, _REFUSED):
            raise _NotAllowedError(f"{type(node).__name__.lower()} is not allowed", node)
        case _:
            pass


def _require_attribute(node: ast.Attribute, name: str) -> None:
    if isinstance(node.value, ast.Attribute):
        _require_attribute(node.value, node.value.attr)  # the first error is reported
    root = _module(node.value)
    if name.startswith("_") or not isinstance(node.ctx, ast.Load):
        raise _NotAllowedError(f".{name} is not allowed", node)
    if not root and name not in _ATTRIBUTES:
        raise _NotAllowedError(f".{name} is not allowed: a launcher may use only the shape, "
                               "strides and type of an array", node)  # fmt: skip
    if root in _OF and name not in _OF[root]:
        hint = (
            "the author of the kernel must choose one configuration"
            if name == "autotune"
            else (
                "the launcher must not compute anything itself"
                if root == "torch"
                else "it is not known here"
            )
        )
        raise _NotAllowedError(f"{root}.{name} is not allowed: {hint}", node)
    if root.endswith(".math") and name not in _OF_MATH:
        raise _NotAllowedError(f"{root}.{name} is not allowed: it is not known here", node)
    if root in ("tl", "triton.language") and name in _MODULES_OF_TRITON:
        raise _NotAllowedError(f"tl.{name} is not allowed: use only functions of `tl` itself", node)


def _require_decorator(node: ast.expr) -> None:
    called = node.func if isinstance(node, ast.Call) else node
    if ast.unparse(called) == "triton.autotune":
        raise _NotAllowedError("triton.autotune is not allowed: it measures on its own, so choose "
                               "one configuration", node)  # fmt: skip
    if ast.unparse(called) not in ("triton.jit", "triton.heuristics"):
        raise _NotAllowedError("only @triton.jit and @triton.heuristics are allowed", node)

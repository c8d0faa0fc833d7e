"""Parses the Python of an answer: its texts, its extension, and the methods of `ModelNew`.

It is parsed and never run. An answer that cannot be understood from its text is not checked, and
nothing is said about its correctness.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tilewright.parts.languages import PYTHON
from tilewright.parts.source_rules import MAX_SOURCE_BYTES
from tilewright.parts.untrusted_python import UnparsableError, parsed, with_depths
from tilewright.targets.cuda.models.allowed_python import MODEL, is_loader, require_plain
from tilewright.targets.cuda.models.not_checked import NotReadError, WrongError
from tilewright.targets.cuda.models.single_assignments import split_assignments

_DEEPEST, _MOST_NODES = 100, 200_000
_WORD = re.compile(r"\w+")
_LARGEST, _HUGE = 1 << 62, 1 << 64
_MOST_TEXT = 16 * MAX_SOURCE_BYTES
"""Maximum total number of characters of all texts in a file, including concatenated ones."""


@dataclass(frozen=True)
class Text:
    """A constant text, and the line on which it begins if it is a single literal."""

    text: str
    line: int | None


@dataclass(frozen=True)
class Extension:
    """An extension that `load_inline` compiles: its texts in order, and the names that Python may
    call."""

    texts: tuple[Text, ...]
    functions: frozenset[str]


@dataclass
class Answer:
    """A parsed answer: constants by name, extensions by name, and the two methods of the model.

    `initialise` is None if the model does not define it.
    """

    constants: Mapping[str, object]
    extensions: Mapping[str, Extension]
    initialise: ast.FunctionDef | None
    forward: ast.FunctionDef


@dataclass
class _Module:
    constants: dict[str, object] = field(default_factory=dict)
    literals: dict[str, Text] = field(default_factory=dict)
    extensions: dict[str, Extension] = field(default_factory=dict)
    read: int = 0


def read_answer(source: str) -> Answer:
    """The answer in a text. Raises `WrongError` and `NotReadError`."""
    tree = _parsed(source)
    module, found = _Module(), None
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == MODEL:
            found = node
        elif isinstance(node, ast.Assign):
            _assigned(module, node)
    if found is None:
        raise WrongError(f"the file defines no class {MODEL} at its top level")
    functions = {node.name: node for node in found.body if isinstance(node, ast.FunctionDef)}
    forward, initialise = functions.get("forward"), functions.get("__init__")
    if forward is None:
        raise WrongError(f"{MODEL} defines no method forward", found.lineno)
    require_plain(tree)
    if initialise is not None:
        hidden = {a.arg for a in initialise.args.args}
        outer = {name: module.constants.pop(name) for name in hidden & module.constants.keys()}
        texts = {name: module.literals.pop(name) for name in hidden & module.literals.keys()}
        for part in initialise.body:
            if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Attribute):
                _assigned(module, part)
        module.constants.update(outer)
        module.literals.update(texts)
    return Answer(module.constants, module.extensions, initialise, forward)


def _parsed(source: str) -> ast.Module:
    try:
        tree = parsed(source, PYTHON.file)
    except SyntaxError as error:
        raise WrongError(f"the file is not valid Python: {error.msg}", error.lineno) from None
    except UnparsableError as error:
        raise WrongError(str(error)) from None
    for count, (node, depth) in enumerate(with_depths(tree), 1):
        value = getattr(node, "value", None)
        if isinstance(value, int) and abs(value) > _HUGE:
            raise WrongError("a number has more than 64 bits", getattr(node, "lineno", None))
        if depth > _DEEPEST or count > _MOST_NODES:
            raise WrongError(f"the file is nested deeper than {_DEEPEST} or has more than "
                             f"{_MOST_NODES:,} parts")  # fmt: skip
    return split_assignments(tree)


def _assigned(module: _Module, node: ast.Assign) -> None:
    """A name or an attribute of `self`, with the constant or extension that is assigned to it."""
    name = name_of(node.targets[0]) if len(node.targets) == 1 else None
    if name is None:
        return
    if isinstance(node.value, ast.Call) and is_loader(node.value.func):
        module.extensions[name] = _extension(module, node.value)
        return
    known = name in module.constants or name in module.extensions
    module.literals.pop(name, None)
    module.extensions.pop(name, None)
    try:
        module.constants[name] = constant(node.value, module.constants)
    except NotReadError:
        module.constants.pop(name, None)
        return
    text = module.constants[name]
    module.read += len(text) if isinstance(text, str) else 0
    if module.read > _MOST_TEXT:
        raise NotReadError("its strings are too long", node.lineno)
    literal = node.value
    if isinstance(literal, ast.Constant) and isinstance(literal.value, str) and not known:
        module.literals[name] = Text(literal.value, literal.lineno)


def _extension(module: _Module, call: ast.Call) -> Extension:
    given = {word.arg: word.value for word in call.keywords if word.arg is not None}
    names = ("name", "cpp_sources", "cuda_sources", "functions")
    given.update(zip(names, call.args, strict=False))
    texts = {
        key: _texts(module, given[key]) for key in ("cpp_sources", "cuda_sources") if key in given
    }
    functions = frozenset[str]()
    if "functions" in given:
        found = constant(given["functions"], module.constants)
        words = list(found) if isinstance(found, (list, tuple, dict)) else [found]
        functions = frozenset(word for word in words if isinstance(word, str))
    # PyTorch binds functions in the file of cpp_sources, where the CUDA source is not visible.
    seen = {word for text in texts.get("cpp_sources", []) for word in _WORD.findall(text.text)}
    if not functions <= seen:
        name = min(functions - seen)
        raise WrongError(
            f"cpp_sources does not declare {name}, so PyTorch cannot compile the extension: write "
            f"its declaration there, for example `torch::Tensor {name}(torch::Tensor x);`",
            call.lineno,
        )
    return Extension(tuple(text for found in texts.values() for text in found), functions)


def _texts(module: _Module, node: ast.expr) -> list[Text]:
    if isinstance(node, (ast.List, ast.Tuple)):
        return [text for element in node.elts for text in _texts(module, element)]
    if isinstance(node, ast.Name) and node.id in module.literals:
        return [module.literals[node.id]]
    found = constant(node, module.constants)
    if isinstance(found, str):
        return [Text(found, node.lineno if isinstance(node, ast.Constant) else None)]
    raise NotReadError("the source of an extension is not a constant string", node.lineno)


def shown(node: ast.AST) -> str:
    """An expression in the form in which messages show it."""
    return ast.unparse(node).partition("\n")[0][:60]


def name_of(node: ast.expr) -> str | None:
    """The name in `x` or `self.x`; None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"self.{node.attr}" if node.value.id == "self" else None
    return None


def constant(node: ast.expr, known: Mapping[str, object]) -> object:
    """The value of an expression that consists of numbers and texts. Raises `NotReadError`."""
    match node:
        case ast.Constant(value=int() as whole) if abs(whole) >= _LARGEST:
            pass
        case ast.Constant(value=str() as text) if any("\ud800" <= c <= "\udfff" for c in text):
            pass  # half of a surrogate pair, which cannot be written to a file
        case ast.Constant(value=None | bool() | int() | float() | str()):
            return node.value
        case ast.Name() | ast.Attribute():
            name = name_of(node)
            if name is not None and name in known:
                return known[name]
        case ast.Tuple() | ast.List():
            return tuple(constant(element, known) for element in node.elts)
        case ast.Dict() if all(node.keys):
            keys = [constant(key, known) for key in node.keys if key is not None]
            if all(isinstance(key, (int, str)) for key in keys):
                return dict.fromkeys(keys)
        case ast.UnaryOp(op=ast.USub()):
            value = constant(node.operand, known)
            if isinstance(value, (int, float)):
                return -value
        case ast.BinOp():
            return _computed(node, constant(node.left, known), constant(node.right, known))
        case ast.Call(func=function, args=[argument], keywords=[]) if shown(function) in _FUNCTIONS:
            value = constant(argument, known)
            if isinstance(value, (int, float)) and shown(function) not in known:
                return _bounded(node, lambda: _FUNCTIONS[shown(function)](value))
        case ast.JoinedStr():
            return _joined(node, known)
    raise NotReadError(
        f"{shown(node)} is not a number or a string that is written in the file", node.lineno
    )


_FUNCTIONS: Mapping[str, Callable[[float], float]] = {
    "math.sqrt": math.sqrt, "math.exp": math.exp, "math.log": math.log, "math.log2": math.log2,
    "math.floor": math.floor, "math.ceil": math.ceil, "int": int, "float": float,
}  # fmt: skip
"""Functions of one number that are computed."""
_GREATEST_POWER = 64


def _bounded(node: ast.expr, compute: Callable[[], float]) -> float:
    """The number that a function returns, unless it is too large or the function fails."""
    try:
        found = compute()
        if abs(found) < _LARGEST:
            return found
    except (ArithmeticError, ValueError):
        pass
    raise NotReadError(f"{shown(node)} is not a number below 2^62", node.lineno)


def _computed(node: ast.BinOp, left: object, right: object) -> object:
    found: object = None
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    match node.op:
        case ast.Add() if isinstance(left, str) and isinstance(right, str):
            found = left + right
        case ast.Add() if numbers:
            found = left + right  # type: ignore[operator]
        case ast.Sub() if numbers:
            found = left - right  # type: ignore[operator]
        case ast.Mult() if numbers:
            found = left * right  # type: ignore[operator]
        case ast.FloorDiv() if numbers and right:
            found = left // right  # type: ignore[operator]
        case ast.Mod() if numbers and right:
            found = left % right  # type: ignore[operator]
        case ast.Div() if numbers and right:
            found = left / right  # type: ignore[operator]
        case ast.Pow() if numbers and -_GREATEST_POWER <= right <= _GREATEST_POWER:  # type: ignore[operator]
            return _bounded(node, lambda: _real(left**right))  # type: ignore[operator]
    if isinstance(found, str) and len(found) <= MAX_SOURCE_BYTES:
        return found
    if isinstance(found, (int, float)) and abs(found) < _LARGEST:
        return found
    raise NotReadError(
        f"{shown(node)} is not a number or a string that is written in the file", node.lineno
    )


def _real(value: object) -> float:
    """A number that is not complex; a root of a negative number is."""
    if not isinstance(value, (int, float)):
        raise ValueError(value)
    return value


def _joined(node: ast.JoinedStr, known: Mapping[str, object]) -> str:
    parts = list[str]()
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            value = constant(part.value, known)
            plain = part.format_spec is None and part.conversion == -1
            if not plain or not isinstance(value, (int, float, str)):
                raise NotReadError("a string is formatted", node.lineno)
            parts.append(str(value))
        else:
            parts.append(str(constant(part, known)))
    if sum(map(len, parts)) > MAX_SOURCE_BYTES:
        raise NotReadError("a string is too long", node.lineno)
    return "".join(parts)

"""Reads a kernel in NKI 2. It is processed once; loops are kept and all sizes are numbers.

A kernel that is not supported here, and every kernel in NKI 1, is first rewritten by the target.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TypeAlias

from tilewright.core.records import Argument, KernelLanguage, Workload
from tilewright.proposers.nki.ir import ANY, Kernel, Region, Tensor, ops, variables, whole
from tilewright.proposers.nki.linear import variable
from tilewright.proposers.nki.reading.expressions import MODULES, evaluated
from tilewright.proposers.nki.reading.syntax import defaults_of
from tilewright.proposers.nki.reading.values import Name, SplitError, UnsupportedError
from tilewright.proposers.nki.reading.walking import Reader

Constants: TypeAlias = tuple[tuple[str, object], ...]
NONE: Mapping[str, object] = MappingProxyType({})
NotRead: TypeAlias = tuple[str, int]
"""Why a kernel cannot be read, and the line; 0 if there is no line."""


def read(source: str, workload: Workload, language: KernelLanguage) -> Kernel:
    """The kernel in a file for the arguments of a workload.

    Raises `UnsupportedError`, or the `InputError` of the target if it cannot read the kernel
    either.
    """
    constants = {} if language.constants is None else language.constants(workload)
    try:
        return read_kernel(source, workload.arguments, constants)
    except UnsupportedError:
        if language.plain is None:
            raise
    return read_kernel(language.plain(source, workload), workload.arguments)


def read_kernel(
    source: str, arguments: tuple[Argument, ...], constants: Mapping[str, object] = NONE
) -> Kernel:
    """The kernel in a file for arguments of these shapes; raises `UnsupportedError`.

    `constants` are the arguments that are not arrays. They replace the kernel's own defaults.
    """
    found = _kernel_or_reason(source, arguments, _frozen(constants))
    if isinstance(found, Kernel):
        return found
    raise UnsupportedError(*found)


@lru_cache(maxsize=128)
def _kernel_or_reason(
    source: str, arguments: tuple[Argument, ...], constants: Constants
) -> Kernel | NotRead:
    """The kernel, or the reason why there is none. Both are cached."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "this is not valid Python", 0
    try:
        return _read(tree, arguments, dict(constants))
    except UnsupportedError as error:
        return error.reason, error.line
    except SplitError:
        return "the sizes of tiles differ between iterations in too many ways", 0
    except RecursionError:
        return "the kernel is nested too deeply", 0


def _frozen(constants: Mapping[str, object]) -> Constants:
    """The value in a hashable form; lists become tuples."""

    def frozen(value: object) -> object:
        return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value

    return tuple((name, frozen(value)) for name, value in constants.items())


def _read(
    tree: ast.Module,
    arguments: tuple[Argument, ...],
    constants: Mapping[str, object],
    fixed: frozenset[str] = frozenset(),
) -> Kernel:
    """The kernel in which the parameters in `fixed` have their values, and all other numbers are
    unknown."""
    functions = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef)}
    chosen = [f for f in functions.values() if _is_kernel(f)] or list(functions.values())
    if not chosen:
        raise UnsupportedError("there is no function")
    named = [f for f in chosen if f.name in ("kernel", "test", "solution")]
    function = (named or chosen)[-1]
    reader = Reader()
    reader.names.update(functions)
    for statement in tree.body:
        if _is_old(statement):
            raise UnsupportedError("this is a kernel of NKI 1", statement.lineno)
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.asname or alias.name.partition(".")[0]
                path = alias.name if alias.asname else top
                reader.names[top] = Name(MODULES.get(path, path))
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                path = f"{statement.module}.{alias.name}"
                reader.names[alias.asname or alias.name] = Name(MODULES.get(path, path))
        elif isinstance(statement, ast.Assign):
            reader.run([statement])
    reader.outside = dict(reader.names)
    reader.given = frozenset(reader.names)
    inputs = [a for a in arguments if a.is_given]
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    named_so = {parameter.arg for parameter in parameters}
    by_name = all(argument.name in named_so for argument in inputs)
    given = (
        {argument.name: argument for argument in inputs}
        if by_name
        else dict(zip((parameter.arg for parameter in parameters), inputs, strict=False))
    )
    tensors = []
    for name, argument in given.items():
        tensor = Tensor(name, argument.shape, argument.dtype, "hbm")
        tensors.append(tensor)
        reader.tensors[tensor.name] = tensor
        reader.names[tensor.name] = whole(tensor)
        reader.used.add(tensor.name)
    rest = [parameter for parameter in parameters if parameter.arg not in given]
    if len(given) != len(inputs) or function.args.vararg or function.args.kwarg:
        raise UnsupportedError(
            "the parameters of the kernel differ from the workload's inputs", function.lineno
        )
    defaults = defaults_of(function)
    numbers = []
    for parameter in rest:
        name, default = parameter.arg, defaults.get(parameter.arg)
        value = Name(name) if default is None else evaluated(reader, default)
        if name in constants:
            counts = default is not None and _is_used(function, name)
            value = _called_with(value, constants[name], counts)
        if isinstance(value, float):
            value = Name(name)
        elif type(value) is int and name not in fixed:
            numbers.append(name)
            reader.trips[name], value = ANY, variable(name)
        reader.names[name] = value
        reader.used.add(name)
    try:
        returned = reader.run(function.body)
    except SplitError as error:
        if error.variable not in numbers:
            raise
        return _read(tree, arguments, constants, fixed | {error.variable})
    items = returned if isinstance(returned, tuple) else (returned,)
    if not all(isinstance(item, Region) for item in items):
        raise UnsupportedError("the kernel does not return tensors", function.lineno)
    head = f"def {function.name}({ast.unparse(function.args)}):"
    names = tuple(item.tensor for item in items)
    used = {name for op in ops(tuple(reader.body)) for name in variables(op)}
    kept = tuple(name for name in numbers if name in used)
    return Kernel(head, tuple(tensors), kept, tuple(reader.body), names)


def _called_with(default: object, value: object, used: bool) -> object:
    """The value of a parameter for which the kernel is called with a value."""
    same = default.last == value if isinstance(default, Name) else default == value
    if not same and isinstance(value, (bool, int, float)):
        return value
    if used and not same:
        raise UnsupportedError("a parameter has a default, but is not called with it")
    return default


def _is_used(function: ast.FunctionDef, name: str) -> bool:
    nodes = (node for statement in function.body for node in ast.walk(statement))
    return any(isinstance(node, ast.Name) and node.id == name for node in nodes)


def _is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(d) for d in function.decorator_list)


def _is_old(node: ast.stmt) -> bool:
    """Whether a statement imports NKI 1."""
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
    if isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
    return any(name.partition(".")[0] == "neuronxcc" for name in names)

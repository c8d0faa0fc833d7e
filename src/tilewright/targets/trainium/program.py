"""Parses a kernel's text, and traces it or runs it on arrays."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import Argument
from tilewright.parts.memory import without_collection
from tilewright.parts.untrusted_python import (
    TooLongError,
    UnparsableError,
    parsed,
    with_depths,
)
from tilewright.targets.trainium.errors import KernelError, shown
from tilewright.targets.trainium.execution import Execution, Limits
from tilewright.targets.trainium.language.frames import Frame, Function
from tilewright.targets.trainium.language.library import presets
from tilewright.targets.trainium.language.statements import module
from tilewright.targets.trainium.language.values import Missing
from tilewright.targets.trainium.machine import Machine
from tilewright.targets.trainium.repeating import NotRepeated
from tilewright.targets.trainium.tiles.dtypes import DTYPES, DType
from tilewright.targets.trainium.tiles.view import View, whole
from tilewright.targets.trainium.trace import Trace
from tilewright.targets.trainium.undefined import Undefined

DEEPEST_SYNTAX = 100
"""Maximum nesting of expressions and statements; kernels have less than 30."""
MOST_NODES = 200_000
_MOST_MESSAGE = 300
MOST_TRACE_BYTES = 3 << 30
"""Maximum memory of a pass without data. A million instructions take 1 GB."""

Array = NDArray[Any]
Language = Literal[1, 2]


@dataclass(frozen=True)
class Program:
    """A parsed kernel. `language` is its version of NKI.

    `asks_for_its_number` tells whether it may read the number of its program in a grid. `digest` is
    a hash of its text.
    """

    tree: ast.Module
    language: Language
    asks_for_its_number: bool
    digest: str


@dataclass(frozen=True)
class Entry:
    """The kernel function of a file, for tools that run the file themselves."""

    name: str
    language: Language
    gives_outputs: bool
    """Whether it gets its outputs as arguments and returns nothing."""


@dataclass(frozen=True)
class Call:
    """The arguments of a kernel's call, in the order of its parameters.

    `inputs` are arrays in HBM. `constants` are further parameters that are known when the kernel is
    traced (numbers, texts, names of types such as "bfloat16"). `outputs` are the arrays that it
    returns, in order.
    """

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    constants: Mapping[str, object]


def parse(source: str) -> Program:
    """The kernel's syntax tree; `KernelError` if it is not valid Python or nested too deeply."""
    try:
        tree = parsed(source, "kernel.py")
    except SyntaxError as error:
        raise KernelError("syntax", f"{error.msg}", error.lineno) from None
    except TooLongError as error:
        raise KernelError("too_large", str(error)) from None
    except UnparsableError as error:
        # The message of a parser that ran out of memory is empty.
        raise KernelError("syntax", str(error.__cause__ or "") or str(error)) from None
    nodes = _nodes(tree)
    asks = any(isinstance(n, ast.Attribute) and n.attr == "program_id" for n in nodes)
    return Program(
        tree, _language(nodes), asks, sha256(source.encode(errors="replace")).hexdigest()
    )


def _nodes(tree: ast.Module) -> list[ast.AST]:
    """All nodes of the syntax tree. For a large kernel, collecting them takes long."""
    found: list[ast.AST] = []
    for count, (node, depth) in enumerate(with_depths(tree), 1):
        if depth > DEEPEST_SYNTAX or count > MOST_NODES:
            raise KernelError(
                "too_deep",
                f"the source is nested deeper than {DEEPEST_SYNTAX} or has more than "
                f"{MOST_NODES:,} parts",
                getattr(node, "lineno", None),
            )
        found.append(node)
    return found


def _language(nodes: Sequence[ast.AST]) -> Language:
    """The version by its imports. Without imports, or with both, by features that only one version
    has."""
    found: set[Language] = set()
    for node in nodes:
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        tops = {name.split(".")[0] for name in names}
        if "neuronxcc" in tops:
            found.add(1)
        if "nki" in tops:
            found.add(2)
    if len(found) == 1:
        return found.pop()
    older = {"load", "store", "arange", "mgrid", "load_transpose2d"}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in older:
            return 1
        if isinstance(node, ast.keyword) and node.arg == "mask":
            return 1
    for node in nodes:
        if isinstance(node, ast.AugAssign) and _calls(node.value, "nc_matmul"):
            return 1
    return 2


def _calls(node: ast.expr, name: str) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == name
    )


def trace_program(
    program: Program, call: Call, machine: Machine, limits: Limits | None = None
) -> Trace:
    """Every instruction of a kernel, without data; `KernelError` if it breaks a rule."""
    try:
        return _traced(program, call, machine, limits, repeating=True)
    except NotRepeated:
        return _traced(program, call, machine, limits, repeating=False)


def _traced(
    program: Program, call: Call, machine: Machine, limits: Limits | None, *, repeating: bool
) -> Trace:
    trace = Trace(program.language)
    run = Execution(machine, program.language, trace=trace, limits=limits)
    run.repeating, run.seed = repeating, program.digest
    try:
        trace.outputs = walked(program, call, run)
    except KernelError as error:
        if run.left_out and error.code != "too_long":
            raise NotRepeated from error  # an iteration that was left out may break a rule earlier
        raise
    return trace


def walked(program: Program, call: Call, run: Execution) -> tuple[int, ...]:
    """Process a kernel without data, and return the tensors that it returns. Raises
    `KernelError`."""
    return tuple(view.buffer.record.id for view in _walk(program, call, run, {}))


def run_program(
    program: Program,
    call: Call,
    machine: Machine,
    arrays: Mapping[str, Array],
    *,
    shuffle: int | None = None,
    elide_casts: bool = False,
    explain: bool = False,
    limits: Limits | None = None,
    into: Mapping[str, Array] | None = None,
) -> list[Array]:
    """The outputs of a kernel on arrays, in its order and in their own types.

    If `into` has an array for each output, these arrays are filled and returned. Their floats must
    be NaN.

    `shuffle` changes the order of the iterations of each affine loop. With `explain`, undefined
    elements of an output raise `KernelError` with the line that they follow from.
    """
    run = Execution(
        machine,
        program.language,
        trace=None,
        shuffle=shuffle if program.language == 1 else None,
        elide_casts=elide_casts,
        limits=limits,
    )
    run.undefined = Undefined() if explain else None
    run.homes = _homes(list((into or {}).values()))
    outputs = _walk(program, call, run, arrays)
    if run.undefined is not None:
        run.undefined.explain(outputs, call.outputs)
    found = [
        view.values().astype(argument_type(argument).exact, copy=False).reshape(argument.shape)
        for view, argument in zip(outputs, call.outputs, strict=True)
    ]
    if into is None:
        return found
    for argument, values in zip(call.outputs, found, strict=True):
        if not _same_memory(values, into[argument.name]):
            np.copyto(into[argument.name], values)
    return list(into.values())


def _homes(arrays: Sequence[Array]) -> dict[tuple[int, np.dtype[Any]], Array]:
    """Arrays in which tensors of HBM may be computed, by their size and type.

    Of several alike, this is the last one. A kernel may compute another output there, which is
    copied to its own array before the last one is filled.
    """
    return {(array.size, array.dtype): array for array in arrays}


def _same_memory(one: Array, other: Array) -> bool:
    place = "__array_interface__"
    return bool(getattr(one, place)["data"] == getattr(other, place)["data"])


def argument_type(argument: Argument) -> DType:
    """The type of an argument."""
    found = DTYPES.get(argument.dtype)
    if found is None:
        raise KernelError(
            "unsupported_dtype",
            f"{argument.name} has the type {argument.dtype}, which the target does not have",
        )
    return found


def _walk(program: Program, call: Call, run: Execution, arrays: Mapping[str, Array]) -> list[View]:
    """Define the module's functions, call the kernel and check its results."""
    with without_collection(), _explained(run):
        kernel = _kernel(program, call, run)
        args, kwargs, outputs = _arguments(kernel, call, run, arrays)
        found = kernel.call(run, args, kwargs)
        return _returned(outputs if found is None and outputs else found, call, run)


@contextmanager
def _explained(run: Execution) -> Iterator[None]:
    """Any exception that ends the pass becomes a `KernelError` with its line."""
    try:
        yield
    except KernelError as error:
        if error.line is None:
            error.line = run.line or None
        raise
    except RecursionError:
        raise KernelError("too_deep", "the kernel is nested too deeply", run.line) from None
    except MemoryError:
        raise KernelError("too_large", "the kernel needs too much memory", run.line) from None
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        # An operand of an unexpected kind: Python's message says which.
        message = f"{run.function or 'this line'}: {type(error).__name__}: {error}"[:_MOST_MESSAGE]
        raise KernelError("unsupported_operand", message, run.line or None) from error


def entry_of(program: Program, call: Call, machine: Machine) -> Entry:
    """The kernel in a file; `KernelError` if there is none."""
    run = Execution(machine, program.language, trace=Trace(program.language))
    with _explained(run):
        kernel = _kernel(program, call, run)
        _, _, outputs = _arguments(kernel, call, run, {})
    return Entry(kernel.name, program.language, bool(outputs))


def _kernel(program: Program, call: Call, run: Execution) -> Function:
    base = Frame(run, None)
    base.names.update(presets(program.language))
    frame = Frame(run, base)
    module(program.tree.body, frame)
    return _entry(program, frame, call)


_ENTRY_NAMES = ("kernel", "test", "solution")


def _entry(program: Program, frame: Frame, call: Call) -> Function:
    """The kernel among the functions of the file.

    Candidates are the functions decorated with `nki.jit` or similar decorators, or all functions if
    there are none. The kernel is the one named kernel, test or solution; otherwise, the last one
    with a parameter for each input by name; otherwise, the last one. A kernel that reads its
    program's number is called through the function that launches it.
    """
    functions = [v for v in frame.names.values() if isinstance(v, Function) and v.name != "lambda"]
    lacking = [v.error for v in frame.names.values() if isinstance(v, Missing)]
    if not functions:
        raise next(
            (e for e in lacking if e.code != "import_not_allowed"),
            KernelError("no_kernel", "the file defines no function: expected a kernel"),
        )
    chosen = [f for f in functions if f.is_kernel] or functions
    named = [f for name in _ENTRY_NAMES for f in chosen if f.name == name]
    inputs = {a.name for a in call.inputs}
    fitting = [f for f in chosen if inputs <= {*f.parameters.names, *f.parameters.keyword_only}]
    found = named[0] if named else (fitting or chosen)[-1]
    return _launcher(found, functions, call) if program.asks_for_its_number else found


def _launcher(kernel: Function, functions: Sequence[Function], call: Call) -> Function:
    """The function that launches a kernel with a grid, if it can be given the inputs."""
    inputs = {a.name for a in call.inputs}
    able = [
        f
        for f in functions
        if kernel.name in f.launches and len(f.parameters.names) >= len(call.inputs)
    ]
    return next((f for f in able if inputs <= set(f.parameters.names)), [kernel, *able][-1])


def _arguments(
    kernel: Function, call: Call, run: Execution, arrays: Mapping[str, Array]
) -> tuple[list[Any], dict[str, Any], list[View]]:
    """Arguments by name if the kernel has these names, otherwise in order.

    If a kernel has parameters for all outputs, as older kernels in NKI 1 do, it gets the outputs as
    arguments. Other kernels return them.
    """
    values: dict[str, Any] = {a.name: _input(a, run, arrays) for a in call.inputs}
    constants = {
        n: DTYPES.get(v, v) if isinstance(v, str) else v for n, v in call.constants.items()
    }
    names = (*kernel.parameters.names, *kernel.parameters.keyword_only)
    kwargs = {n: v for n, v in constants.items() if n in names}
    if all(a.name in names for a in call.inputs):
        outputs = _given_outputs(kernel, [n for n in names if n not in values], kwargs, call, run)
        return [], {**values, **kwargs, **outputs}, list(outputs.values())
    positional = list(values.values())
    rest = [n for n in kernel.parameters.names[len(positional) :] if n not in kwargs]
    outputs = _given_outputs(kernel, rest, kwargs, call, run)
    more = [v for n, v in constants.items() if n not in kwargs]
    free = [n for n in rest if n not in kernel.defaults and n not in outputs]
    kwargs.update(zip(free, more, strict=False))
    return positional, {**kwargs, **outputs}, list(outputs.values())


def _given_outputs(
    kernel: Function, names: Sequence[str], known: Mapping[str, Any], call: Call, run: Execution
) -> dict[str, View]:
    """Output tensors for the remaining parameters, if their number is that of the outputs."""
    free = [n for n in names if n not in known and n not in kernel.defaults]
    if len(free) != len(call.outputs) or kernel.returns:
        return {}
    found: dict[str, View] = {}
    for name, argument in zip(free, call.outputs, strict=True):
        dtype = argument_type(argument)
        found[name] = whole(run.new_buffer(argument.shape, dtype, "hbm", "local", argument.name))
    return found


def _input(argument: Argument, run: Execution, arrays: Mapping[str, Array]) -> View:
    dtype = argument_type(argument)
    found = run.new_buffer(argument.shape, dtype, "hbm", "input", argument.name)
    found.read_only = argument.role == "input"
    if run.valued:
        values = np.asarray(arrays[argument.name])
        kept = values.astype(dtype.storage, order="C", copy=argument.role == "inout")
        found.data = np.ascontiguousarray(kept).reshape(1, -1)
    return whole(found)


def _returned(found: Any, call: Call, run: Execution) -> list[View]:
    items: Sequence[Any] = found if isinstance(found, (tuple, list)) else [found]
    if found is None:
        raise KernelError("tensor_output_not_written_to", "the kernel returns nothing")
    if len(items) != len(call.outputs):
        raise KernelError(
            "wrong_outputs",
            f"the kernel returns {len(items)} tensors, expected {len(call.outputs)}: "
            f"{', '.join(a.name for a in call.outputs)}",
        )
    for item, argument in zip(items, call.outputs, strict=True):
        if not isinstance(item, View) or item.on_chip:
            raise KernelError(
                "wrong_outputs",
                f"the kernel returns {'a tile' if isinstance(item, View) else shown(item)} for "
                f"{argument.name}: expected a tensor in nl.shared_hbm",
            )
        _check_output(item, argument, run)
    return list(items)


def _check_output(view: View, argument: Argument, run: Execution) -> None:
    size = 1
    for n in argument.shape:
        size *= n
    same = [n for n in view.shape if n > 1] == [n for n in argument.shape if n > 1]
    if not same:
        raise KernelError(
            "wrong_outputs",
            f"{argument.name} is returned with the shape {view.shape}, expected {argument.shape}",
        )
    if view.dtype.name != argument.dtype:
        raise KernelError(
            "wrong_outputs",
            f"{argument.name} is returned as {view.dtype}, expected {argument.dtype}",
        )
    if not view.is_all():
        raise KernelError(
            "wrong_outputs",
            f"{argument.name} is returned as a part of a tensor, or with its elements reordered: "
            "return the tensor itself, with every element stored in its place",
        )
    if run.trace is not None:
        view.buffer.record.kind = "output"
        if view.buffer.rewritten is not None:
            raise view.buffer.rewritten
        if not view.buffer.written:
            raise KernelError(
                "tensor_output_not_written_to", f"nothing is written to {argument.name}"
            )

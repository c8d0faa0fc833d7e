"""Converts the intermediate form back to C text."""

from __future__ import annotations

from collections.abc import Iterator

from tilewright.proposers.loops.definitions import definitions, is_vector_function, vector_types
from tilewright.proposers.loops.functions import LOADS, STORES
from tilewright.proposers.loops.ir import (
    INFINITY,
    Address,
    Assign,
    Binary,
    Call,
    Cast,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Parameter,
    Select,
    Statement,
    Var,
    expressions,
    statements,
    walk,
)

_LEVELS = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="),
    ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_STRENGTH = {name: level for level, names in enumerate(_LEVELS, 1) for name in names}
_UNARY = len(_LEVELS) + 1
_MIXED = (*_LEVELS[1], *_LEVELS[2], *_LEVELS[3], *_LEVELS[4], *_LEVELS[7])
"""Operators whose operands are put in parentheses for readers and to avoid compiler warnings."""


def emit(kernel: Kernel) -> str:
    """A complete C source."""
    used = list(expressions(kernel.body))
    called = {e.function for e in used if isinstance(e, Call)} | {*_conversions(kernel)}
    parts = list(kernel.head)
    if any(t.endswith("_t") for t in _types(kernel)) and not any("include" in p for p in parts):
        parts.insert(0, "#include <stdint.h>")
    if INFINITY in used or any(not is_vector_function(name) for name in called):
        parts.append("#include <math.h>")
    if kernel.lanes:
        parts.append(vector_types(kernel.lanes))
    parts += definitions(sorted(filter(is_vector_function, called)), kernel.lanes)
    parameters = ", ".join(map(_parameter, kernel.parameters))
    scratch = [f"  {scratch_text(array)}" for array in kernel.scratch]
    body = "\n".join([*scratch, *(_statement(s, "  ", kernel) for s in kernel.body)])
    parts.append(f"void kernel({parameters}) {{\n{body}\n}}")
    return "\n\n".join(parts) + "\n"


def _conversions(kernel: Kernel) -> Iterator[str]:
    """Functions that load or store vectors of integers."""
    for statement in statements(kernel.body):
        target = statement.target if isinstance(statement, Assign) else None
        if isinstance(target, Load) and target.converts:
            yield f"{STORES}{target.type}"
        if isinstance(statement, (Assign, Declare)) and statement.value is not None:
            for expr in walk(statement.value):
                if isinstance(expr, Load) and expr.converts:
                    yield f"{LOADS}{expr.type}"


def _parameter(parameter: Parameter) -> str:
    kind = f"{'const ' * parameter.constant}{parameter.type}"
    if not parameter.sizes:
        return f"{kind} *{'restrict ' * parameter.restricted}{parameter.name}"
    sizes = "".join(f"[{n}]" for n in parameter.sizes)
    if parameter.restricted:
        sizes = f"[restrict {sizes[1:]}"
    return f"{kind} {parameter.name}{sizes}"


def _types(kernel: Kernel) -> set[str]:
    found: set[str] = {p.type for p in (*kernel.parameters, *kernel.scratch)}
    found |= {str(s.type) for s in statements(kernel.body) if isinstance(s, Declare)}
    return found | {str(e.type) for e in expressions(kernel.body) if isinstance(e, Cast)}


def scratch_text(array: Parameter) -> str:
    """The declaration of a static array."""
    sizes = "".join(f"[{n}]" for n in array.sizes)
    if array.values:
        values = ", ".join(map(text_of, array.values))
        return f"static const {array.type} {array.name}{sizes} = {{{values}}};"
    return f"static _Alignas(64) {array.type} {array.name}{sizes};"


def _statement(statement: Statement, indent: str, kernel: Kernel) -> str:
    if isinstance(statement, Declare):
        sizes = "".join(f"[{n}]" for n in statement.sizes)
        value = "" if statement.value is None else f" = {text_of(statement.value)}"
        kind = "vf" if statement.type == "vector" else statement.type
        return f"{indent}{kind} {statement.name}{sizes}{value};"
    if isinstance(statement, Assign):
        target = statement.target
        if isinstance(target, Load) and target.converts:
            place = text_of(Address(target.array, target.subscripts))
            return f"{indent}{STORES}{target.type}({place}, {text_of(statement.value)});"
        if isinstance(target, Load):
            left = f"*(vf *)&{text_of(Element(target.array, target.subscripts))}"
        else:
            left = text_of(target)
        return f"{indent}{left} = {text_of(statement.value)};"
    if isinstance(statement, Command):
        arguments = ", ".join(text_of(a) for a in statement.arguments)
        return f"{indent}{statement.name}({arguments});"
    return _loop(statement, indent, kernel)


def _loop(loop: For, indent: str, kernel: Kernel) -> str:
    name = loop.variable
    step = f"{name}++" if loop.step == 1 else f"{name} += {loop.step}"
    before = [f"{indent}#pragma {sharing_text(loop.threads)}"] if loop.threads > 1 else []
    ends = (Number(str(loop.first)), Number(str(loop.last)))
    first, last = map(text_of, loop.limits or ends)
    head = f"{indent}for (int {name} = {first}; {name} < {last}; {step}) {{"
    body = [_statement(s, indent + "  ", kernel) for s in loop.body]
    return "\n".join([*before, head, *body, f"{indent}}}"])


def sharing_text(threads: int) -> str:
    """The pragma of a loop whose iterations threads share."""
    return f"omp parallel for num_threads({threads}) schedule(static)"


def text_of(expr: Expr, least: int = 0) -> str:
    """C text, in parentheses if its operator has a lower precedence than `least`."""
    if isinstance(expr, Number):
        return expr.text
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Element):
        return expr.array + "".join(f"[{text_of(s)}]" for s in expr.subscripts)
    if isinstance(expr, Address):
        return f"&{text_of(Element(expr.array, expr.subscripts))}"
    if isinstance(expr, Load) and expr.converts:
        return f"{LOADS}{expr.type}({text_of(Address(expr.array, expr.subscripts))})"
    if isinstance(expr, Load):
        return f"*(const vf *)&{text_of(Element(expr.array, expr.subscripts))}"
    if isinstance(expr, Negative):
        text = text_of(expr.value, _UNARY)
        return (
            f"-({text})" if text.startswith("-") else f"-{text}"
        )  # -- would be parsed as a decrement
    if isinstance(expr, Call):
        return f"{expr.function}({', '.join(text_of(a) for a in expr.arguments)})"
    if isinstance(expr, Cast):
        return f"({expr.type}){text_of(expr.value, _UNARY)}"
    if isinstance(expr, Select):
        text = f"{text_of(expr.condition, 1)} ? {text_of(expr.value)} : {text_of(expr.other)}"
        return f"({text})" if least else text
    assert isinstance(expr, Binary)
    strength = _STRENGTH[expr.operator]
    inner = _UNARY if expr.operator in _MIXED else strength
    left, right = text_of(expr.left, inner), text_of(expr.right, max(inner, strength + 1))
    text = f"{left} {expr.operator} {right}"
    return f"({text})" if strength < least else text

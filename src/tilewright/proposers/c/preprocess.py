"""Expands the macros and evaluates the conditionals of a kernel file before it is parsed.

Names for scalar types (`typedef float real;`) are expanded like macros, and names for array types
are replaced too (`array_types.py`). Only macros that the file itself defines are expanded. Macros
of headers, such as the target's commands, are not known here and are kept. Line numbers do not
change.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence

from tilewright.proposers.c.array_types import ArrayTypes
from tilewright.proposers.c.macros import Macros
from tilewright.proposers.c.old_style import with_prototypes

_OPERATORS = {"&&": " and ", "||": " or ", "!": " not "}
_UNARY: Mapping[type[ast.AST], Callable[[int], int]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Not: operator.not_,
}
_BINARY: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


_TYPE = "|".join(
    ("signed", "unsigned", "char", "short", "int", "long", "float", "double", "bool", "_Bool")
)
_TYPEDEF = re.compile(rf"\s*typedef\s+((?:(?:{_TYPE}|u?int\w*_t|size_t)\s+)+)(\w+)\s*;\s*")
_TYPEDEFS = re.compile(rf"(?:{_TYPEDEF.pattern})+")


_ADVICE = (
    r"(?:__)?(?:unused|used|always_inline|noinline|flatten|hot|cold|pure|const|nothrow)(?:__)?"
)
_ADVISED = re.compile(rf"\b__attribute(?:__)?\s*\(\s*\(\s*{_ADVICE}(?:\s*,\s*{_ADVICE})*\s*\)\s*\)")
"""Attributes that do not change the effect of code. The parser supports them only in few places."""


_ARGUMENT = r"\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
_ALIGNED = re.compile(
    rf"(?<=\])\s*\b__attribute(?:__)?\s*\(\s*\(\s*(?:__)?aligned(?:__)?\s*(?:{_ARGUMENT})?\s*\)\s*\)"
)
"""The alignment after an array's sizes, which the parser does not support."""


_ALWAYS = frozenset(
    ("__GNUC__", "__STDC__", "__STDC_VERSION__", "__has_builtin", "__has_attribute")
)
"""Names that all compilers for kernels define: gcc since version 10, and clang."""


class _Undecided(Exception):
    """A condition that depends on the compiler or a header."""


def expanded(source: str, known: Collection[str], defined: Sequence[str] = ()) -> str:
    """The source with its own macros expanded, known conditionals evaluated, attributes that are
    only hints removed, and prototypes for functions in the style of K&R.

    `known` are names that headers define. `defined` are macros of headers that are expanded too,
    each as the text after `#define`. Directives that define macros, and branches that are not
    taken, become empty lines. Conditionals that depend on the compiler are kept.
    """
    macros = Macros()
    for definition in defined:
        macros.directive("define", definition)
    text = _ADVISED.sub("", "\n".join(_lines(source.split("\n"), macros, known)))
    return with_prototypes(_ALIGNED.sub(lambda found: "\n" * found[0].count("\n"), text))


def _lines(lines: Sequence[str], macros: Macros, known: Collection[str]) -> list[str]:
    result: list[str] = []
    block: list[str] = []
    # For each open conditional: whether this branch is taken, or None if this is not known.
    taken: list[bool | None] = []
    ever: list[bool] = []
    arrays = ArrayTypes()

    def flush() -> None:
        if block:
            result.extend(arrays.expanded(macros.expanded("\n".join(block))).split("\n"))
            block.clear()

    at = 0
    while at < len(lines):
        count = _directive_lines(lines, at)
        if _TYPEDEFS.fullmatch(lines[at]) and all(taken):
            flush()
            for kind, name in _TYPEDEF.findall(lines[at]):
                macros.directive("define", f"{name} {kind}")
            result.append("")
            at += 1
            continue
        if lines[at].lstrip().startswith("typedef") and all(taken):
            flush()
            if arrays.define(macros.expanded(lines[at])):
                result.append("")
                at += 1
                continue
        if not count:
            block.append(lines[at] if all(t is not False for t in taken) else "")
            at += 1
            continue
        flush()
        words = " ".join(line.rstrip("\\") for line in lines[at : at + count])
        name, _, rest = re.sub(r"/\*.*?\*/|//.*", " ", words).strip()[1:].strip().partition(" ")
        kept = _conditional(name, rest.strip(), taken, ever, macros, known)
        if kept is None:
            kept = all(t is not False for t in taken)
            if kept and None in taken:
                macros.doubt(name, rest)
            elif kept:
                kept = not macros.directive(name, rest)
        if kept and name in ("if", "elif") and "defined" not in rest:  # not defined
            result.extend([f"#{name} {macros.expanded(rest)}", *[""] * (count - 1)])
        else:
            result.extend(lines[at : at + count] if kept else [""] * count)
        at += count
    flush()
    return result


def _directive_lines(lines: Sequence[str], at: int) -> int:
    """Number of lines of the directive at this place; 0 if there is none."""
    if not lines[at].lstrip().startswith("#"):
        return 0
    end = at
    while lines[end].endswith("\\") and end + 1 < len(lines):
        end += 1
    return end + 1 - at


def _conditional(
    name: str,
    rest: str,
    taken: list[bool | None],
    ever: list[bool],
    macros: Macros,
    known: Collection[str],
) -> bool | None:
    """Whether the line of a conditional is kept; None for other directives."""
    if name in ("if", "ifdef", "ifndef"):
        test = {"ifdef": f"defined({rest})", "ifndef": f"!defined({rest})"}.get(name, rest)
        taken.append(_holds(test, macros, known))
        ever.append(bool(taken[-1]))
        return taken[-1] is None
    if name not in ("elif", "else", "endif") or not taken:
        return None
    undecided = taken[-1] is None
    if name == "endif":
        taken.pop()
        ever.pop()
    elif not undecided:
        test = "1" if name == "else" else rest
        taken[-1] = not ever[-1] and bool(_holds(test, macros, known))
        ever[-1] = ever[-1] or bool(taken[-1])
    return undecided


def _holds(test: str, macros: Macros, known: Collection[str]) -> bool | None:
    """Whether the condition of an `#if` is true; None if this is not known here."""

    def of_name(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name not in macros.doubtful and (name in macros or name in known or name in _ALWAYS):
            return "1"
        if name.startswith("_") or name in macros.doubtful:
            raise _Undecided
        return "0"

    try:
        text = re.sub(r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))", of_name, test)
        text = macros.expanded(text)
        names = re.findall(r"\b[A-Za-z_]\w*", text)
        if any(n in known or n in macros.doubtful or n.startswith("_") for n in names):
            return None
        text = re.sub(r"\b[A-Za-z_]\w*", "0", re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text))
        text = re.sub(r"&&|\|\||!(?!=)", lambda m: _OPERATORS[m[0]], text).replace("/", "//")
        return bool(_number(ast.parse(text.strip(), mode="eval").body))
    except (_Undecided, SyntaxError, ValueError, ZeroDivisionError):
        return None


def _number(node: ast.expr) -> int:
    """The value of an expression of integers; `ValueError` for anything else."""
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int(value)):
            return value
        case ast.UnaryOp(op, operand) if type(op) in _UNARY:
            return int(_UNARY[type(op)](_number(operand)))
        case ast.BinOp(left, op, right) if type(op) in _BINARY:
            return int(_BINARY[type(op)](_number(left), _number(right)))
        case ast.BoolOp(op, values):
            chosen = all if isinstance(op, ast.And) else any
            return int(chosen([bool(_number(v)) for v in values]))
        case ast.Compare(left, [op], [right]) if type(op) in _BINARY:
            return int(_BINARY[type(op)](_number(left), _number(right)))
    raise ValueError("not an expression of integers")

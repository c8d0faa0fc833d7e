"""The macros and conditionals a kernel file defines itself, expanded before it is lifted.

Only macros defined in the file are expanded; those of headers (the target's commands) are not
known here and stay. Every line keeps its number.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/)"
    r'|(?P<text>"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)"
    r"|(?P<mark>##|.)",
    re.DOTALL,
)
_DEFINE = re.compile(r"(\w+)(\(([^)]*)\))?\s*(.*)", re.DOTALL)
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


@dataclass(frozen=True, slots=True)
class _Macro:
    """`parameters` is None for an object-like macro."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


class _Undecided(Exception):
    """A condition that depends on the compiler or a header."""


def expanded(source: str, known: Collection[str]) -> str:
    """The source with its own macros expanded and decided conditionals taken.

    `known` are names that headers define. Directives that define, and branches not taken, become
    empty lines; conditionals on what only the compiler knows stay as they are.
    """
    return "\n".join(_lines(source.split("\n"), {}, known))


def _lines(lines: Sequence[str], macros: dict[str, _Macro], known: Collection[str]) -> list[str]:
    result: list[str] = []
    block: list[str] = []
    taken: list[bool | None] = []  # per open conditional: this branch, None if undecided
    ever: list[bool] = []

    def flush() -> None:
        if block:
            result.extend(_expanded_text("\n".join(block), macros).split("\n"))
            block.clear()

    at = 0
    while at < len(lines):
        count = _directive_lines(lines, at)
        if not count:
            block.append(lines[at] if all(t is not False for t in taken) else "")
            at += 1
            continue
        flush()
        words = " ".join(line.rstrip("\\") for line in lines[at : at + count])
        name, _, rest = re.sub(r"/\*.*?\*/|//.*", " ", words).strip()[1:].strip().partition(" ")
        kept = _conditional(name, rest.strip(), taken, ever, macros, known)
        if kept is None:
            kept = all(t is not False for t in taken) and not _defined(name, rest, macros)
        result.extend(lines[at : at + count] if kept else [""] * count)
        at += count
    flush()
    return result


def _directive_lines(lines: Sequence[str], at: int) -> int:
    """How many lines a directive takes; 0 where there is none."""
    if not lines[at].lstrip().startswith("#"):
        return 0
    end = at
    while lines[end].endswith("\\") and end + 1 < len(lines):
        end += 1
    return end + 1 - at


def _defined(name: str, rest: str, macros: dict[str, _Macro]) -> bool:
    """Carry out `#define` and `#undef`; whether it was one of them."""
    if name == "undef":
        macros.pop(rest.strip(), None)
        return True
    found = _DEFINE.fullmatch(rest.strip()) if name == "define" else None
    if found is None:
        return False
    listed = found[3]
    parameters = None
    if listed is not None:
        parameters = tuple(p.strip() for p in listed.split(",") if p.strip())
    macros[found[1]] = _Macro(parameters, tuple(_tokens(found[4])))
    return True


def _conditional(
    name: str,
    rest: str,
    taken: list[bool | None],
    ever: list[bool],
    macros: Mapping[str, _Macro],
    known: Collection[str],
) -> bool | None:
    """Whether the line of a conditional stays as it is; None for other directives."""
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


def _holds(test: str, macros: Mapping[str, _Macro], known: Collection[str]) -> bool | None:
    """Whether the condition of an `#if` holds; None where that is not known here."""

    def of_name(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name in macros or name in known:
            return "1"
        if name.startswith("_"):
            raise _Undecided
        return "0"

    try:
        text = re.sub(r"defined\s*(?:\(\s*(\w+)\s*\)|(\w+))", of_name, test)
        text = _expanded_text(text, macros)
        if any(n in known or n.startswith("_") for n in re.findall(r"\b[A-Za-z_]\w*", text)):
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


def _tokens(text: str) -> Iterator[str]:
    return (found[0] for found in _TOKEN.finditer(text))


def _expanded_text(text: str, macros: Mapping[str, _Macro]) -> str:
    if not macros:
        return text
    return "".join(_expand(list(_tokens(text)), macros, frozenset()))


def _expand(
    tokens: Sequence[str], macros: Mapping[str, _Macro], hidden: frozenset[str]
) -> Iterator[str]:
    at = 0
    while at < len(tokens):
        name = tokens[at]
        at += 1
        macro = macros.get(name) if name not in hidden else None
        if macro is None:
            yield name
        elif macro.parameters is None:
            yield from _expand(macro.body, macros, hidden | {name})
        else:
            given, end = _arguments(tokens, at)
            if given is None:
                yield name
                continue
            lines = sum(t.count("\n") for t in tokens[at:end])
            at = end
            body = _substituted(macro, given, macros, hidden)
            flat = (t.replace("\n", " ") for t in _expand(body, macros, hidden | {name}))
            yield from flat
            yield "\n" * lines


def _arguments(tokens: Sequence[str], at: int) -> tuple[list[list[str]] | None, int]:
    """The arguments of a call that begins at `at`, and where it ends; None if there is none."""
    while at < len(tokens) and _is_space(tokens[at]):
        at += 1
    if at == len(tokens) or tokens[at] != "(":
        return None, at
    depth = 0
    found: list[list[str]] = [[]]
    for end in range(at, len(tokens)):
        token = tokens[end]
        depth += (token in "([{") - (token in ")]}")
        if depth == 0:
            return found, end + 1
        if token == "," and depth == 1:
            found.append([])
        elif end > at:
            found[-1].append(token)
    return None, at


def _substituted(
    macro: _Macro,
    given: Sequence[Sequence[str]],
    macros: Mapping[str, _Macro],
    hidden: frozenset[str],
) -> list[str]:
    """A macro's body with its arguments: expanded, or as written beside `##` and behind `#`."""
    assert macro.parameters is not None
    raw = {p: _trimmed(g) for p, g in zip(macro.parameters, given, strict=False)}
    if macro.parameters[-1:] == ("...",):
        rest = given[len(macro.parameters) - 1 :]
        raw["__VA_ARGS__"] = [t for i, g in enumerate(rest) for t in ([","] * (i > 0) + [*g])]
    body = [t for t in macro.body if not t.startswith(("//", "/*"))]
    result: list[str] = []
    at = 0
    while at < len(body):
        token = body[at]
        ahead = [t for t in body[at + 1 :] if not _is_space(t)][:1]
        if token == "#" and ahead and ahead[0] in raw:
            at = body.index(ahead[0], at)
            result.append('"' + "".join(raw[ahead[0]]) + '"')
        elif token == "##":
            while result and _is_space(result[-1]):
                result.pop()
            at = next((i for i in range(at + 1, len(body)) if not _is_space(body[i])), at)
            pasted = "".join(raw.get(body[at], [body[at]]))
            result.append((result.pop() if result else "") + pasted)
        elif token in raw:
            plain = ahead == ["##"]
            result.extend(raw[token] if plain else _expand(raw[token], macros, hidden))
        else:
            result.append(token)
        at += 1
    return result


def _trimmed(tokens: Sequence[str]) -> list[str]:
    text = list(tokens)
    while text and _is_space(text[0]):
        text.pop(0)
    while text and _is_space(text[-1]):
        text.pop()
    return text


def _is_space(token: str) -> bool:
    return token.isspace() or token.startswith(("//", "/*"))

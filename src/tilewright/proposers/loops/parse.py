"""From C text to the small form; whatever it does not know is refused with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache

import tree_sitter_c
from tree_sitter import Language, Node, Parser

from tilewright.core.records import CommandEffect
from tilewright.proposers.loops.analysis import NotApplicableError, hidden_name
from tilewright.proposers.loops.emit import scratch_text, sharing_text
from tilewright.proposers.loops.functions import is_vector_function
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Command,
    Declare,
    Element,
    For,
    Kernel,
    Load,
    Parameter,
    Statement,
    Type,
    Var,
)
from tilewright.proposers.loops.parse_expressions import (
    UnsupportedError,
    argument,
    constant,
    expression,
    field_of,
    source_of,
)
from tilewright.proposers.loops.sharing import require_shareable

_TYPES: dict[str, Type] = {"int": "int", "float": "float", "vf": "vector"}
_ARRAYS: dict[str, Type] = {
    "int8_t": "int8_t", "uint8_t": "uint8_t", "int16_t": "int16_t", "uint16_t": "uint16_t",
    "int32_t": "int32_t",
}  # fmt: skip
_SIZES = ("float", *_ARRAYS)
_VECTOR_SIZE = re.compile(r"\bvector_size\s*\(\s*([1-9]\d*)\s*\)")
_SHARING = re.compile(
    r"omp parallel for(?: schedule ?\( ?static ?\))? num_threads ?\( ?([1-9]\d?) ?\)"
    r"(?: schedule ?\( ?static ?\))?"
)
_COMPOUND = {"+=": "+", "-=": "-", "*=": "*", "/=": "/"}


def parse(
    source: str, commands: Sequence[CommandEffect] = (), block: tuple[int, int] = (1, 4)
) -> Kernel:
    """The kernel of a source, which may use `commands`. Raises `UnsupportedError`.

    `block` are the most rows, and bytes per row, that one command touches in memory.
    """
    found = _Reader({c.name: c.operands for c in commands}).kernel(source)
    return replace(found, block=block)


class _Reader:
    """Reads one source; `roles` are those of the operands of the commands it may use."""

    def __init__(self, roles: Mapping[str, tuple[str, ...]]) -> None:
        self._roles = roles
        self._shared: list[tuple[Node, For]] = []

    def kernel(self, source: str) -> Kernel:
        """Raises `UnsupportedError`."""
        root = _parser().parse(source.encode()).root_node
        if root.has_error:
            raise UnsupportedError(root, "this is not C that can be read")
        lanes, registers, found = 0, 0, None
        head: list[str] = []
        for node in root.named_children:
            if node.type == "type_definition":
                lanes = _lanes(node) or lanes
            elif node.type == "function_definition":
                name = _function_name(node)
                if name == "kernel":
                    found = node
                elif not is_vector_function(name):
                    raise UnsupportedError(node, f"the function {name} is not known")
            elif node.type == "declaration" and self._roles:
                head.append(source_of(node))
                registers = _described(node)
            elif node.type == "preproc_include":
                if "math.h" not in source_of(node):
                    head.insert(0, source_of(node).strip())
            elif node.type != "comment":
                raise UnsupportedError(node, "only functions may stand here")
        if found is None:
            raise UnsupportedError(root, "there is no function named kernel")
        block = field_of(found, "body").named_children
        scratch = tuple(p for node in block if _is_scratch(node) for p in _scratch(node))
        body = self._statements([node for node in block if not _is_scratch(node)])
        parameters = _parameters(found)
        hidden = hidden_name(body, {p.name for p in (*parameters, *scratch)})
        if hidden is not None:
            raise UnsupportedError(found, f"{hidden} is declared again where it is visible")
        kernel = Kernel(parameters, body, lanes, tuple(head), registers, scratch=scratch)
        for node, loop in self._shared:
            try:
                require_shareable(loop, kernel)
            except NotApplicableError as error:
                raise UnsupportedError(node, f"threads share this loop, but {error}") from error
        return kernel

    def _body(self, node: Node) -> tuple[Statement, ...]:
        if node.type != "compound_statement":
            return tuple(self._statement(node))
        return self._statements(node.named_children)

    def _statements(self, nodes: Sequence[Node]) -> tuple[Statement, ...]:
        found: list[Statement] = []
        pragma: Node | None = None
        for node in nodes:
            if node.type == "preproc_call" and pragma is None:
                pragma = node
            elif pragma is None:
                found += self._statement(node)
            elif node.type != "comment":
                found.append(self._shared_loop(pragma, node))
                pragma = None
        if pragma is not None:
            raise UnsupportedError(pragma, "no loop follows")
        return tuple(found)

    def _shared_loop(self, pragma: Node, node: Node) -> For:
        clauses = _SHARING.fullmatch(" ".join(source_of(pragma).split()).removeprefix("#pragma "))
        if clauses is None or node.type != "for_statement":
            raise UnsupportedError(
                pragma, f"the only pragma that is known is {sharing_text(2)!r}, before a loop"
            )
        loop = replace(self._loop(node), threads=int(clauses.group(1)))
        self._shared.append((pragma, loop))
        return loop

    def _statement(self, node: Node) -> list[Statement]:
        if node.type == "comment":
            return []
        if node.type == "declaration":
            return _declaration(node)
        if node.type == "for_statement":
            return [self._loop(node)]
        if node.type == "expression_statement" and node.named_children:
            inner = node.named_children[0]
            if inner.type == "call_expression":
                return [self._command(inner)]
            return [_assignment(inner)]
        raise UnsupportedError(
            node, f"{source_of(node).splitlines()[0]!r} is no loop and no assignment"
        )

    def _command(self, node: Node) -> Command:
        name = source_of(field_of(node, "function"))
        arguments = field_of(node, "arguments").named_children
        if name not in self._roles or len(arguments) != len(self._roles[name]):
            raise UnsupportedError(node, f"the call of {name} is not known")
        return Command(name, tuple(argument(a) for a in arguments), self._roles[name])

    def _loop(self, node: Node) -> For:
        first = field_of(node, "initializer")
        if first.type != "declaration" or source_of(field_of(first, "type")) != "int":
            raise UnsupportedError(node, "only loops that declare an int are known")
        if len(first.children_by_field_name("declarator")) != 1:
            raise UnsupportedError(node, "only loops that declare one variable are known")
        declared = field_of(first, "declarator")
        name = source_of(field_of(declared, "declarator"))
        condition, update = field_of(node, "condition"), field_of(node, "update")
        if (
            source_of(field_of(condition, "operator")) != "<"
            or source_of(field_of(condition, "left")) != name
        ):
            raise UnsupportedError(node, f"only loops while {name} < a constant are known")
        begin = constant(field_of(declared, "value"))
        last, step = constant(field_of(condition, "right")), _step(update, name)
        body = self._body(field_of(node, "body"))
        return For(name, begin, last, step, body)


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_c.language()))


def _lanes(node: Node) -> int:
    """Of the type of float vectors, as this package writes it."""
    text = source_of(node)
    if "vector_size" not in text or " vf " not in text:
        return 0
    size = _VECTOR_SIZE.search(text)
    if size is None:
        raise UnsupportedError(node, "the size of the vector type vf is no whole number")
    return int(size.group(1)) // 4


def _function_name(node: Node) -> str:
    declarator = field_of(node, "declarator")
    while declarator.type != "identifier":
        declarator = field_of(declarator, "declarator")
    return source_of(declarator)


def _parameters(function: Node) -> tuple[Parameter, ...]:
    found = []
    for node in field_of(field_of(function, "declarator"), "parameters").named_children:
        kind = source_of(field_of(node, "type"))
        if kind not in _SIZES:
            raise UnsupportedError(node, f"arrays of {kind} are not known")
        name, sizes = _declarator(field_of(node, "declarator"))
        if not sizes:
            raise UnsupportedError(node, f"the sizes of {name} are not given")
        found.append(Parameter(name, sizes, source_of(node).startswith("const "), kind))
    return tuple(found)


def _is_scratch(node: Node) -> bool:
    return node.type == "declaration" and source_of(node).startswith("static ")


def _scratch(node: Node) -> list[Parameter]:
    """Static arrays, as this package writes them."""
    kind = source_of(field_of(node, "type"))
    found = [_declarator(d) for d in node.children_by_field_name("declarator")]
    text = " ".join(source_of(node).split())
    written = [scratch_text(Parameter(name, sizes, False, kind)) for name, sizes in found]
    if kind not in _SIZES or [text] != written:
        raise UnsupportedError(node, "only plain static arrays, aligned to 64 bytes, are known")
    return [Parameter(name, sizes, False, kind) for name, sizes in found]


def _declarator(node: Node) -> tuple[str, tuple[int, ...]]:
    """Name and sizes."""
    sizes: list[int] = []
    while node.type == "array_declarator":
        sizes.insert(0, constant(field_of(node, "size")))
        node = field_of(node, "declarator")
    if node.type != "identifier":
        raise UnsupportedError(node, f"{source_of(node)!r} is no plain variable or array")
    return source_of(node), tuple(sizes)


def _declaration(node: Node) -> list[Statement]:
    named = source_of(field_of(node, "type"))
    kind = _TYPES.get(named, _ARRAYS.get(named))
    qualified = [
        c for c in node.children if c.type in ("storage_class_specifier", "type_qualifier")
    ]
    if kind is None or qualified:
        raise UnsupportedError(node, "only plain int, float and vf variables are known")
    found: list[Statement] = []
    for declarator in node.children_by_field_name("declarator"):
        value = None
        if declarator.type == "init_declarator":
            value = expression(field_of(declarator, "value"))
            declarator = field_of(declarator, "declarator")
        name, sizes = _declarator(declarator)
        if named in _ARRAYS and (not sizes or value is not None):
            raise UnsupportedError(node, "only plain int, float and vf variables are known")
        found.append(Declare(kind, name, sizes, value))
    return found


def _assignment(node: Node) -> Assign:
    if node.type != "assignment_expression":
        raise UnsupportedError(node, f"{source_of(node)!r} is no assignment")
    target = expression(field_of(node, "left"))
    if not isinstance(target, (Var, Element, Load)):
        raise UnsupportedError(node, f"{source_of(field_of(node, 'left'))!r} cannot be assigned")
    value = expression(field_of(node, "right"))
    operator = source_of(field_of(node, "operator"))
    if operator in _COMPOUND:
        value = Binary(_COMPOUND[operator], target, value)
    elif operator != "=":
        raise UnsupportedError(node, f"the operator {operator} is not known")
    return Assign(target, value)


def _step(update: Node, name: str) -> int:
    if update.type == "update_expression" and source_of(update) in (f"{name}++", f"++{name}"):
        return 1
    if update.type == "assignment_expression" and source_of(field_of(update, "operator")) == "+=":
        step = constant(field_of(update, "right"))
        if source_of(field_of(update, "left")) == name and step > 0:
            return step
    raise UnsupportedError(update, f"{source_of(update)!r} is no constant step of {name}")


def _described(node: Node) -> int:
    """How many registers a declaration describes: the length that all its lists have, or 0."""
    lists = [
        len(inner.named_children)
        for inner in _descendants(node)
        if inner.type == "initializer_list"
        and all(value.type == "number_literal" for value in inner.named_children)
    ]
    return lists[0] if lists and len(set(lists)) == 1 else 0


def _descendants(node: Node) -> Iterator[Node]:
    for child in node.named_children:
        yield child
        yield from _descendants(child)

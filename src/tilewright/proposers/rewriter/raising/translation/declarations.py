"""Types and declarators, and the state of the translation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.translation.parts import (
    Function,
    Own,
    Place,
    Untranslated,
    field_of,
)
from tilewright.proposers.rewriter.raising.translation.runtime import RUNTIME
from tilewright.proposers.rewriter.raising.types import (
    INT,
    NAMED,
    UNSIGNED,
    Callee,
    Elements,
    Pointer,
    Type,
    of_words,
    structure,
)


@dataclass
class Declarations(ABC):
    """The state of a translation: the Python text in `lines`, and the C line of each Python line in
    `origins`. The first `static_lines` lines are those of static variables.

    With `data`, the text computes on elements of arrays as well (`raising.data`).
    """

    machine: Machine
    data: bool = False
    commands: list[str] = field(default_factory=list)
    typedefs: dict[str, Type] = field(default_factory=dict)
    structures: dict[str, Type] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    globals: dict[str, Place] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    static_lines: int = 0
    scopes: list[dict[str, Place]] = field(default_factory=list)
    loops: list[tuple[str, Node | None]] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)
    addressed: frozenset[str] = frozenset()
    result: Type | None = None
    runs_once: bool = False
    depth: int = 0
    serial: int = 0

    @abstractmethod
    def value(self, node: Node) -> tuple[str, Type | None]:
        """Python code of an expression, and its type."""

    def _typedef(self, node: Node) -> None:
        kind = self.type_of(field_of(node, "type"), allow_void=True)
        for declarator in node.children_by_field_name("declarator"):
            name, full = self.declared(declarator, kind)
            if full is not None:
                self.typedefs[name] = full

    def type_of(self, node: Node, *, allow_void: bool = False) -> Type | None:
        """The type that a specifier names."""
        text = text_of(node)
        match node.type:
            case "struct_specifier":
                return self._structure(node)
            case "enum_specifier":
                self._enumerators(node)
                return UNSIGNED if node.child_by_field_name("name") is None else INT
            case "sized_type_specifier" | "primitive_type" | "type_identifier":
                if text == "void" and allow_void:
                    return None
                known = self.typedefs.get(text) or NAMED.get(text) or of_words(text.split())
                if known is not None:
                    return known
        raise Untranslated(node, f"the type {text.splitlines()[0]!r} is unknown")

    def _structure(self, node: Node) -> Type:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if body is None:
            known = self.structures.get(text_of(name)) if name is not None else None
            if known is None:
                raise Untranslated(node, "a structure is used before it is defined")
            return known
        fields: list[tuple[str, Type]] = []
        for item in body.named_children:
            if item.type == "field_declaration":
                kind = self.type_of(field_of(item, "type"), allow_void=True)
                for declarator in item.children_by_field_name("declarator"):
                    called, full = self.declared(declarator, kind)
                    if full is None:
                        raise Untranslated(item, "a field of a structure has no type")
                    fields.append((called, full))
        made = structure(fields)
        if name is not None:
            self.structures[text_of(name)] = made
        return made

    def _enumerators(self, node: Node) -> None:
        body, value = node.child_by_field_name("body"), 0
        for item in body.named_children if body is not None else []:
            if item.type == "enumerator":
                given = item.child_by_field_name("value")
                value = self.constant(given) if given is not None else value
                self.constants[text_of(field_of(item, "name"))] = value
                value += 1

    def declared(self, node: Node, kind: Type | None) -> tuple[str, Type | None]:
        """The name and type in a declarator, for a base type."""
        match node.type:
            case "identifier" | "type_identifier" | "field_identifier":
                return text_of(node), kind
            case "pointer_declarator" | "abstract_pointer_declarator":
                inner = node.child_by_field_name("declarator")
                made: Type = Pointer(kind)
                return self.declared(inner, made) if inner is not None else ("", made)
            case "array_declarator" | "abstract_array_declarator":
                size, inner = (node.child_by_field_name(f) for f in ("size", "declarator"))
                if kind is None:
                    raise Untranslated(node, "an array has elements of type void")
                made = Elements(kind, self.constant(size) if size is not None else 0)
                return self.declared(inner, made) if inner is not None else ("", made)
            case "function_declarator" | "abstract_function_declarator":
                inner = node.child_by_field_name("declarator")
                given = self.parameters(field_of(node, "parameters"))
                made = Callee(tuple(of for _, of in given), kind)
                return self.declared(inner, made) if inner is not None else ("", made)
            case "parenthesized_declarator" | "abstract_parenthesized_declarator":
                return self.declared(node.named_children[0], kind)
            case "attributed_declarator" | "init_declarator":
                inner = node.child_by_field_name("declarator")
                return self.declared(inner if inner is not None else node.named_children[0], kind)
        raise Untranslated(node, f"the declaration {text_of(node)!r} is not supported")

    def parameters(self, listed: Node) -> list[tuple[str, Type]]:
        """The names and types of a list of parameters. A name may be empty."""
        found: list[tuple[str, Type]] = []
        for parameter in listed.named_children:
            if parameter.type != "parameter_declaration":
                continue
            inner = parameter.child_by_field_name("declarator")
            kind = self.type_of(field_of(parameter, "type"), allow_void=True)
            name, full = self.declared(inner, kind) if inner is not None else ("", kind)
            if isinstance(full, Elements):
                full = Pointer(full.of)
            if full is not None:
                found.append((name, full))
            elif inner is not None:
                raise Untranslated(parameter, "a parameter has no type")
        return found

    def _described(self, node: Node) -> Type | None:
        """The type of a cast or sizeof."""
        kind = self.type_of(field_of(node, "type"), allow_void=True)
        abstract = node.child_by_field_name("declarator")
        return self.declared(abstract, kind)[1] if abstract is not None else kind

    def constant(self, node: Node) -> int:
        """An integer known now."""
        code, _ = self.value(node)
        try:
            return int(eval(code, {"__builtins__": {}, **RUNTIME}))  # our own text, of this node
        except Exception as error:
            raise Untranslated(node, f"{text_of(node)!r} is not a constant") from error

    def _put(self, node: Node, code: str) -> None:
        self.lines.append("  " * self.depth + code)
        self.origins.append(node.start_point[0] + 1)

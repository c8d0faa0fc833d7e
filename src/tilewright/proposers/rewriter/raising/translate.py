"""Translates a kernel from C to Python functions that issue its commands when they run.

Every variable whose address is not taken is a Python variable. All others are in one memory, a
dictionary from addresses to values. Arrays of the kernel's arguments have addresses but no values,
so a kernel that reads its data is refused when it does so.
"""

from __future__ import annotations

from tree_sitter import Node

from tilewright.proposers.c.syntax import calls, text_of
from tilewright.proposers.rewriter.raising.translation.parts import (
    ENTRY,
    Function,
    Place,
    Untranslated,
    addressed,
    field_of,
)
from tilewright.proposers.rewriter.raising.translation.statements import Statements
from tilewright.proposers.rewriter.raising.types import (
    Number,
    Pointer,
    Structure,
    Type,
    size_of,
)


class Translator(Statements):
    """Translates one file. `lines` contains the Python text and `origins` the C line of each Python
    line."""

    def file(self, root: Node) -> None:
        """All functions and globals. Functions may be called before their definitions."""
        for node in root.named_children:
            match node.type:
                case "type_definition":
                    self._typedef(node)
                case "struct_specifier" | "enum_specifier" | "union_specifier":
                    self.type_of(node)
                case "function_definition":
                    self._signature(node)
                case "declaration":
                    self._globals(node)
        called = {text_of(field_of(n, "function")) for n in calls(root)}
        for function in self.functions.values():
            self.runs_once = function.name == ENTRY and ENTRY not in called
            self._function(function)

    def _signature(self, node: Node) -> None:
        declarator = field_of(node, "declarator")
        result: Type | None = None
        if text_of(field_of(node, "type")) != "void":
            result = self.type_of(field_of(node, "type"))
        while declarator.type == "pointer_declarator":
            result, declarator = Pointer(result), field_of(declarator, "declarator")
        if declarator.type != "function_declarator":
            raise Untranslated(node, "the form of this function declaration is not supported")
        found = tuple(self.parameters(field_of(declarator, "parameters")))
        name = text_of(field_of(declarator, "declarator"))
        self.functions[name] = Function(name, found, result, field_of(node, "body"))

    def _globals(self, node: Node) -> None:
        kind = self.type_of(field_of(node, "type"), allow_void=True)
        self.scopes = [{}]
        for declarator in node.children_by_field_name("declarator"):
            inner = declarator
            while inner.type in ("init_declarator", "pointer_declarator", "array_declarator"):
                inner = field_of(inner, "declarator")
            if inner.type == "function_declarator" and inner.named_children[0].type == "identifier":
                continue
            constant = any(text_of(c) == "const" for c in node.children)
            if constant and isinstance(kind, Number) and declarator.type == "init_declarator":
                name, full = self.declared(declarator, kind)
                if full == kind and not kind.floating:
                    self.constants[name] = self.constant(field_of(declarator, "value"))
                    continue
            self._declare(declarator, kind, static=True, constant=constant)
        self.globals.update(self.scopes[0])
        self.scopes = []

    def _function(self, function: Function) -> None:
        self.addressed = frozenset(addressed(function.body))
        self.result, self.depth, self.loops = function.result, 1, []
        self.scopes, scope = [{}], {}
        names = []
        for name, kind in function.parameters:
            self.serial += 1
            place = Place(f"v{self.serial}_{name}", kind, in_memory=False)
            names.append(place.code)
            if name in self.addressed or isinstance(kind, Structure):
                scope[name] = Place(f"m{self.serial}_{name}", kind, in_memory=True)
            else:
                scope[name] = place
        self.depth = 0
        self._put(function.body, f"def f_{function.name}({', '.join(names)}):")
        self.depth = 1
        self._put(function.body, "next(steps)")
        for given, (name, kind) in zip(names, function.parameters, strict=True):
            if scope[name].in_memory:
                self._put(function.body, f"{scope[name].code} = allocate({size_of(kind)})")
                self._put(function.body, self._store(function.body, scope[name], given))
        self.scopes = [scope]
        self._block(function.body)

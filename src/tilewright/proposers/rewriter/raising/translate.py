"""C to Python: a kernel becomes functions that issue its commands when they run.

Every variable that has no address is a Python variable; all others lie in one memory, a dictionary
from addresses to values. Arrays of the kernel's arguments have addresses but hold nothing, so a
kernel that looks at its data is refused when it does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from tilewright.proposers.c.syntax import TELLS, descendants, text_of
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.types import (
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    NAMED,
    UNSIGNED,
    UNSIGNED_LONG,
    Elements,
    Number,
    Pointer,
    Structure,
    Type,
    common,
    of_words,
    promoted,
    size_of,
    structure,
)

ENTRY = "kernel"
SPACING = 1 << 40
"""Bytes between the addresses of two arguments: argument n lies at (n + 1) * SPACING."""
OWN = 1 << 62
"""Where arrays of the kernel's own begin, which lie as far apart."""


class Untranslated(Exception):
    """A construct that is not executed here; `line` is where it stands."""

    def __init__(self, node: Node, what: str) -> None:
        self.line = node.start_point[0] + 1
        self.what = what
        super().__init__(f"line {self.line}: {what}")


@dataclass(frozen=True, slots=True)
class Place:
    """Something that can be assigned: a Python variable, or the code of an address."""

    code: str
    kind: Type
    in_memory: bool


@dataclass(frozen=True, slots=True)
class Own:
    """An array of numbers of the kernel's own, which commands may load and store.

    It keeps its values from call to call if it is `static`; `outside` of functions, the file's own
    text declares it.
    """

    name: str
    of: Number
    shape: tuple[int, ...]
    static: bool
    outside: bool

    @property
    def bytes(self) -> int:
        """Of all elements."""
        return self.of.bytes * math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the file: its parameters with their types, what it returns, its body."""

    name: str
    parameters: tuple[tuple[str, Type], ...]
    result: Type | None
    body: Node


@dataclass
class Translator:
    """Translates one file; `lines` holds the Python text and `origins` the C line of each."""

    machine: Machine
    commands: list[str] = field(default_factory=list)
    typedefs: dict[str, Type] = field(default_factory=dict)
    structures: dict[str, Type] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
    globals: dict[str, Place] = field(default_factory=dict)
    constants: dict[str, int] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    scopes: list[dict[str, Place]] = field(default_factory=list)
    loops: list[tuple[str, Node | None]] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)
    addressed: frozenset[str] = frozenset()
    result: Type | None = None
    runs_once: bool = False
    depth: int = 0
    serial: int = 0

    # Files

    def file(self, root: Node) -> None:
        """All functions and globals; calls may come before definitions."""
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
        called = {text_of(_field(n, "function")) for n in _calls(root)}
        for function in self.functions.values():
            self.runs_once = function.name == ENTRY and ENTRY not in called
            self._function(function)

    def _typedef(self, node: Node) -> None:
        kind = self.type_of(_field(node, "type"))
        for declarator in node.children_by_field_name("declarator"):
            name, full = self.declared(declarator, kind)
            if full is not None:
                self.typedefs[name] = full

    def _signature(self, node: Node) -> None:
        declarator = _field(node, "declarator")
        result: Type | None = None
        if text_of(_field(node, "type")) != "void":
            result = self.type_of(_field(node, "type"))
        while declarator.type == "pointer_declarator":
            result, declarator = Pointer(result), _field(declarator, "declarator")
        if declarator.type != "function_declarator":
            raise Untranslated(node, "a function with an unusual declaration")
        found = []
        for parameter in _field(declarator, "parameters").named_children:
            inner = parameter.child_by_field_name("declarator")
            if parameter.type != "parameter_declaration" or inner is None:
                continue
            kind = self.type_of(_field(parameter, "type"), allow_void=True)
            name, full = self.declared(inner, kind)
            if isinstance(full, Elements):
                full = Pointer(full.of)
            if full is None:
                raise Untranslated(parameter, "a parameter without a type")
            found.append((name, full))
        name = text_of(_field(declarator, "declarator"))
        self.functions[name] = Function(name, tuple(found), result, _field(node, "body"))

    def _globals(self, node: Node) -> None:
        kind = self.type_of(_field(node, "type"), allow_void=True)
        self.scopes = [{}]
        for declarator in node.children_by_field_name("declarator"):
            inner = declarator
            while inner.type in ("init_declarator", "pointer_declarator", "array_declarator"):
                inner = _field(inner, "declarator")
            if inner.type == "function_declarator":
                continue
            constant = any(text_of(c) == "const" for c in node.children)
            if constant and isinstance(kind, Number) and declarator.type == "init_declarator":
                name, full = self.declared(declarator, kind)
                if full == kind and not kind.floating:
                    self.constants[name] = self.constant(_field(declarator, "value"))
                    continue
            self._declare(declarator, kind, static=True)
        self.globals.update(self.scopes[0])
        self.scopes = []

    def _function(self, function: Function) -> None:
        self.addressed = frozenset(_addressed(function.body))
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

    # Types

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
        raise Untranslated(node, f"the type {text.splitlines()[0]!r}")

    def _structure(self, node: Node) -> Type:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        if body is None:
            known = self.structures.get(text_of(name)) if name is not None else None
            if known is None:
                raise Untranslated(node, "a structure that is not defined before")
            return known
        fields: list[tuple[str, Type]] = []
        for item in body.named_children:
            if item.type == "field_declaration":
                kind = self.type_of(_field(item, "type"), allow_void=True)
                for declarator in item.children_by_field_name("declarator"):
                    called, full = self.declared(declarator, kind)
                    if full is None:
                        raise Untranslated(item, "a field without a type")
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
                self.constants[text_of(_field(item, "name"))] = value
                value += 1

    def declared(self, node: Node, kind: Type | None) -> tuple[str, Type | None]:
        """Name and type of a declarator of things of a kind."""
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
                    raise Untranslated(node, "an array of nothing")
                made = Elements(kind, self.constant(size) if size is not None else 0)
                return self.declared(inner, made) if inner is not None else ("", made)
            case "parenthesized_declarator" | "abstract_parenthesized_declarator":
                return self.declared(node.named_children[0], kind)
            case "attributed_declarator" | "init_declarator":
                inner = node.child_by_field_name("declarator")
                return self.declared(inner if inner is not None else node.named_children[0], kind)
        raise Untranslated(node, f"the declarator {text_of(node)!r}")

    def constant(self, node: Node) -> int:
        """An integer known now."""
        code, _ = self.value(node)
        try:
            return int(eval(code, {"__builtins__": {}, **RUNTIME}))  # our own text, of this node
        except Exception as error:
            raise Untranslated(node, f"{text_of(node)!r}, which is not constant") from error

    # Statements

    def _put(self, node: Node, code: str) -> None:
        self.lines.append("  " * self.depth + code)
        self.origins.append(node.start_point[0] + 1)

    def _block(self, node: Node) -> None:
        self.scopes.append({})
        before = len(self.lines)
        for child in node.named_children:
            self._statement(child)
        if len(self.lines) == before:
            self._put(node, "pass")
        self.scopes.pop()

    def _indented(self, node: Node) -> None:
        self.depth += 1
        if node.type == "compound_statement":
            self._block(node)
        else:
            self.scopes.append({})
            before = len(self.lines)
            self._statement(node)
            if len(self.lines) == before:
                self._put(node, "pass")
            self.scopes.pop()
        self.depth -= 1

    def _statement(self, node: Node) -> None:
        match node.type:
            case "comment" | ";" | "attribute_specifier":
                pass
            case "preproc_call" if text_of(node).lstrip().startswith("#pragma"):
                pass
            case "declaration":
                kind = self.type_of(_field(node, "type"), allow_void=True)
                static = any(text_of(c) == "static" for c in node.children)
                for declarator in node.children_by_field_name("declarator"):
                    self._declare(declarator, kind, static=static)
            case "struct_specifier" | "enum_specifier":
                self.type_of(node)
            case "type_definition":
                self._typedef(node)
            case "expression_statement":
                for child in node.named_children:
                    self._effect(child)
            case "attributed_statement":
                for child in node.named_children:
                    if child.type != "attribute_declaration":
                        self._statement(child)
            case "compound_statement":
                self._block(node)
            case "if_statement":
                self._if(node)
            case "for_statement" | "while_statement" | "do_statement":
                self._loop(node)
            case "switch_statement":
                self._switch(node)
            case "break_statement":
                self._put(node, "break")
            case "continue_statement":
                self._continue(node)
            case "return_statement":
                self._return(node)
            case _:
                raise Untranslated(node, node.type.replace("_", " "))

    def _effect(self, node: Node) -> None:
        """An expression whose value is not used."""
        if node.type == "comma_expression":
            for child in node.named_children:
                self._effect(child)
            return
        if node.type == "comment":
            return
        if node.type in ("assignment_expression", "update_expression"):
            self._put(node, self._assignment(node, used=False)[0])
            return
        if node.type == "call_expression":
            name = text_of(_field(node, "function"))
            if name in TELLS:
                return
        self._put(node, self.value(node)[0])

    def _if(self, node: Node) -> None:
        test = node.child_by_field_name("condition")
        assert test is not None
        self._put(node, f"if {self.truth(test)}:")
        self._indented(_field(node, "consequence"))
        other = node.child_by_field_name("alternative")
        if other is not None:
            self._put(other, "else:")
            inner = [c for c in other.named_children if c.type != "comment"]
            self._indented(inner[0] if other.type == "else_clause" else other)

    def _loop(self, node: Node) -> None:
        self.scopes.append({})
        first = node.child_by_field_name("initializer")
        if first is not None:
            if first.type == "declaration":
                self._statement(first)
            else:
                self._effect(first)
        test, update = (node.child_by_field_name(f) for f in ("condition", "update"))
        self._put(node, "while True:")
        self.depth += 1
        self._put(node, "next(steps)")
        late = node.type == "do_statement"
        if test is not None and not late:
            self._put(test, f"if not {self.truth(test)}: break")
        self.loops.append(("do" if late else "for", test if late else update))
        self.depth -= 1
        self._indented(_field(node, "body"))
        self.depth += 1
        self._next_iteration(node)
        self.depth -= 1
        self.loops.pop()
        self.scopes.pop()

    def _next_iteration(self, node: Node) -> None:
        kind, last = self.loops[-1]
        if kind == "do" and last is not None:
            self._put(node, f"if not {self.truth(last)}: break")
        elif last is not None:
            self._effect(last)

    def _continue(self, node: Node) -> None:
        kind, _ = self.loops[-1]
        if kind == "switch":
            raise Untranslated(node, "continue within a switch")
        self._next_iteration(node)
        self._put(node, "continue")

    def _switch(self, node: Node) -> None:
        self.serial += 1
        value = f"s{self.serial}"
        code, _ = self.value(_field(node, "condition"))
        cases = [c for c in _field(node, "body").named_children if c.type == "case_statement"]
        labels = [c.child_by_field_name("value") for c in cases]
        known = {self.constant(n): i for i, n in enumerate(labels) if n is not None}
        default = next((i for i, n in enumerate(labels) if n is None), len(cases))
        self._put(node, f"{value} = {known}.get({code}, {default})")
        self._put(node, "while True:")
        self.depth += 1
        self.loops.append(("switch", None))
        self.scopes.append({})
        for number, (case, label) in enumerate(zip(cases, labels, strict=True)):
            self._put(case, f"if {value} <= {number}:")
            self.depth += 1
            self._put(case, "pass")
            for child in case.named_children:
                if label is None or child.id != label.id:
                    self._statement(child)
            self.depth -= 1
        self._put(node, "break")
        self.scopes.pop()
        self.loops.pop()
        self.depth -= 1

    def _return(self, node: Node) -> None:
        given = [c for c in node.named_children if c.type != "comment"]
        if not given or self.result is None:
            self._put(node, "return")
        else:
            code, kind = self.value(given[0])
            self._put(node, f"return {self.converted(code, kind, self.result, node)}")

    def _declare(self, item: Node, kind: Type | None, *, static: bool = False) -> None:
        value = item.child_by_field_name("value") if item.type == "init_declarator" else None
        name, full = self.declared(item, kind)
        if full is None:
            raise Untranslated(item, "a variable without a type")
        if isinstance(full, Elements) and not full.count and value is not None:
            full = Elements(full.of, len([c for c in value.named_children if c.type != "comment"]))
        self.serial += 1
        aggregate = isinstance(full, Elements | Structure)
        if not (aggregate or static or name in self.addressed):
            place = Place(f"v{self.serial}_{name}", full, in_memory=False)
            code = "0"
            if value is not None:
                code, of = self._given(value, full)
                code = self.converted(code, of, full, item)
            self.scopes[-1][name] = place
            self._put(item, f"{place.code} = {code}")
            return
        place = Place(f"m{self.serial}_{name}", full, in_memory=True)
        self.scopes[-1][name] = place
        if static:
            depth, self.depth = self.depth, 0
            lines, self.lines = self.lines, []
            origins, self.origins = self.origins, []
        own = self._own(name, full, static=static)
        self._put(item, f"{place.code} = {own or f'allocate({size_of(full)})'}")
        if value is not None or (static and not own):
            self._put(item, f"clear({place.code}, {size_of(full)})")
        if value is not None:
            self._initialise(value, place)
        if static:
            self.depth = depth
            self.lines, self.origins = self.lines + lines, self.origins + origins

    def _own(self, name: str, kind: Type, *, static: bool) -> int:
        """The address of an array of numbers that exists once; 0 for everything else."""
        if not (static or self.runs_once):
            return 0
        shape, of = list[int](), kind
        while isinstance(of, Elements):
            shape, of = [*shape, of.count], of.of
        if not shape or not all(shape) or not isinstance(of, Number):
            return 0
        self.own.append(Own(name, of, tuple(shape), static, outside=len(self.scopes) == 1))
        return OWN + (len(self.own) - 1) * SPACING

    def _given(self, value: Node, kind: Type) -> tuple[str, Type | None]:
        if value.type == "initializer_list":
            inner = [c for c in value.named_children if c.type != "comment"]
            return self._given(inner[0], kind) if inner else ("0", INT)
        return self.value(value)

    def _initialise(self, value: Node, place: Place) -> None:
        """`= {..}` or `= value` of something in memory."""
        if value.type != "initializer_list" or not isinstance(place.kind, Elements | Structure):
            code, kind = self._given(value, place.kind)
            self._put(
                value, self._store(value, place, self.converted(code, kind, place.kind, value))
            )
            return
        at = 0
        for item in value.named_children:
            if item.type == "comment":
                continue
            given, part = item, None
            if item.type == "initializer_pair":
                designator, given = item.named_children[0], _field(item, "value")
                inner = designator.named_children[0]
                if designator.type == "field_designator":
                    part = self._field(place, text_of(inner), item)
                else:
                    at = self.constant(inner)
            if part is None and isinstance(place.kind, Elements):
                part = Place(
                    f"{place.code} + {at * size_of(place.kind.of)}", place.kind.of, in_memory=True
                )
            elif part is None:
                assert isinstance(place.kind, Structure)
                _, kind, offset = place.kind.fields[at]
                part = Place(f"{place.code} + {offset}", kind, in_memory=True)
            self._initialise(given, part)
            at += 1

    # Expressions

    def truth(self, node: Node) -> str:
        """Python code that is true where the C expression is not zero."""
        return self.value(node)[0]

    def value(self, node: Node) -> tuple[str, Type | None]:
        """Python code of an expression, and its type."""
        match node.type:
            case "number_literal" | "char_literal":
                return _literal(node)
            case "true" | "false":
                return ("1" if node.type == "true" else "0"), INT
            case "null":
                return "0", Pointer(None)
            case "parenthesized_expression":
                inner = [c for c in node.named_children if c.type != "comment"]
                code, kind = self.value(inner[0])
                return f"({code})", kind
            case "cast_expression" | "compound_literal_expression":
                return self._cast(node)
            case "unary_expression":
                return self._unary(node)
            case "binary_expression":
                return self._binary(node)
            case "conditional_expression":
                return self._conditional(node)
            case "assignment_expression" | "update_expression":
                return self._assignment(node, used=True)
            case "comma_expression":
                parts = [self.value(c) for c in node.named_children]
                return f"({', '.join(p for p, _ in parts)})[-1]", parts[-1][1]
            case "sizeof_expression":
                return self._sizeof(node)
            case "call_expression":
                return self._call(node)
            case "identifier" if self._place_named(text_of(node)) is None:
                return self._named(node)
        if node.type == "pointer_expression" and text_of(node).startswith("&"):
            place = self.place(_field(node, "argument"))
            if not place.in_memory:
                raise Untranslated(node, f"the address {text_of(node)!r}")
            return place.code, Pointer(place.kind)
        place = self.place(node)
        if not place.in_memory:
            return place.code, place.kind
        if isinstance(place.kind, Elements):
            return place.code, Pointer(place.kind.of)
        if isinstance(place.kind, Structure):
            return place.code, place.kind
        return f"load({place.code})", place.kind

    def _place_named(self, name: str) -> Place | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return self.globals.get(name)

    def _named(self, node: Node) -> tuple[str, Type | None]:
        name = text_of(node)
        known = self.constants.get(name)
        known = self.machine.constants.get(name) if known is None else known
        if known is None:
            if name == "NULL":
                return "0", Pointer(None)
            raise Untranslated(node, f"{name}, which nothing declares")
        return str(known), INT if known < 1 << 31 else UNSIGNED

    def place(self, node: Node) -> Place:
        """Where something that can be assigned lies."""
        match node.type:
            case "parenthesized_expression":
                return self.place(node.named_children[0])
            case "identifier":
                found = self._place_named(text_of(node))
                if found is None:
                    raise Untranslated(node, f"{text_of(node)}, which nothing declares")
                return found
            case "subscript_expression":
                base, kind = self.value(_field(node, "argument"))
                index, _ = self.value(_field(node, "index"))
                to = _pointee(kind, node)
                return Place(f"({base} + ({index}) * {size_of(to)})", to, in_memory=True)
            case "pointer_expression":
                base, kind = self.value(_field(node, "argument"))
                return Place(f"({base})", _pointee(kind, node), in_memory=True)
            case "field_expression":
                argument, name = _field(node, "argument"), text_of(_field(node, "field"))
                if any(c.type == "->" for c in node.children):
                    base, kind = self.value(argument)
                    return self._field(Place(base, _pointee(kind, node), True), name, node)
                if argument.type == "call_expression":
                    base, kind = self.value(argument)
                    assert kind is not None
                    return self._field(Place(base, kind, True), name, node)
                return self._field(self.place(argument), name, node)
            case "compound_literal_expression":
                code, literal = self._cast(node)
                assert literal is not None
                return Place(code, literal, in_memory=True)
        raise Untranslated(node, f"{text_of(node)!r} as a place")

    def _field(self, place: Place, name: str, node: Node) -> Place:
        for called, kind, offset in place.kind.fields if isinstance(place.kind, Structure) else ():
            if called == name:
                return Place(f"({place.code} + {offset})", kind, in_memory=True)
        raise Untranslated(node, f"the field {name}")

    def converted(self, code: str, kind: Type | None, to: Type | None, node: Node) -> str:
        """Code of a value as another type."""
        if isinstance(to, Structure):
            if kind != to:
                raise Untranslated(node, "a structure from something else")
            return f"copy({code}, allocate({to.bytes}), {to.bytes})"
        if not isinstance(to, Number) or kind == to:
            return code
        if to.floating:
            return code if isinstance(kind, Number) and kind.floating else f"float({code})"
        if isinstance(kind, Number) and kind.floating:
            code, kind = f"int({code})", LONG
        if not isinstance(kind, Number):
            kind = UNSIGNED_LONG
        holds = kind.bytes < to.bytes or (kind.bytes == to.bytes and kind.signed == to.signed)
        if holds and (to.signed or not kind.signed):
            return code
        if code.isdecimal() and int(code) < 1 << (8 * to.bytes - to.signed):
            return code
        mask = (1 << 8 * to.bytes) - 1
        if to.signed:
            return f"signed({code}, {8 * to.bytes})"
        return f"(({code}) & {mask})"

    def _cast(self, node: Node) -> tuple[str, Type | None]:
        to = self._described(_field(node, "type"))
        value = _field(node, "value")
        if node.type == "compound_literal_expression":
            if isinstance(to, Structure):
                self.serial += 1
                place = Place(f"m{self.serial}", to, in_memory=True)
                self._put(node, f"{place.code} = allocate({to.bytes})")
                self._put(node, f"clear({place.code}, {to.bytes})")
                self._initialise(value, place)
                return place.code, to
            code, kind = self._given(value, to or INT)
        else:
            code, kind = self.value(value)
        if to is None:
            return code, None
        return self.converted(code, kind, to, node), to

    def _described(self, node: Node) -> Type | None:
        """The type of a cast or sizeof."""
        kind = self.type_of(_field(node, "type"), allow_void=True)
        abstract = node.child_by_field_name("declarator")
        return self.declared(abstract, kind)[1] if abstract is not None else kind

    def _unary(self, node: Node) -> tuple[str, Type | None]:
        operator = text_of(_field(node, "operator"))
        code, kind = self.value(_field(node, "argument"))
        if operator == "!":
            return f"int(not {code})", INT
        if not isinstance(kind, Number):
            raise Untranslated(node, f"{operator} of something other than a number")
        kind = promoted(kind)
        return self._kept(f"({operator}{code})", kind), kind

    def _kept(self, code: str, kind: Number) -> str:
        """A result within its type: unsigned ones wrap, signed ones are the author's business."""
        return (
            f"({code} & {(1 << 8 * kind.bytes) - 1})"
            if not (kind.signed or kind.floating)
            else code
        )

    def _binary(self, node: Node) -> tuple[str, Type | None]:
        operator = text_of(_field(node, "operator"))
        left, a = self.value(_field(node, "left"))
        right, b = self.value(_field(node, "right"))
        return self.combined(node, operator, left, a, right, b)

    def combined(
        self, node: Node, operator: str, left: str, a: Type | None, right: str, b: Type | None
    ) -> tuple[str, Type | None]:
        """`left operator right`."""
        if operator in ("&&", "||"):
            word = "and" if operator == "&&" else "or"
            return f"int(bool({left} {word} {right}))", INT
        if operator in ("==", "!=", "<", "<=", ">", ">="):
            if isinstance(a, Number) and isinstance(b, Number) and not (a.floating or b.floating):
                both = common(a, b)
                left, right = (
                    self.converted(left, a, both, node),
                    self.converted(right, b, both, node),
                )
            return f"int({left} {operator} {right})", INT
        if isinstance(a, Pointer) and isinstance(b, Pointer) and operator == "-":
            return f"divided({left} - {right}, {size_of(_pointee(a, node))})", LONG
        if isinstance(b, Pointer) and operator == "+":
            left, a, right, b = right, b, left, a
        if isinstance(a, Pointer) and isinstance(b, Number) and operator in ("+", "-"):
            size = size_of(_pointee(a, node)) if a.to is not None else 1
            return f"({left} {operator} ({right}) * {size})", a
        if not (isinstance(a, Number) and isinstance(b, Number)):
            raise Untranslated(node, f"{operator} on {text_of(node)!r}")
        if operator in ("<<", ">>"):
            kind = promoted(a)
            if not (right.isdecimal() and int(right) < 8 * kind.bytes):
                right = f"places({right}, {8 * kind.bytes})"
            return self._kept(_held(f"({left} {operator} {right})", operator, kind), kind), kind
        kind = common(a, b)
        left, right = self.converted(left, a, kind, node), self.converted(right, b, kind, node)
        if operator == "/":
            return (f"({left} / {right})" if kind.floating else f"divided({left}, {right})"), kind
        if operator == "%":
            return f"rest({left}, {right})", kind
        return self._kept(_held(f"({left} {operator} {right})", operator, kind), kind), kind

    def _conditional(self, node: Node) -> tuple[str, Type | None]:
        test = self.truth(_field(node, "condition"))
        yes, a = self.value(_field(node, "consequence"))
        no, b = self.value(_field(node, "alternative"))
        kind = a
        if isinstance(a, Number) and isinstance(b, Number):
            kind = common(a, b)
            yes, no = self.converted(yes, a, kind, node), self.converted(no, b, kind, node)
        elif isinstance(b, Pointer) and not (isinstance(a, Pointer) and a.to is not None):
            kind = b
        return f"({yes} if {test} else {no})", kind

    def _assignment(self, node: Node, *, used: bool) -> tuple[str, Type | None]:
        if node.type == "update_expression":
            place = self.place(_field(node, "argument"))
            operator = text_of(_field(node, "operator"))[0]
            before = text_of(node).startswith(operator)
            code, _ = self.combined(node, operator, self._read(place), place.kind, "1", INT)
            code = self.converted(code, self._result(place.kind), place.kind, node)
            if used and not before:
                stored = self._store(node, place, code, used=True)
                return f"({self._read(place)}, {stored})[0]", place.kind
            return self._store(node, place, code, used=used), place.kind
        place = self.place(_field(node, "left"))
        operator = text_of(_field(node, "operator"))
        code, kind = self.value(_field(node, "right"))
        if operator != "=":
            code, kind = self.combined(
                node, operator[:-1], self._read(place), place.kind, code, kind
            )
        code = self.converted(code, kind, place.kind, node)
        return self._store(node, place, code, used=used), place.kind

    def _result(self, kind: Type) -> Type:
        return common(kind, INT) if isinstance(kind, Number) else kind

    def _read(self, place: Place) -> str:
        return f"load({place.code})" if place.in_memory else place.code

    def _store(self, node: Node, place: Place, code: str, *, used: bool = False) -> str:
        if isinstance(place.kind, Structure):
            return f"copy({code}, {place.code}, {place.kind.bytes})"
        if isinstance(place.kind, Elements):
            raise Untranslated(node, "assignment of an array")
        if place.in_memory:
            return f"store({place.code}, {code})"
        return f"({place.code} := {code})" if used else f"{place.code} = {code}"

    def _sizeof(self, node: Node) -> tuple[str, Type | None]:
        described = node.child_by_field_name("type")
        if described is not None:
            kind = self._described(described)
        else:
            inner = _field(node, "value")
            while inner.type == "parenthesized_expression":
                inner = inner.named_children[0]
            name = text_of(inner)
            if inner.type == "identifier" and self._place_named(name) is None:
                kind = self.typedefs.get(name) or NAMED.get(name)
            elif inner.type in (
                "identifier",
                "subscript_expression",
                "pointer_expression",
                "field_expression",
            ):
                kind = self.place(inner).kind
            else:
                kind = self.value(inner)[1]
        if kind is None:
            raise Untranslated(node, "the size of nothing")
        return str(size_of(kind)), UNSIGNED_LONG

    def _call(self, node: Node) -> tuple[str, Type | None]:
        name = text_of(_field(node, "function"))
        given = [c for c in _field(node, "arguments").named_children if c.type != "comment"]
        if self.machine.is_command(name):
            if name not in self.commands:
                self.commands.append(name)
            values = "".join(f"{self.value(g)[0]}, " for g in given)
            line = node.start_point[0] + 1
            return f"issue(({self.commands.index(name)}, {line}, {values}))", None
        if name in self.machine.spaces and len(given) == 1:
            base = self.machine.constants[name]
            return f"({base} | (({self.value(given[0])[0]}) & 4294967295))", UNSIGNED
        if name in ("__builtin_expect",):
            return self.value(given[0])
        function = self.functions.get(name)
        if function is None:
            raise Untranslated(node, f"a call of {name}, which this file does not define")
        if len(given) != len(function.parameters):
            raise Untranslated(node, f"a call of {name} with {len(given)} arguments")
        values = ", ".join(
            self.converted(*self.value(g), kind, g)
            for g, (_, kind) in zip(given, function.parameters, strict=True)
        )
        return f"f_{name}({values})", function.result


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _divided(left: int, right: int) -> int:
    return left // right if (left >= 0) == (right > 0) else -(-left // right)


def _rest(left: int, right: int) -> int:
    return left - right * _divided(left, right)


def _places(count: int, bits: int) -> int:
    if not 0 <= count < bits:
        raise ValueError(f"a shift by {count} places")
    return count


def _within(value: int) -> int:
    if value.bit_length() > _MOST_BITS:
        raise OverflowError("a product or a shift that overflows")
    return value


def _held(code: str, operator: str, kind: Number) -> str:
    """Signed numbers that may not overflow are not cut off, and must not grow without end."""
    grows = operator in ("*", "<<") and kind.signed and not kind.floating
    return f"within{code}" if grows else code


_MOST_BITS = 128
RUNTIME: Mapping[str, object] = {
    "within": _within, "signed": _signed, "places": _places, "divided": _divided, "rest": _rest,
    "int": int, "bool": bool, "float": float, "next": next,
}  # fmt: skip
"""What the translated text calls, beside the memory and the list of commands."""


def _literal(node: Node) -> tuple[str, Type | None]:
    text = text_of(node).lower().replace("'", "") if node.type == "number_literal" else ""
    if node.type == "char_literal":
        inner = text_of(node)[1:-1]
        if len(inner) != 1:
            raise Untranslated(node, f"the character {text_of(node)}")
        return str(ord(inner)), INT
    hexadecimal = text.startswith("0x")
    if not hexadecimal and any(c in text for c in ".ef"):
        single = text.endswith("f")
        return repr(float(text.rstrip("fl"))), FLOAT if single else DOUBLE
    digits = text.rstrip("ul")
    suffix = text[len(digits) :]
    try:
        octal = len(digits) > 1 and digits[0] == "0" and digits.isdecimal()
        value = int(digits, 8 if octal else 0)
    except ValueError as error:
        raise Untranslated(node, f"the number {text!r}") from error
    unsigned, long = "u" in suffix, "l" in suffix
    kinds = [Number(4), Number(4, signed=False), Number(8), Number(8, signed=False)]
    for kind in kinds:
        if (unsigned and kind.signed) or (long and kind.bytes < 8):
            continue
        if not kind.signed and not (unsigned or hexadecimal or octal):
            continue
        if value < 1 << (8 * kind.bytes - kind.signed):
            return str(value), kind
    raise Untranslated(node, f"the number {text!r}")


def _pointee(kind: Type | None, node: Node) -> Type:
    if isinstance(kind, Pointer) and kind.to is not None:
        return kind.to
    if isinstance(kind, Pointer):
        return Number(1)
    raise Untranslated(node, f"{text_of(node)!r}, which is not a pointer")


def _calls(root: Node) -> Iterator[Node]:
    return (n for n in descendants(root) if n.type == "call_expression")


def _addressed(body: Node) -> Iterator[str]:
    """Variables whose address is taken."""
    for node in descendants(body):
        if node.type == "pointer_expression" and text_of(node).startswith("&"):
            inner = _field(node, "argument")
            while inner.type in ("parenthesized_expression", "field_expression"):
                inner = inner.named_children[0]
            if inner.type == "identifier":
                yield text_of(inner)


def _field(node: Node, name: str) -> Node:
    child = node.child_by_field_name(name)
    if child is None:
        raise Untranslated(node, f"{node.type.replace('_', ' ')} without {name}")
    return child

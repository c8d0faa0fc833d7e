"""Translates expressions."""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of
from tilewright.proposers.rewriter.raising.translation.parts import (
    Place,
    Untranslated,
    field_of,
    literal,
    pointee,
)
from tilewright.proposers.rewriter.raising.translation.places import Places
from tilewright.proposers.rewriter.raising.translation.runtime import held
from tilewright.proposers.rewriter.raising.types import (
    INT,
    LONG,
    NAMED,
    UNSIGNED,
    UNSIGNED_LONG,
    Callee,
    Elements,
    Number,
    Pointer,
    Structure,
    Type,
    common,
    promoted,
    size_of,
)


class Expressions(Places):
    """Translates C expressions to Python expressions with the same values."""

    def truth(self, node: Node) -> str:
        """Python code that is true where the C expression is not zero."""
        return self.value(node)[0]

    def value(self, node: Node) -> tuple[str, Type | None]:
        """Python code of an expression, and its type."""
        match node.type:
            case "number_literal" | "char_literal":
                return literal(node)
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
            of = field_of(node, "argument")
            if text_of(of) in self.functions and self._place_named(text_of(of)) is None:
                return self._named(of)
            place = self.place(of)
            if not place.in_memory:
                raise Untranslated(
                    node, f"{text_of(node)!r} takes the address of a value outside memory"
                )
            return place.code, Pointer(place.kind)
        place = self.place(node)
        if not place.in_memory:
            return place.code, place.kind
        if isinstance(place.kind, Elements):
            return place.code, Pointer(place.kind.of)
        if isinstance(place.kind, Callee):
            return place.code, Pointer(place.kind)
        if isinstance(place.kind, Structure):
            return place.code, place.kind
        return self._read(place), place.kind

    def place(self, node: Node) -> Place:
        """The place to which an expression that can be assigned refers."""
        match node.type:
            case "parenthesized_expression":
                return self.place(node.named_children[0])
            case "identifier":
                found = self._place_named(text_of(node))
                if found is None:
                    raise Untranslated(node, f"{text_of(node)} is not declared")
                return found
            case "subscript_expression":
                base, kind = self.value(field_of(node, "argument"))
                index, _ = self.value(field_of(node, "index"))
                to = pointee(kind, node)
                return Place(f"({base} + ({index}) * {size_of(to)})", to, in_memory=True)
            case "pointer_expression":
                base, kind = self.value(field_of(node, "argument"))
                return Place(f"({base})", pointee(kind, node), in_memory=True)
            case "field_expression":
                argument, name = field_of(node, "argument"), text_of(field_of(node, "field"))
                if any(c.type == "->" for c in node.children):
                    base, kind = self.value(argument)
                    return self._field(Place(base, pointee(kind, node), True), name, node)
                if argument.type == "call_expression":
                    base, kind = self.value(argument)
                    assert kind is not None
                    return self._field(Place(base, kind, True), name, node)
                return self._field(self.place(argument), name, node)
            case "compound_literal_expression":
                code, literal = self._cast(node)
                assert literal is not None
                return Place(code, literal, in_memory=True)
        raise Untranslated(node, f"nothing can be assigned to {text_of(node)!r}")

    def _cast(self, node: Node) -> tuple[str, Type | None]:
        to = self._described(field_of(node, "type"))
        value = field_of(node, "value")
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

    def _unary(self, node: Node) -> tuple[str, Type | None]:
        operator = text_of(field_of(node, "operator"))
        code, kind = self.value(field_of(node, "argument"))
        if operator == "!":
            return f"int(not {code})", INT
        if not isinstance(kind, Number):
            raise Untranslated(node, f"the operand of {operator} is not a number")
        kind = promoted(kind)
        return self._kept(f"({operator}{code})", kind), kind

    def _kept(self, code: str, kind: Number) -> str:
        """A result in the range of its type. Unsigned ones wrap around; signed ones must not
        overflow."""
        return (
            f"({code} & {(1 << 8 * kind.bytes) - 1})"
            if not (kind.signed or kind.floating)
            else code
        )

    def _binary(self, node: Node) -> tuple[str, Type | None]:
        operator = text_of(field_of(node, "operator"))
        left, a = self.value(field_of(node, "left"))
        right, b = self.value(field_of(node, "right"))
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
            return f"{'truth' if self.data else 'int'}({left} {operator} {right})", INT
        if isinstance(a, Pointer) and isinstance(b, Pointer) and operator == "-":
            return f"divided({left} - {right}, {size_of(pointee(a, node))})", LONG
        if isinstance(b, Pointer) and operator == "+":
            left, a, right, b = right, b, left, a
        if isinstance(a, Pointer) and isinstance(b, Number) and operator in ("+", "-"):
            size = size_of(pointee(a, node)) if a.to is not None else 1
            return f"({left} {operator} ({right}) * {size})", a
        if not (isinstance(a, Number) and isinstance(b, Number)):
            raise Untranslated(
                node, f"an operand of {operator} in {text_of(node)!r} is not a number"
            )
        if operator in ("<<", ">>"):
            kind = promoted(a)
            if not (right.isdecimal() and int(right) < 8 * kind.bytes):
                right = f"places({right}, {8 * kind.bytes})"
            return self._kept(held(f"({left} {operator} {right})", operator, kind), kind), kind
        kind = common(a, b)
        left, right = self.converted(left, a, kind, node), self.converted(right, b, kind, node)
        if operator == "/":
            return (f"({left} / {right})" if kind.floating else f"divided({left}, {right})"), kind
        if operator == "%":
            return f"rest({left}, {right})", kind
        code = self._kept(held(f"({left} {operator} {right})", operator, kind), kind)
        return (f"short({code})" if self.data and kind.bytes > INT.bytes else code), kind

    def _conditional(self, node: Node) -> tuple[str, Type | None]:
        test = self.truth(field_of(node, "condition"))
        yes, a = self.value(field_of(node, "consequence"))
        no, b = self.value(field_of(node, "alternative"))
        kind = a
        if isinstance(a, Number) and isinstance(b, Number):
            kind = common(a, b)
            yes, no = self.converted(yes, a, kind, node), self.converted(no, b, kind, node)
        elif isinstance(b, Pointer) and not (isinstance(a, Pointer) and a.to is not None):
            kind = b
        return self._chosen(test, yes, no), kind

    def _chosen(self, test: str, yes: str, no: str) -> str:
        """`test ? yes : no`."""
        if self.data and ":=" not in yes + no:
            return f"chosen({test}, lambda: {yes}, lambda: {no})"
        return f"({yes} if {test} else {no})"

    def _assignment(self, node: Node, *, used: bool) -> tuple[str, Type | None]:
        if node.type == "update_expression":
            place = self.place(field_of(node, "argument"))
            operator = text_of(field_of(node, "operator"))[0]
            before = text_of(node).startswith(operator)
            code, _ = self.combined(node, operator, self._read(place), place.kind, "1", INT)
            code = self.converted(code, self._result(place.kind), place.kind, node)
            if used and not before:
                stored = self._store(node, place, code, used=True)
                return f"({self._read(place)}, {stored})[0]", place.kind
            return self._store(node, place, code, used=used), place.kind
        place = self.place(field_of(node, "left"))
        operator = text_of(field_of(node, "operator"))
        code, kind = self.value(field_of(node, "right"))
        if operator != "=":
            code, kind = self.combined(
                node, operator[:-1], self._read(place), place.kind, code, kind
            )
        code = self.converted(code, kind, place.kind, node)
        return self._store(node, place, code, used=used), place.kind

    def _sizeof(self, node: Node) -> tuple[str, Type | None]:
        described = node.child_by_field_name("type")
        if described is not None:
            kind = self._described(described)
        else:
            inner = field_of(node, "value")
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
            raise Untranslated(node, "sizeof is applied to something without a type")
        return str(size_of(kind)), UNSIGNED_LONG

    def _call(self, node: Node) -> tuple[str, Type | None]:
        called = field_of(node, "function")
        name = text_of(called)
        given = [c for c in field_of(node, "arguments").named_children if c.type != "comment"]
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
        function = self.functions.get(name) if self._place_named(name) is None else None
        if function is None and name == "memset" and len(given) == 3:
            to, value, size = (self.value(g) for g in given)
            address = self.converted(*to, Pointer(None), given[0])
            return f"fill({address}, {value[0]}, {size[0]})", Pointer(None)
        if function is not None:
            values = self._arguments(node, given, [kind for _, kind in function.parameters])
            return f"f_{name}({values})", function.result
        if called.type == "identifier" and self._place_named(name) is None:
            raise Untranslated(node, f"{name} is called, but this file does not define it")
        code, kind = self.value(called)
        callee = kind.to if isinstance(kind, Pointer) else None
        if not isinstance(callee, Callee):
            raise Untranslated(node, f"{text_of(called)!r} is not a function")
        values = self._arguments(node, given, callee.parameters)
        return f"functions[{code}]({values})", callee.result

    def _arguments(self, call: Node, given: Sequence[Node], kinds: Sequence[Type]) -> str:
        """The arguments of a call, converted to the types of the parameters."""
        if len(given) != len(kinds):
            name = text_of(field_of(call, "function"))
            raise Untranslated(
                call, f"{name} is called with a wrong number of arguments: {len(given)}"
            )
        pairs = zip(given, kinds, strict=True)
        return ", ".join(self.converted(*self.value(g), kind, g) for g, kind in pairs)

"""Reads declarations of C: which variables are followed, and which become variables of the
kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import pointer_levels, text_of
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    Element,
    Expr,
    For,
    Number,
    Select,
    Statement,
    Type,
    Var,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import converted, printed
from tilewright.proposers.loops.parsing.records import fields_in_order, stride_of, type_name
from tilewright.proposers.loops.parsing.scope import (
    Binding,
    Bundle,
    Place,
    Record,
    Scope,
    Unknown,
    Value,
    Variable,
    number,
)
from tilewright.proposers.loops.parsing.syntax import (
    UnsupportedError,
    field_of,
    is_constant,
    named_type,
)
from tilewright.proposers.loops.parsing.tables import Tables, initial, is_table

_ZEROS = ("0", "0.0f", "0.0", "0.f", "0.", "false")
_MOST_GIVEN = 64
"""Maximum number of values other than zero that a declaration of an array contains."""


_ARRAYS_WITHIN = "a structure with arrays is supported only through a pointer"


class Declarations(Tables):
    """Reads declarations.

    Statements that were read wait in `_done` until the enclosing statement is complete. `kept` are
    the names of integers that are not followed, `pointing` those of pointers. `origins` are the
    values that are assigned to kept variables.
    """

    def __init__(self) -> None:
        super().__init__()
        self._done: list[Statement] = []
        self._guards: list[Expr] = []
        self.kept: set[str] = set()
        self.pointing: set[str] = set()
        self.origins: dict[str, list[Expr]] = {}

    def complete(self) -> None:
        """The side effects of the expressions in a statement are executed at its end."""
        while self._after:
            self.advance(*self._after.pop(0))

    def declaration(self, node: Node) -> None:
        """Variables, pointers and arrays. Raises `UnsupportedError`."""
        stored = (text_of(c) for c in node.children if c.type == "storage_class_specifier")
        if not is_constant(node) and any(word not in ("register", "auto") for word in stored):
            raise UnsupportedError(node, "only static arrays without initial values are supported")
        for declarator in node.children_by_field_name("declarator"):
            if is_constant(node) and is_table(declarator):
                self.table(node, declarator, named_type(field_of(node, "type")))
                continue
            value = None
            if declarator.type == "init_declarator":
                value = field_of(declarator, "value")
                declarator = field_of(declarator, "declarator")
            name, levels = pointer_levels(declarator)
            if not name:
                raise UnsupportedError(
                    node, f"{text_of(declarator)!r} is not a plain variable or array"
                )
            named = type_name(field_of(node, "type"))
            if levels in ([], [None]) and self._bundled(node, name, named, levels, value):
                continue
            record = self.records.get(named)
            if record is not None and not levels:
                self._structure(node, name, record, value)
                continue
            if record is not None:
                kind: Type = record.type
            elif text_of(field_of(node, "type")) == "vf":
                kind = "vector"
            else:
                kind = named_type(field_of(node, "type"))
            if levels and levels[0] is None:
                self._pointer(node, name, levels[1:], kind, value, record)
            elif levels:
                self._array(
                    node,
                    name,
                    tuple(self.constant(s) for s in levels if s is not None),
                    kind,
                    value,
                    record,
                )
            else:
                self._scalar(node, name, kind, value)
            self.complete()

    def _pointer(
        self,
        node: Node,
        name: str,
        sizes: list[Node | None],
        kind: Type,
        value: Node | None,
        record: Record | None,
    ) -> None:
        """A pointer to elements, or to rows of the given sizes."""
        if None in sizes:
            raise UnsupportedError(node, f"{name} is a pointer to pointers")
        rows = tuple(self.constant(s) for s in sizes if s is not None)
        if value is None:
            nothing = Place("", kind, 1, record=record, rows=rows)
            self.scope.declare(name, Unknown(f"{name} has no address yet", kind, nothing))
            return
        self.pointing.add(name)
        found = self.place(value)
        if found.type != kind:
            raise UnsupportedError(
                node, f"{name} points to {found.type} but is used as a pointer to {kind}"
            )
        if found.record != record or found.whole:
            raise UnsupportedError(node, f"{name} is not a pointer like {text_of(value)!r}")
        inner = 2 if record is not None and stride_of(found) == 1 else 1
        known = found.rows or self._sizes.get(found.array, ())
        if found.depth != inner + len(rows) or (rows and known[-len(rows) :] != rows):
            raise UnsupportedError(node, f"{name} is not a pointer like {text_of(value)!r}")
        self.scope.declare(name, found)

    def _array(
        self,
        node: Node,
        name: str,
        sizes: tuple[int, ...],
        kind: Type,
        value: Node | None,
        record: Record | None = None,
    ) -> None:
        if self._guards:
            raise UnsupportedError(node, f"the array {name} is declared under a condition")
        printed_name = self.printed_name(name)
        if record is not None:
            sizes = (*sizes, record.size)
        self.scope.declare(name, Place(printed_name, kind, len(sizes), record=record))
        self._sizes[printed_name] = sizes
        self._done.append(Declare(kind, printed_name, sizes))
        if value is None:
            return
        items = None if value.type != "initializer_list" else initial(node, value, sizes)
        if items is None:
            raise UnsupportedError(node, f"the initial values of {name} are not supported")
        given = {place: item for place, item in items.items() if text_of(item) not in _ZEROS}
        if len(given) > _MOST_GIVEN:
            what = f"{name} has more than {_MOST_GIVEN} initial values other than zero"
            raise UnsupportedError(node, what)
        if len(given) < math.prod(sizes):
            self._done += self.filled(printed_name, sizes, kind)
        for place, item in given.items():
            target = Element(printed_name, tuple(Number(str(at)) for at in place))
            found = printed(converted(item, self.value(item), kind))
            self._done.append(Assign(target, found))

    def filled(self, array: str, sizes: tuple[int, ...], kind: Type) -> list[Statement]:
        """Loops that set each element to zero."""
        names = [self.printed_name("at") for _ in sizes]
        zero = Number("0" if is_whole(kind) else "0.0f")
        body: Statement = Assign(Element(array, tuple(map(Var, names))), zero)
        for name, size in zip(reversed(names), reversed(sizes), strict=True):
            body = For(name, 0, size, 1, (body,))
        return [body]

    def _structure(self, node: Node, name: str, record: Record, value: Node | None) -> None:
        """A variable for each field of a structure variable."""
        if record.shapes:
            raise UnsupportedError(node, _ARRAYS_WITHIN)
        given: Sequence[Value | None] = [None] * len(record.fields)
        if value is not None:
            given = self.fields(value, record)
        self.scope.declare(name, record)
        for field, one in zip(record.fields, given, strict=True):
            self.declare(f"{name}.{field}", record.type, one)

    def _bundled(
        self, node: Node, name: str, kind: str, levels: list[Node | None], value: Node | None
    ) -> bool:
        """Declare a structure of several types, or a pointer to one."""
        bundle = self.bundles.get(kind)
        if bundle is None or (value is None and (levels or bundle.record is not None)):
            return False
        if value is None:
            self._fields(node, name, bundle, [None] * len(bundle.fields))
            return True
        if self.bundle_at(value, bundle) is not None:
            self.bind_bundle(self.scope, name, value, bundle, copied=not levels)
            return True
        if value.type == "compound_literal_expression":
            written = type_name(field_of(field_of(value, "type"), "type"))
            value = field_of(value, "value") if self.bundles.get(written) == bundle else value
        if levels or value.type != "initializer_list":
            return False
        items = fields_in_order(value, bundle.names)
        if items is None:
            raise UnsupportedError(node, f"{text_of(value)!r} is not a structure that is known")
        self._fields(node, name, bundle, items, zeros=True)
        return True

    def _fields(
        self,
        node: Node,
        name: str,
        bundle: Bundle,
        items: Sequence[Node | None],
        *,
        zeros: bool = False,
    ) -> None:
        """Declare the fields of a structure. With `zeros`, numbers without values are zero."""
        self.scope.declare(name, bundle)
        for (field, kind, pointer), item in zip(bundle.fields, items, strict=True):
            if pointer and item is None and zeros:
                raise UnsupportedError(node, f"{field} of {name} points nowhere")
            if pointer:
                self._pointer(node, f"{name}.{field}", [], kind, item, None)
            elif field in bundle.changing:
                value = self.value(item) if item is not None else zero(kind) if zeros else None
                self.declare(f"{name}.{field}", kind, value)
            elif item is None and zeros:
                self.scope.declare(f"{name}.{field}", zero(kind))
            else:
                self._scalar(node, f"{name}.{field}", kind, item)

    def fields(self, node: Node, record: Record) -> list[Value]:
        """The values of the fields of a structure. Raises `UnsupportedError`."""
        if record.shapes:
            raise UnsupportedError(node, _ARRAYS_WITHIN)
        if node.type == "parenthesized_expression":
            return self.fields(node.named_children[0], record)
        if node.type == "compound_literal_expression":
            if self.records.get(type_name(field_of(field_of(node, "type"), "type"))) == record:
                return self.fields(field_of(node, "value"), record)
        elif node.type == "initializer_list":
            items = fields_in_order(node, record.fields)
            if items is not None:
                return [
                    converted(c, self.value(c), record.type) if c is not None else zero(record.type)
                    for c in items
                ]
        elif node.type == "identifier" and self._named_record(node) == record:
            found = [self.scope.find(f"{text_of(node)}.{f}") for f in record.fields]
            return [
                v if isinstance(v, Value) else Value(Var(v.name), v.type)
                for v in found
                if isinstance(v, (Value, Variable))
            ]
        elif node.type in ("subscript_expression", "pointer_expression"):
            place = self.place(node)
            if place.whole and place.record == record:
                inner = replace(place, record=None, whole=False)
                places = [self._inside(node, inner, number(n)) for n in range(len(record.fields))]
                return [self._element(node, place) for place in places]
        raise UnsupportedError(node, f"{text_of(node)!r} is not a known structure")

    def _named_record(self, node: Node) -> Binding | None:
        """The structure that an identifier names, if all its fields have one type."""
        found = self.scope.find(text_of(node))
        return found.record if isinstance(found, Bundle) else found

    def _scalar(self, node: Node, name: str, kind: Type, value: Node | None) -> None:
        followed = is_whole(kind) and name not in self.kept
        if value is None:
            if followed:
                self.scope.declare(name, Unknown(f"{name} has no value yet", kind))
                return
            self.declare(name, kind, None)
            return
        found = self.value(value)
        if followed and found.interval is not None:
            self.scope.declare(name, self.of_type(value, found, kind))
            return
        self.declare(name, kind, found)

    def of_type(self, node: Node, value: Value, kind: Type) -> Value:
        """The value of a followed variable of a type that is set to an integer.

        Raises `UnsupportedError` if the type does not hold all values of the integer. During the
        first reading of an iteration, ranges are not known; the question is repeated later.
        """
        if self._rehearsing:
            return replace(value, type=kind, retyped=kind != "int")
        return converted(node, value, kind)

    def declare(self, name: str, kind: Type, value: Value | None) -> None:
        """Declare a variable that is kept."""
        expr = None if value is None else printed(value)
        if expr is not None and self._guards and any(map(self._may_fail, walk(expr))):
            expr = Select(all_of(self._guards), expr, Number("0"))
        new = self.printed_name(name.lstrip(".").replace(".", "_"))
        if expr is not None:
            self.origins.setdefault(new, []).append(expr)
        self.scope.declare(name, Variable(new, kind))
        self._done.append(Declare(kind, new, (), expr))

    def enumeration(self, node: Node) -> None:
        """Declare the constants of an `enum` in the current scope."""
        following = 0
        for item in field_of(node, "body").named_children:
            if item.type == "enumerator":
                value = item.child_by_field_name("value")
                following = following if value is None else self.constant(value)
                self.scope.declare(text_of(field_of(item, "name")), number(following))
                following += 1

    def _may_fail(self, expr: Expr) -> bool:
        """Whether an expression may be undefined where a condition around it is false: an element
        may not exist, a divisor may be 0, and a shift may be too far."""
        if isinstance(expr, Binary) and expr.operator in ("/", "%", "<<", ">>"):
            return not isinstance(expr.right, Number) or expr.right == Number("0")
        return isinstance(expr, Element) and not self.exists(expr)

    def exists(self, element: Element) -> bool:
        """Whether an element is certainly inside its array."""
        sizes = self._sizes.get(element.array, ())
        return len(sizes) == len(element.subscripts) and all(
            (interval := self.interval_of(s)) is not None and interval[0] >= 0 and interval[1] < n
            for s, n in zip(element.subscripts, sizes, strict=True)
        )

    @contextmanager
    def _inner(self) -> Iterator[None]:
        """An inner scope."""
        outer, self.scope = self.scope, Scope(self.scope)
        yield
        self.scope = outer

    @contextmanager
    def _collected(self) -> Iterator[list[Statement]]:
        """The statements that are read meanwhile, without those that were read before."""
        outer, self._done = self._done, []
        yield self._done
        self._done = outer

    @contextmanager
    def _under(self, condition: Expr) -> Iterator[None]:
        self._guards.append(condition)
        with self._maybe(condition):
            yield
        self._guards.pop()


def zero(kind: Type) -> Value:
    """The value that C gives to uninitialised parts."""
    if is_whole(kind):
        return replace(number(0), type=kind, retyped=kind != "int")
    return Value(Number("0.0f"), kind)


def all_of(conditions: Sequence[Expr]) -> Expr:
    """Whether all conditions hold."""
    found = conditions[0]
    for other in conditions[1:]:
        found = Binary("&&", found, other)
    return found

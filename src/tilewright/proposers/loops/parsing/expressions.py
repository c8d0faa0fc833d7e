"""Converts expressions of C to those of the intermediate form.

Integers that are followed (constants, loop variables, and values computed from them) are inserted
where they are used. Their ranges are known, so that a subscript that the source computes in 64 bits
can be printed as an int.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import text_of, without_pointers
from tilewright.proposers.loops.analysis.changes import fresh
from tilewright.proposers.loops.c_types import common, is_whole, promoted
from tilewright.proposers.loops.ir import (
    INFINITY,
    Address,
    Binary,
    Cast,
    Element,
    Expr,
    Load,
    Negative,
    Number,
    Select,
    Type,
    Var,
)
from tilewright.proposers.loops.parsing.arithmetic import (
    OPERATORS,
    POINTER_OPERATORS,
    combined,
    computed,
    converted,
    fits,
    in_rows,
    literal_value,
    needless_choice,
    printed,
    smaller_or_larger,
    within,
)
from tilewright.proposers.loops.parsing.characters import character
from tilewright.proposers.loops.parsing.narrowing import Fact, facts_of, narrowed
from tilewright.proposers.loops.parsing.records import (
    member_name,
    record_at,
    seen_as,
    stride_of,
    type_name,
)
from tilewright.proposers.loops.parsing.scope import (
    Binding,
    Bundle,
    Interval,
    Place,
    Pointed,
    Record,
    Scope,
    Unknown,
    Value,
    Variable,
    number,
    plus,
    times,
)
from tilewright.proposers.loops.parsing.syntax import (
    FlatError,
    NotFollowedError,
    UnsupportedError,
    bare,
    field_of,
    named_type,
    operator_of,
)

_AROUND_POINTERS = (
    "parenthesized_expression", "cast_expression", "binary_expression", "subscript_expression",
)  # fmt: skip
_SIDES = ("consequence", "alternative")


class Expressions:
    """Reads expressions, in which `scope` gives the meaning of names.

    Side effects of an expression wait in `_after` until its statement is complete. `_facts` are
    what the conditions around say about followed integers, `_meanings` the conditions that are
    stored in variables.
    """

    def __init__(self) -> None:
        self.scope = Scope(None)
        self.records: dict[str, Record] = {}
        self.bundles: dict[str, Bundle] = {}
        self._sizes: dict[str, tuple[int, ...]] = {}
        self._ranges: dict[str, Interval] = {}
        self._after: list[tuple[Node, int]] = []
        self._conditional = 0
        self._facts: list[Fact] = []
        self._meanings: dict[str, Expr] = {}
        self._rehearsing = False
        self._printed: list[set[str]] = [set()]

    def expression(self, node: Node) -> Expr:
        """A value in the form in which it is printed. Raises `UnsupportedError`."""
        return printed(self.value(node))

    def value(self, node: Node) -> Value:
        """A value with its type. Raises `UnsupportedError`."""
        kind = node.type
        if kind == "parenthesized_expression":
            return self.value(node.named_children[0])
        if kind == "identifier":
            return self._named(node)
        if kind == "number_literal":
            return literal_value(node)
        if kind == "char_literal":
            return number(character(node))
        if kind in ("true", "false", "null"):
            return number(int(kind == "true"))
        if kind == "field_expression" and isinstance(found := self.member(node), (Value, Variable)):
            return found if isinstance(found, Value) else Value(Var(found.name), found.type)
        if kind == "field_expression" and (variable := self.pointed(node)) is not None:
            return Value(Var(variable.name), variable.type)
        if kind in ("subscript_expression", "field_expression"):
            return self._element(node, self.place(node))
        if kind == "unary_expression":
            return self._unary(node)
        if kind == "binary_expression":
            return self._binary(node)
        if kind == "conditional_expression":
            return self._chosen(node)
        if kind == "cast_expression":
            return self._cast(node)
        if kind == "pointer_expression":
            return self._pointed(node)
        if kind == "update_expression":
            return self._updated(node)
        if kind == "call_expression":
            return self.call(node)
        if kind == "assignment_expression":
            return self.assigned(node)
        raise UnsupportedError(node, f"the expression {text_of(node)!r} is not supported")

    def constant(self, node: Node) -> int:
        """An integer that is the same in every run. Raises `UnsupportedError`."""
        interval = self.value(node).interval
        if interval is None or interval[0] != interval[1]:
            raise UnsupportedError(node, f"{text_of(node)!r} is not a constant integer")
        return interval[0]

    def place(self, node: Node) -> Place:
        """The place to which an expression points. Raises `UnsupportedError`."""
        if node.type == "parenthesized_expression":
            return self.place(node.named_children[0])
        if node.type == "identifier":
            found = self.scope.find(text_of(node))
            if isinstance(found, Place):
                return found
            if isinstance(found, Unknown):
                raise NotFollowedError(node, text_of(node), found.why)
            raise UnsupportedError(node, f"{text_of(node)!r} is not an array")
        if node.type == "subscript_expression":
            index = self._index(field_of(node, "index"))
            return self._inside(node, self.place(field_of(node, "argument")), index)
        if node.type == "field_expression":
            return self._field(node)
        if node.type == "pointer_expression" and operator_of(node) == "&":
            return self._address(node)
        if node.type == "pointer_expression":
            return self._inside(node, self.place(field_of(node, "argument")), number(0))
        if node.type == "binary_expression" and operator_of(node) in "+-":
            return self._moved(node)
        if node.type == "update_expression":
            found = self.place(field_of(node, "argument"))
            return self._moved_on(node, found)
        if node.type == "assignment_expression":
            self.assignment(node)
            return self.place(field_of(node, "left"))
        if node.type == "cast_expression":
            declared = field_of(field_of(node, "type"), "type")
            record = self.records.get(type_name(declared))
            kind = record.type if record is not None else named_type(declared)
            place = self.place(field_of(node, "value"))
            seen = seen_as(place, kind, record, self._sizes.get(place.array, ()))
            if seen is not None:
                return self._in_rows(node, seen)
        raise UnsupportedError(node, f"the pointer {text_of(node)!r} is not supported")

    def _in_rows(self, node: Node, place: Place) -> Place:
        """A pointer after a cast to one to elements, or to rows, of its own type."""
        inner = field_of(node, "type").child_by_field_name("declarator")
        sizes: list[int] = []
        while inner is not None and inner.type == "abstract_array_declarator":
            sizes.insert(0, self.constant(field_of(inner, "size")))
            inner = inner.child_by_field_name("declarator")
        if place.rank - len(place.subscripts) == 1 and not place.record:
            return replace(place, rows=tuple(sizes))
        if sizes:
            raise UnsupportedError(node, f"the pointer cast {text_of(node)!r} is not supported")
        to_elements = inner is not None and inner.type == "abstract_pointer_declarator"
        if to_elements and place.depth > (1 if place.record is None else 2):
            what = f"{text_of(node)!r} is a pointer to all elements of several rows"
            raise FlatError(node, place.array, what)
        return place

    def _address(self, node: Node) -> Place:
        found = self.place(field_of(node, "argument"))
        if found.whole and found.offset is not None:
            return replace(found, whole=False)
        *outer, last = found.subscripts
        interval = self.interval_of(last)
        offset = Value(last, "int", interval)
        return replace(found, subscripts=tuple(outer), offset=offset, whole=False)

    def _field(self, node: Node) -> Place:
        """A field of a structure: structure.field, or pointer->field."""
        member = self.member(node)
        if isinstance(member, Place):
            return member
        found = self.place(field_of(node, "argument"))
        if operator_of(node) == "->":
            found = self._inside(node, found, number(0))
        name = text_of(field_of(node, "field"))
        if not found.whole or found.record is None or name not in found.record.fields:
            raise UnsupportedError(node, f"{text_of(node)!r} is not a field of a structure")
        place = replace(found, record=None, whole=False)
        begin, shape = found.record.field(name)
        if shape:
            return replace(place, offset=plus(place.offset, number(begin)), rows=shape[1:])
        return self._inside(node, place, number(begin))

    def bundle_at(self, node: Node, bundle: Bundle) -> str | None:
        """The name of the structure that an expression names or whose address it takes."""
        while node.type == "parenthesized_expression" or (
            node.type == "pointer_expression" and not self._points(field_of(node, "argument"))
        ):
            node = node.child_by_field_name("argument") or node.named_children[0]
        found = self.scope.find(text_of(node)) if node.type == "identifier" else None
        return text_of(node) if found == bundle else None

    def bind_bundle(
        self, scope: Scope, name: str, node: Node, bundle: Bundle, *, copied: bool
    ) -> None:
        """Declare a pointer to a structure. If it is `copied`, declare a copy of it instead."""
        at = self.bundle_at(node, bundle)
        members = [(field, self.scope.find(f"{at}.{field}")) for field in bundle.names]
        scope.declare(name, bundle)
        for field, member in members:
            assert member is not None
            if copied and isinstance(member, Variable):
                value = Value(Var(member.name), member.type)
                self.declare_in(scope, f"{name}.{field}", member.type, value)
            else:
                scope.declare(f"{name}.{field}", member)

    def declare_in(self, scope: Scope, name: str, kind: Type, value: Value) -> None:
        """Declare a variable that is kept in another scope."""
        raise NotImplementedError

    def member(self, node: Node) -> Binding | None:
        """The meaning of a field of a structure in a variable."""
        inner = without_pointers(field_of(node, "argument"))
        found = self.scope.find(text_of(inner)) if inner.type == "identifier" else None
        if not isinstance(found, Bundle):
            return None
        return self.scope.find(f"{text_of(inner)}.{text_of(field_of(node, 'field'))}")

    def _moved(self, node: Node) -> Place:
        left, right = field_of(node, "left"), field_of(node, "right")
        minus = operator_of(node) == "-"
        if minus or self._points(left):
            found, amount = self.place(left), self._index(right)
        else:
            found, amount = self.place(right), self._index(left)
        if minus:
            amount = self._negated(node, amount)
        if len(found.subscripts) == found.rank:
            raise UnsupportedError(node, f"{text_of(node)!r} is not a pointer")
        stride = stride_of(found)
        if stride != 1 and amount.interval is None:
            raise UnsupportedError(node, f"it is not known where {text_of(node)!r} points")
        amount = times(amount, stride) if stride != 1 else amount
        return replace(found, offset=plus(found.offset, amount))

    def _negated(self, node: Node, amount: Value) -> Value:
        if amount.interval is None:
            raise UnsupportedError(node, f"it is not known how far {text_of(node)!r} moves")
        least, most = amount.interval
        if least == most:
            return number(-least)
        return Value(Negative(amount.expr), "int", (-most, -least))

    def _points(self, node: Node) -> bool:
        """Whether an operand is a pointer."""
        levels = 0
        while node.type in _AROUND_POINTERS or (
            node.type == "pointer_expression" and operator_of(node) == "*"
        ):
            levels += node.type in ("subscript_expression", "pointer_expression")
            parts = ("left", "value", "argument")
            inner = (node.child_by_field_name(part) for part in parts)
            node = next((part for part in inner if part is not None), node.named_children[0])
        if node.type == "identifier":
            found = self.scope.find(text_of(node))
            return found.depth > levels if isinstance(found, Place) else isinstance(found, Unknown)
        if node.type == "field_expression":
            return isinstance(self.member(node), Place) or self._array_depth(node) > levels
        return node.type == "pointer_expression" and not levels  # &..., but not *&...

    def _array_depth(self, node: Node) -> int:
        """Subscripts of an element of a field that is an array; 0 if the field is a number."""
        name = text_of(field_of(node, "field"))
        if not any(
            r.shapes and name in r.fields and r.field(name)[1] for r in self.records.values()
        ):
            return 0
        return self.place(node).depth

    def _index(self, node: Node) -> Value:
        found = self.value(node)
        if not is_whole(found.type):
            raise UnsupportedError(node, f"{text_of(node)!r} is not an integer")
        return found

    def _inside(self, node: Node, place: Place, index: Value) -> Place:
        """The meaning of the subscript `index` of a pointer."""
        if len(place.subscripts) == place.rank or place.whole:
            raise UnsupportedError(node, f"{text_of(node)!r} has too many subscripts")
        if place.rows:
            if index.interval is None:
                index = Value(printed(index), "int")
            offset = plus(place.offset, times(index, stride_of(place)))
            return replace(place, offset=offset, rows=place.rows[1:])
        if stride_of(place) != 1:
            return record_at(node, place, index)
        if place.offset is not None:
            if index.interval is None:
                index = Value(printed(index), "int")
            index = plus(place.offset, index)
            sizes = self._sizes.get(place.array, ())
            if (
                len(sizes) > 1
                and not self._rehearsing
                and not within(index.interval, sizes[len(place.subscripts)])
            ):
                rows = in_rows((*place.subscripts, index.expr), sizes, self.interval_of)
                if rows is None or place.record is not None:
                    what = f"{text_of(node)!r} may extend beyond the end of a row"
                    raise FlatError(node, place.array, what)
                return replace(place, subscripts=rows, offset=None, whole=False)
        subscripts = (*place.subscripts, index.expr)
        whole = place.record is not None and place.rank - len(subscripts) == 1
        return replace(place, subscripts=subscripts, offset=None, whole=whole)

    def _element(self, node: Node, place: Place) -> Value:
        if len(place.subscripts) != place.rank:
            raise UnsupportedError(node, f"{text_of(node)!r} is not an element of an array")
        return Value(Element(place.array, place.subscripts), place.type)

    def _named(self, node: Node) -> Value:
        name = text_of(node)
        found = self.scope.find(name)
        if isinstance(found, Value):
            return narrowed(found, self._facts)
        if isinstance(found, Variable):
            return Value(Var(found.name), found.type)
        if isinstance(found, Unknown):
            raise NotFollowedError(node, name, found.why)
        if isinstance(found, Place) and _asks_for_null(node):
            return number(1)
        if found is None and name == "NULL":
            return number(0)
        if found is None and name in ("INFINITY", "HUGE_VALF"):
            return Value(INFINITY, "float")
        why = "is an array" if isinstance(found, Place) else "is not declared here"
        raise UnsupportedError(node, f"{name!r} {why}")

    def _unary(self, node: Node) -> Value:
        sign, inner = operator_of(node), self.value(field_of(node, "argument"))
        if sign == "+":
            return inner
        if sign == "!":
            zero = Number("0")
            if inner.interval is not None and inner.interval[0] == inner.interval[1]:
                return number(int(inner.interval[0] == 0))
            return Value(Binary("==", printed(inner), zero), "int")
        if sign == "~" and is_whole(inner.type):
            kind, known = promoted(inner.type), inner.interval
            if known is not None and known[0] == known[1] and not kind.startswith("u"):
                return replace(number(~known[0]), type=kind, retyped=inner.retyped)
            return Value(Binary("^", printed(inner), Negative(Number("1"))), promoted(inner.type))
        if sign != "-":
            raise UnsupportedError(node, f"the operator {sign} is not supported")
        if inner.interval is not None and not inner.type.startswith("u"):
            return replace(
                self._negated(node, inner), type=promoted(inner.type), retyped=inner.retyped
            )
        return Value(Negative(printed(inner)), promoted(inner.type))

    def _binary(self, node: Node) -> Value:
        sign = operator_of(node)
        if sign not in OPERATORS:
            raise UnsupportedError(node, f"the operator {sign} is not supported")
        if (found := self._between_pointers(node, sign)) is not None:
            return found
        left, other = self.value(field_of(node, "left")), field_of(node, "right")
        if sign == "&&":
            right = self.computed_under(printed(left), other, lambda: self.value(other))
        elif sign == "||":
            right = self.computed_under(_fails(printed(left)), other, lambda: self.value(other))
        else:
            right = self.value(other)
        if not self._facts or sign not in ("+", "-", "*"):
            return combined(node, sign, left, right)
        found = combined(node, sign, left, right, lambda value: narrowed(value, self._facts))
        whole = self.widened(node, found).interval  # it may be computed in any case
        if whole is not None and not fits(whole, "int") and not self._rehearsing:
            raise UnsupportedError(node, f"{text_of(node)!r} leaves the range of its type")
        return found

    def _between_pointers(self, node: Node, sign: str) -> Value | None:
        """The difference of two pointers, or the result of their comparison."""
        sides = [field_of(node, side) for side in ("left", "right")]
        if sign not in POINTER_OPERATORS or not all(map(self._points, sides)):
            return None
        one, other = map(self.place, sides)
        alike = (replace(p, offset=None, constant=False) for p in (one, other))
        if one.rank - len(one.subscripts) != 1 or len({*alike}) > 1:
            raise UnsupportedError(node, f"{text_of(node)!r} has pointers into different arrays")
        found = combined(node, sign, one.offset or number(0), other.offset or number(0))
        if sign != "-":
            return found
        if found.interval is None or stride_of(one) != 1:
            raise UnsupportedError(node, f"the value of {text_of(node)!r} is not known")
        return replace(found, type="int64_t", retyped=True)

    def widened(self, node: Node, value: Value) -> Value:
        """A value with the range that it has whether or not the conditions around are true."""
        if not self._facts or value.interval is None:
            return value
        whole = self._in_any_case(value)
        if whole.interval is None:
            what = f"the range of {text_of(node)!r} is not known without the conditions around"
            raise UnsupportedError(node, what)
        return whole

    def _in_any_case(self, value: Value) -> Value:
        """A value with the range that it has without any condition, if this range is known."""
        return value if self._rehearsing else replace(value, interval=self.interval_of(value.expr))

    def _facts_of(self, test: Expr) -> list[Fact]:
        return [*facts_of(test, self.interval_of, self._meanings)]

    def _chosen(self, node: Node) -> Value:
        condition = self.value(field_of(node, "condition"))
        test, (yes, no) = printed(condition), (field_of(node, n) for n in _SIDES)
        value = self.computed_under(test, yes, lambda: self.value(yes))
        other = self.computed_under(_fails(test), no, lambda: self.value(no))
        if condition.interval is not None and condition.interval[0] == condition.interval[1]:
            return value if condition.interval[0] else other
        kind = common(value.type, other.type)
        if any(self._facts_of(t) for t in (test, _fails(test))):  # the choice has both values
            value, other = self._in_any_case(value), self._in_any_case(other)
        least = smaller_or_larger(condition.expr, value, other)
        if least is not None and least.type == kind:
            return least
        if value.type == kind and needless_choice(condition.expr, value, other):
            return value
        return Value(Select(printed(condition), printed(value), printed(other)), kind)

    def _cast(self, node: Node) -> Value:
        declared, inner = field_of(node, "type"), self.value(field_of(node, "value"))
        if declared.child_by_field_name("declarator") is not None:
            raise UnsupportedError(node, f"the pointer cast {text_of(node)!r} is not supported")
        kind = named_type(field_of(declared, "type"))
        if (inner.interval is not None and is_whole(kind)) or kind == "_Bool":
            return converted(node, inner, kind)
        return Value(Cast(kind, printed(inner)), kind)

    def _pointed(self, node: Node) -> Value:
        """*pointer, or the vector that begins there: *(vf *)&array[...]."""
        inner = field_of(node, "argument")
        if operator_of(node) == "*" and inner.type == "cast_expression":
            declared = field_of(inner, "type")
            if text_of(field_of(declared, "type")) == "vf":
                target = field_of(inner, "value")
                found = self.place(
                    field_of(target, "argument") if target.type == "pointer_expression" else target
                )
                if len(found.subscripts) == found.rank:
                    return Value(Load(found.array, found.subscripts), "vector")
        known = self._pointer_to_one(node)
        if known is not None and isinstance(known.variable, Value):
            return known.variable
        variable = self.pointed(node)
        if variable is not None:
            return Value(Var(variable.name), variable.type)
        if operator_of(node) != "*":
            raise UnsupportedError(node, f"the address {text_of(node)!r} is used as a number")
        return self._element(node, self.place(node))

    def pointed(self, node: Node) -> Variable | None:
        """The variable to which *pointer or a structure field refers."""
        node = bare(node)
        if node.type == "field_expression":
            member = self.member(node) or self.scope.find(member_name(node))
            return member if isinstance(member, Variable) else None
        known = self._pointer_to_one(node)
        found = known.variable if known is not None else None
        return found if isinstance(found, Variable) else None

    def _pointer_to_one(self, node: Node) -> Pointed | None:
        """The pointer in an expression *pointer, if it points to a single variable or number."""
        if node.type != "pointer_expression" or operator_of(node) != "*":
            return None
        inner = bare(field_of(node, "argument"))
        found = self.scope.find(text_of(inner)) if inner.type == "identifier" else None
        return found if isinstance(found, Pointed) else None

    def _updated(self, node: Node) -> Value:
        """variable++ or ++variable inside an expression."""
        name, found = field_of(node, "argument"), None
        if name.type == "identifier":
            found = self.scope.find(text_of(name))
        grown = self._grown(node) if isinstance(found, Variable) else None
        if grown is not None:
            return grown
        if not isinstance(found, (Value, Unknown)):
            what = f"{text_of(node)!r} changes a variable within an expression"
            raise UnsupportedError(node, what)
        amount = self._step_of(node, name)
        if text_of(node).startswith(operator_of(node)):
            self.advance(name, amount)
            return self._named(name)
        self._after.append((name, amount))
        return self._named(name)

    def _grown(self, node: Node) -> Value | None:
        """++variable of one that is kept: it grows before the statement; nothing else reads it."""
        return None

    def _moved_on(self, node: Node, found: Place) -> Place:
        name = field_of(node, "argument")
        amount = self._step_of(node, name)
        if text_of(node).startswith(operator_of(node)):
            self.advance(name, amount)
            return self.place(name)
        self._after.append((name, amount))
        return found

    def _step_of(self, node: Node, name: Node) -> int:
        if self._conditional:
            what = f"{text_of(node)!r} is computed only under a condition"
            raise NotFollowedError(node, text_of(name), what)
        return 1 if operator_of(node) == "++" else -1

    def advance(self, name: Node, amount: int) -> None:
        """Add a number to a variable that is followed."""
        found = self.scope.find(text_of(name))
        by = number(amount)
        if isinstance(found, Place) and len(found.subscripts) < found.rank:
            by = number(amount * stride_of(found))
            moved: Value | Place = replace(found, offset=plus(found.offset, by))
        elif isinstance(found, Value) and found.interval is not None:
            moved = replace(plus(found, by), type=found.type, retyped=found.type != "int")
            if not self._rehearsing and not fits(moved.interval, found.type):
                what = f"{text_of(name)!r} leaves the range of its type"
                raise NotFollowedError(name, text_of(name), what)
        else:
            why = found.why if isinstance(found, Unknown) else f"{text_of(name)!r} cannot move"
            raise NotFollowedError(name, text_of(name), why)
        self.scope.rebind(text_of(name), moved)

    def call(self, node: Node) -> Value:
        """The value of a call."""
        raise NotImplementedError

    def assignment(self, node: Node) -> Value | None:
        """Make an assignment."""
        raise NotImplementedError

    def assigned(self, node: Node) -> Value:
        """The value of an assignment inside an expression."""
        raise NotImplementedError

    def argument(self, node: Node) -> Expr:
        """An argument of a command: a number, an expression, an address, or the name of an
        array."""
        if node.type == "pointer_expression" and operator_of(node) == "&":
            inner = field_of(node, "argument")
            if inner.type == "subscript_expression":
                found = self.place(inner)
                return Address(found.array, found.subscripts)
            if inner.type == "identifier" and self.scope.find(text_of(inner)) is None:
                return Address(text_of(inner), ())  # registers that the file's head describes
            raise UnsupportedError(node, f"the address {text_of(node)!r} is not supported")
        if node.type == "identifier":
            known = self.scope.find(text_of(node))
            if isinstance(known, Place) and not known.subscripts and known.offset is None:
                return Var(known.array)
        return self.expression(node)

    def interval_of(self, expr: Expr) -> Interval | None:
        """The smallest and largest value of a subscript that consists of numbers and loop
        variables."""
        if isinstance(expr, Number) and expr.text.isdigit():
            return int(expr.text), int(expr.text)
        if isinstance(expr, Var):
            return self._ranges.get(expr.name)
        if isinstance(expr, Negative):
            return computed("-", (0, 0), self.interval_of(expr.value))
        if isinstance(expr, Binary):
            left, right = self.interval_of(expr.left), self.interval_of(expr.right)
            if expr.operator == "&" and None in (left, right):
                # The mask of a number about which nothing is known.
                mask = left if left is not None else right
                return (0, mask[1]) if mask is not None and mask[0] >= 0 else None
            return computed(expr.operator, left, right)
        return None

    def printed_name(self, name: str) -> str:
        """A name for a variable that does not hide a visible variable of the kernel."""
        visible = set().union(*self._printed)
        found = name if name not in visible else fresh(name, visible)
        self._printed[-1].add(found)
        return found

    def computed_under(self, test: Expr, node: Node, read: Callable[[], Value]) -> Value:
        """The value of a node that is computed only if a test is true."""
        with self._maybe(test):
            return read()

    @contextmanager
    def _maybe(self, test: Expr) -> Iterator[None]:
        """Marks what is read here as conditional."""
        outer = self._facts
        self._facts = [*outer, *self._facts_of(test)]
        self._conditional += 1
        yield
        self._conditional -= 1
        self._facts = outer


def _asks_for_null(node: Node) -> bool:
    """Whether the value of a pointer is only asked whether it is null."""
    inner, outer = node, node.parent
    while outer is not None and outer.type == "parenthesized_expression":
        inner, outer = outer, outer.parent
    if outer is None:
        return False
    if outer.type == "binary_expression" and operator_of(outer) in ("==", "!="):
        sides = (field_of(outer, "left"), field_of(outer, "right"))
        return any(side.type == "null" or text_of(side) in ("0", "NULL") for side in sides)
    if outer.type == "unary_expression":
        return operator_of(outer) == "!"
    if outer.type == "binary_expression":
        return operator_of(outer) in ("&&", "||")
    return outer.child_by_field_name("condition") in (inner, node)


def _fails(test: Expr) -> Expr:
    return Binary("==", test, Number("0"))

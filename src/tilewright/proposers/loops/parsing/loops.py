"""Converts loops of C to those of the intermediate form: their iterations, and the variables that
move with them.

Before::

    for (size_t i = 64; i-- != 0;) *y++ = X[i];

After::

    for (int i = 0; i < 64; i++) Y[i] = X[63 - i];
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    assigned,
    comma_separated,
    declared_name,
    descendants,
    identifiers,
    pointer_levels,
    text_of,
)
from tilewright.proposers.loops.analysis.changes import touched_by, used_by
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import NAMES, RANGES, common
from tilewright.proposers.loops.ir import (
    Binary,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Statement,
    Var,
    walk,
)
from tilewright.proposers.loops.parsing.arithmetic import SYMBOL, fits, printed
from tilewright.proposers.loops.parsing.carried import (
    moved_by,
    period_of,
    symbol_of,
    turned,
    unknown_of,
)
from tilewright.proposers.loops.parsing.counters import Counter, counter_of
from tilewright.proposers.loops.parsing.early_ends import EarlyEnd, EarlyEnds
from tilewright.proposers.loops.parsing.heads import (
    NO_STEP,
    Head,
    Test,
    head_of,
    require_step_reached,
    scales,
    takes_what_is_left,
    test_of,
    update_of,
    updates,
)
from tilewright.proposers.loops.parsing.records import stride_of
from tilewright.proposers.loops.parsing.scope import (
    Binding,
    Interval,
    Place,
    Unknown,
    Value,
    Variable,
    number,
    plus,
    times,
)
from tilewright.proposers.loops.parsing.syntax import (
    NotFollowedError,
    ShortAtEndError,
    UnsupportedError,
    field_of,
    inside,
    operator_of,
)

ALL = "?"
"""The end of names that represent the variable of a loop in all its iterations."""
_MOST_WRITTEN_OUT = 16
"""Maximum number of iterations of a loop whose variable does not change by a constant."""
_MOST_WRITTEN_OUT_TOGETHER = 512
"""Maximum number of iterations of all such loops of a kernel; those of inner loops count each
time."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """The statements of an iteration, those of the head after it, and the other variables that they
    move or count."""

    body: Sequence[Node]
    rest: Sequence[Node]
    moved: Sequence[str]
    counters: Mapping[str, Counter]


class Loops(EarlyEnds):
    """Reads `for`, `while` and `do` loops.

    `peeled` are the positions of loops whose last iteration is read separately after the loop,
    because an inner loop is shorter there than in the others, for example `for (i = b; i < min(b +
    16, 100); i++)`.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changes: dict[int, frozenset[str]] = {}
        self.peeled: set[int] = set()
        self._iterations_written_out = 0

    def loop(self, node: Node) -> list[Statement]:
        """A loop with known iterations. Raises `UnsupportedError`."""
        if scales(node) or takes_what_is_left(node):
            return self._written_out(node)
        own: dict[str, Value] = {}
        with self._collected() as head, self._inner():
            self._printed.append(set())
            declared = self._begin(node, own)
            loop, later = self._iterations(node)
            self._printed.pop()
        outside = (s.name for s in (*head, *loop) if isinstance(s, Declare))
        self._printed[-1].update(outside)
        for name, before in own.items():
            unknown = Unknown(f"the value of {name} after a loop is not known", before.type)
            self.scope.rebind(name, unknown)
        for name, binding in later.items():
            if name not in declared and self.scope.find(name) != binding:
                if self._guards:
                    raise UnsupportedError(node, f"{name} changes under a condition")
                self.scope.rebind(name, binding)
        return [*head, *loop]

    def _written_out(self, node: Node) -> list[Statement]:
        """The iterations, one after another, of a loop such as `for (n = 1; n < 256; n <<= 1)`.

        Their number must be known.
        """
        first, condition = node.child_by_field_name("initializer"), field_of(node, "condition")
        body, update = inside(field_of(node, "body")), update_of(node)
        with self._collected() as found, self._inner(), self._ending(None):
            if first is not None and first.type == "declaration":
                self.declaration(first)
            elif first is not None:
                self.effects(first)
            iterations = 0
            while self.constant(condition):
                iterations += 1
                self._iterations_written_out += 1
                for count, most, what in (
                    (iterations, _MOST_WRITTEN_OUT, "this loop has"),
                    (self._iterations_written_out, _MOST_WRITTEN_OUT_TOGETHER, "such loops have"),
                ):
                    if count > most:
                        raise UnsupportedError(node, f"{what} more than {most} iterations")
                with self._inner():
                    self.statements(body)
                for part in update:
                    self.effects(part)
        return found

    def _begin(self, node: Node, own: dict[str, Value]) -> set[str]:
        """Execute the first part of the head, and return the names that it declares.

        A variable that is set here under a condition, or to a number that depends on data,
        counts as declared here. If another declaration exists, the variable is added to `own` with
        its first value, because its value after the loop is not known.
        """
        first = node.child_by_field_name("initializer")
        if first is None:
            return set()
        if first.type != "declaration":
            for part in comma_separated(first):
                name, value = self._set_for_loop(part)
                if value is None:
                    self.effects(part)
                else:
                    own[name] = value
                    self.scope.declare(name, value)
            for name, value in own.items():
                if used_by(value.expr) & touched_by(tuple(self._done)):
                    what = f"the first value of {name} depends on what the head changes after it"
                    raise UnsupportedError(node, what)
            return {*own}
        declarators = first.children_by_field_name("declarator")
        names = {pointer_levels(d)[0] for d in declarators}
        kind = NAMES.get(text_of(field_of(first, "type")))
        written = [d.child_by_field_name("declarator") for d in declarators]
        single = len(written) == 1 and written[0] is not None and written[0].type == "identifier"
        if single and kind is not None and kind in RANGES:
            value = self._of_data(field_of(declarators[0], "value"))
            if value is not None:
                narrow = not fits(RANGES[value.type], kind)
                first_value = Cast(kind, printed(value)) if narrow else value.expr
                here = Value(first_value, kind, retyped=kind != "int")
                self.scope.declare(declared_name(declarators[0]), here)
                return names
        kept, self.kept = self.kept, self.kept - names
        self.declaration(first)
        self.kept = kept
        return names

    def _set_for_loop(self, part: Node) -> tuple[str, Value | None]:
        """The integer that an expression sets under a condition, or that depends on data, and its
        value."""
        if part.type != "assignment_expression" or operator_of(part) != "=":
            return "", None
        name, before = text_of(field_of(part, "left")), None
        if field_of(part, "left").type == "identifier":
            before = self.scope.find(name)
        if not isinstance(before, (Value, Unknown, Variable)) or before.type not in RANGES:
            return "", None
        if isinstance(before, Unknown) and before.place is not None:
            return "", None
        value = self.value(field_of(part, "right"))
        if not self._guards and value.interval is not None:
            return "", None
        if value.interval is not None:
            return name, self.of_type(field_of(part, "right"), value, before.type)
        return name, replace(value, type=before.type, retyped=before.type != "int")

    def _iterations(self, node: Node) -> tuple[list[Statement], dict[str, Binding]]:
        """The loop, and the values of followed variables after it.

        If each iteration swaps pointers (`swap(&a, &b)` by hand), one iteration of the result
        consists of as many source iterations as restore all pointers. The remaining source
        iterations come after the loop.
        """
        head = head_of(node)
        parts = (*head.body, *head.update)
        changing = frozenset().union(*(assigned(n, self._changes) for n in parts))
        head, end = self._early_end(head, changing)
        with self._ending(end):
            return self._counted(head, end, changing)

    def _counted(
        self, head: Head, end: EarlyEnd | None, changing: frozenset[str]
    ) -> tuple[list[Statement], dict[str, Binding]]:
        """The loop of a head, which may end early."""
        node = head.node
        test = test_of(head, changing)
        name = text_of(test.variable)
        if name in head.declared:
            raise UnsupportedError(
                node, f"the body of the loop over {name} declares another {name}"
            )
        steps = [part for part in head.update if updates(part, name)]
        data = self._data_limits(node, test)
        if data is not None:
            _require_whole(node, end)
            plain = steps == [*head.update] and len(steps) == 1
            by = self._step(steps[0], name) if plain else 0
            return self._between(head, test, data, by, changing)
        start, limit, lowest = self._ends(node, test)
        test = replace(test, lowest=lowest)
        first = start if isinstance(start, Value) else start.offset or number(0)
        rest = [part for part in head.update if part not in steps]
        after = head.update[head.update.index(steps[0]) + 1 :] if steps else ()
        if any(name in identifiers(n) for n in after):
            what = f"the head of this loop uses {name} after it has changed {name}"
            raise UnsupportedError(node, what)
        steps += [test.step] if test.step is not None else []
        if len(steps) > 1:
            raise UnsupportedError(node, f"{name} has no constant step")
        others = sorted((changing & self.scope.followed()) - {name})
        counters = self._counters(others, (*head.body, *rest), changing)
        others = [other for other in others if other not in counters]
        counting = {n for counter in counters.values() for n in counter.nodes}
        body = [n for n in head.body if n not in counting]
        rest = [n for n in rest if n not in counting]
        if isinstance(start, Value) and linear(Binary("-", limit.expr, start.expr))[0]:
            _require_whole(node, end)
            by = self._step(steps[0], name) if len(steps) == 1 and test.step is None else 0
            return self._varying(
                head, test, (start, limit), by, Iteration(body, rest, others, counters)
            )
        within = not steps  # the body changes the variable itself
        if within:
            require_step_reached(head, name)
        amounts: dict[str, int | None] = {}
        turns: dict[str, str] = {}
        stride = stride_of(start) if isinstance(start, Place) else 1
        early = (
            test.step is not None and not head.tested_last
        )  # the variable changes before each iteration
        step = None if within else self._step(steps[0], name) * stride
        known: Value | None = None
        own = [n for child in body for n in descendants(child) if updates(n, name)]
        if within and len(own) == 1 and own[0].parent in body:
            step = self._step(own[0], name)  # its values are known while the body is rehearsed
        if step and isinstance(start, Value):
            begun = plus(first, number(step)) if early else first
            trips = self._trips_until(head, test, first, limit, step)
            known = self._all_of(name, begun, step, trips - (node.start_byte in self.peeled))
            if within:  # of several values, so that the symbol does not become a constant
                known = replace(known, expr=Var(f"{SYMBOL}{name}")) if trips > 1 else None
        self._open.append((f"{name}{ALL}", node))
        counted = {other: self.scope.find(other) for other in counters}
        for other, binding in counted.items():
            self.scope.declare(other, symbol_of(other, binding))
        if others or within:
            amounts, turns = self._rehearsed(body, rest, [*others, name], known)
        self._open.pop()
        if test.limiting & {*counters, *(other for other in others if amounts[other] != 0)}:
            raise UnsupportedError(node, f"the loop over {name} changes its own limit")
        step = amounts.get(name) if within else step
        if not step:
            raise UnsupportedError(node, NO_STEP if within else f"{name} has no constant step")
        trips = self._trips_until(head, test, first, limit, step)
        others = [other for other in others if other not in turns]
        period = period_of(turns)
        first = plus(first, number(step)) if early else first
        if trips == 0:
            return [], {name: self._left(start, first, name)}
        plain = step > 0 and first.interval is not None and first.interval[0] == first.interval[1]
        moved = others or counters
        plain = plain and isinstance(start, Value) and (not moved or step == 1) and period == 1
        printed_name = self.printed_name(name)
        if plain:
            assert first.interval is not None
            begin, stride = first.interval[0], step
        else:
            begin, stride = 0, 1
        left = trips % period
        if node.start_byte in self.peeled and trips > 1 and period == 1:
            if any(amounts.values()) or counters:
                message = "the last iteration is shorter and moves less than the others"
                raise UnsupportedError(node, message)
            left = 1
        whole = trips // period - (left if period == 1 else 0)
        self._require_int(node, name, (begin, begin + whole * stride), trips)
        last = begin + max(0, whole - 1) * stride
        parts = [(begin, last)]
        if period == 1 and not left and end is None:
            parts = self._parts(node, begin, last, stride)
        self._open.append((printed_name, node))
        starts = {other: self.scope.find(other) for other in others}
        found: dict[Interval, list[Statement]] = {part: [] for part in parts}
        remaining: list[Statement] = []
        later: dict[str, Binding] = {}
        for part, turn in ((part, turn) for part in parts for turn in range(period + left)):
            # The source iterations in one iteration of the result, and then those that remain after
            # the last one.
            self._ranges[printed_name] = part
            variable = Value(Var(printed_name), "int", part)
            iteration = plus(times(plus(variable, number(-begin)), period), number(turn))
            if turn >= period:
                iteration = number(whole * period + turn - period)
            constant = turn >= period or not plain
            here = plus(first, times(iteration, step)) if constant else variable
            self._bind_control(node, name, start, here)
            later = self._bound(amounts, starts, iteration, trips)
            for other, counter in counters.items():
                given = counted[other]
                assert isinstance(given, Value)
                self.scope.declare(other, self._as_bound(given, counter.at(node, iteration)))
                later[other] = self._as_bound(given, number(counter.after(trips)))
            bound = self.scope.find(name)
            with self._collected() as read:
                self._iteration(body)
                self._rest(rest, end, [*others, *counters])
            if not within and self.scope.find(name) != bound:
                raise UnsupportedError(node, f"{name} changes within its loop")
            (found[part] if turn < period else remaining).extend(read)
        self._open.pop()
        past = plus(first, number(trips * step))
        later[name] = self._left(start, past, name)
        later |= {n: place for n in turns if (place := self.scope.find(n)) is not None}
        before: list[Statement] = []
        if end is not None:
            if turns:
                raise UnsupportedError(node, "a loop that exchanges pointers may end early")
            before = self._before(node, end, start, past)
            what = "is moved in a loop that may end early"
            for other in later:
                if amounts.get(other) != 0:
                    later[other] = unknown_of(f"{other} {what}", self.scope.find(other))
            assert isinstance(start, Value)
            later[name] = Variable(end.at.name, start.type)
        found_loops = [
            For(printed_name, low, high + stride, stride, tuple(found[low, high]))
            for low, high in parts
            if period == 1 or whole > 0
        ]
        return [*before, *found_loops, *remaining], later

    def _parts(self, node: Node, first: int, last: int, step: int) -> list[Interval]:
        """The first and last value of a loop's variable in each part of the loop."""
        after = {value for place, value in self.cuts if place == node.start_byte}
        # The first values of the parts are values of the variable.
        aligned = {first + -(-(value - first) // step) * step for value in after}
        starts = sorted({first} | {value for value in aligned if first < value <= last})
        ends = [value - step for value in starts[1:]]
        return [*zip(starts, [*ends, last], strict=True)]

    def _varying(
        self,
        head: Head,
        test: Test,
        ends: tuple[Value, Value],
        step: int,
        iteration: Iteration,
    ) -> tuple[list[Statement], dict[str, Binding]]:
        """A loop whose number of iterations depends on loops around it."""
        raise NotImplementedError

    def _counters(
        self, names: Sequence[str], iteration: Sequence[Node], changing: frozenset[str]
    ) -> dict[str, Counter]:
        """The variables among `names` that count iterations and then begin again."""
        found: dict[str, Counter] = {}
        for name in names:
            start = self.scope.find(name)
            if not isinstance(start, Value) or start.interval is None:
                continue
            first, largest = start.interval[0], RANGES[start.type][1]
            if first != start.interval[1]:
                continue
            counter = counter_of(name, first, largest, iteration, changing, self.constant)
            if counter is not None:
                found[name] = counter
        return found

    def _ends(self, node: Node, test: Test) -> tuple[Value | Place, Value, int | None]:
        """The first value of a loop's variable, the limit with which it is compared, and the
        smallest value of the variable that the comparison does not convert to a large unsigned
        number; None if it converts none, or for `!=`, which it does not affect."""
        name = text_of(test.variable)
        start = self.scope.find(name)
        if isinstance(start, Unknown):
            raise NotFollowedError(node, name, start.why)
        lowest, kind = 0, start.type if isinstance(start, Value) else "int"
        if test.beside is not None:
            lowest = self.constant(test.beside) * (-1 if test.operator == "+" else 1)
            kind = common(kind, self.value(test.beside).type)
        by = number(lowest)
        if isinstance(start, Place):
            end = self.place(test.limit) if test.limit is not None else replace(start, array="")
            if end.array != start.array or end.subscripts != start.subscripts:
                raise UnsupportedError(node, f"it is not known where {name} ends")
            return start, plus(end.offset, times(by, stride_of(start))), None
        limit = self.value(test.limit) if test.limit is not None else number(0)
        kind = common(kind, limit.type)
        if test.beside is not None and isinstance(start, Value):
            if start.type.startswith("u") and test.operator == "-":
                raise UnsupportedError(node, f"{name} may wrap around")
            limit = plus(limit, by) if limit.interval is not None else limit
        if not isinstance(start, Value) or start.interval is None:
            raise UnsupportedError(node, f"it is not known where {name} begins")
        if limit.interval is None:
            assert test.limit is not None
            what = f"the limit {text_of(test.limit)!r} is not constant"
            self._require_full(node, limit.expr, what)
            raise UnsupportedError(node, what)
        if start.type.startswith("u") and test.sign == ">=" and limit.interval[0] <= lowest:
            sign = f"{name} >= {text_of(test.limit) if test.limit is not None else 0}"
            raise UnsupportedError(node, f"{sign!r} always holds for {start.type}")
        if not kind.startswith("u") or test.sign == "!=":
            return start, limit, None
        if limit.interval[0] < lowest and not self._rehearsing:
            what = "0" if test.limit is None else text_of(test.limit)
            message = f"the limit {what!r} may be negative, and is compared as {kind}"
            raise UnsupportedError(node, message)
        return start, limit, lowest

    def _all_of(self, name: str, first: Value, step: int, trips: int) -> Value:
        """The expression for a loop's variable in any of its iterations."""
        assert first.interval is not None
        ends = (first.interval, plus(first, number(max(0, trips - 1) * step)).interval)
        found = [end for interval in ends if interval is not None for end in interval]
        return Value(Var(f"{name}{ALL}"), "int", (min(found), max(found)))

    def _require_full(self, node: Node, limit: Expr, what: str) -> None:
        """Raise if a limit depends on the variable of an enclosing loop whose last iteration is not
        peeled yet."""
        names = {e.name for e in walk(limit) if isinstance(e, Var)}
        while more := {
            e.name
            for name in names
            for value in self.origins.get(name, [])
            for e in walk(value)
            if isinstance(e, Var) and e.name not in names
        }:
            names |= more
        for name, loop in reversed(self._open):
            if name in names and loop.start_byte not in self.peeled:
                raise ShortAtEndError(node, loop, what)

    def _trips_until(self, head: Head, test: Test, first: Value, limit: Value, step: int) -> int:
        """Number of iterations until the condition of a loop is false."""
        # Whether the variable has changed once before the first comparison.
        changed = head.tested_last if test.step is None else not test.late
        compared = plus(first, number(step)) if changed else first
        trips = self._trips(head.node, test.sign, compared, limit, step)
        if compared.interval is not None:
            self._require_signed(head.node, test, compared.interval[0] + min(0, trips * step))
        return trips + head.tested_last

    def _require_signed(self, node: Node, test: Test, least: int) -> None:
        """Raise if a comparison converts the smallest value of a loop's variable to a large
        number."""
        if test.lowest is not None and least < test.lowest and not self._rehearsing:
            name = text_of(test.variable)
            message = f"{name} may be negative where it is compared as an unsigned number"
            raise UnsupportedError(node, message)

    def _require_int(self, node: Node, name: str, ends: Interval, trips: int) -> None:
        """Raise unless an int holds the bounds of a loop that is printed, and the number of its
        iterations."""
        if not fits(ends, "int") or not fits((0, trips), "int"):
            raise UnsupportedError(node, f"the bounds of the loop over {name} do not fit an int")

    def _rest(self, rest: Sequence[Node], end: EarlyEnd | None, moving: Sequence[str]) -> None:
        """The parts of a head after an iteration. Only followed variables may still move after an
        early end, because nothing reads them then."""
        for part in rest:
            if end is None or any(updates(part, name) for name in moving):
                self.effects(part)
            else:
                with self._under(end.going):
                    self.effects(part)

    def _bind_control(self, node: Node, name: str, start: Value | Place, here: Value) -> None:
        bound = self._as_bound(start, here)
        if isinstance(bound, Value):
            assert bound.interval is not None
            least, most = RANGES[bound.type]
            if bound.interval[0] < least or bound.interval[1] > most:
                raise UnsupportedError(node, f"{name} leaves the range of its type")
        self.scope.declare(name, bound)

    def _left(self, start: Value | Place, value: Value, name: str) -> Binding:
        """The value of a loop's variable after the loop. `while (n--)` may exceed the range of its
        type."""
        if isinstance(start, Value) and not fits(value.interval, start.type):
            return Unknown(f"{name} leaves the range of its type", start.type)
        return self._as_bound(start, value)

    def _as_bound(self, start: Value | Place, value: Value) -> Value | Place:
        if isinstance(start, Place):
            return replace(start, offset=value)
        return replace(value, type=start.type, retyped=start.type != "int")

    def _step(self, update: Node, name: str) -> int:
        """The amount by which a loop's variable grows in each iteration."""
        if update.type == "update_expression":
            return 1 if operator_of(update) == "++" else -1
        right, sign = field_of(update, "right"), operator_of(update)
        if sign in ("+=", "-="):
            step = self.constant(right) * (1 if sign == "+=" else -1)
        elif sign == "=" and right.type == "binary_expression" and operator_of(right) in "+-":
            one, other = field_of(right, "left"), field_of(right, "right")
            if text_of(one) != name and operator_of(right) == "+":
                one, other = other, one
            if text_of(one) != name:
                message = f"{text_of(update)!r} is not a constant step of {name}"
                raise UnsupportedError(update, message)
            step = self.constant(other) * (1 if operator_of(right) == "+" else -1)
        else:
            step = 0
        if not step:
            raise UnsupportedError(update, f"{text_of(update)!r} is not a constant step of {name}")
        return step

    def _trips(self, node: Node, sign: str, first: Value, limit: Value, step: int) -> int:
        terms, span = linear(Binary("-", limit.expr, first.expr))
        if any(isinstance(e, Element) for term in terms for e in walk(term)):
            what = "the number of iterations of this loop depends on data"
            here = "this is supported only in a `for` loop over an integer that counts up"
            raise UnsupportedError(node, f"{what}; {here}")
        if terms:
            raise UnsupportedError(node, "the number of iterations of this loop is not constant")
        if sign == "!=":
            if span % step or span // step < 0:
                raise UnsupportedError(node, "the loop variable skips the end of the loop")
            return span // step
        if (sign in ("<", "<=")) != (step > 0):
            raise UnsupportedError(node, "the loop variable moves away from the end of the loop")
        span = span if step > 0 else -span
        span += sign in ("<=", ">=")
        return max(0, -(-span // abs(step)))

    def _rehearsed(
        self,
        body: Sequence[Node],
        rest: Sequence[Node],
        moving: Sequence[str],
        control: Value | None,
    ) -> tuple[dict[str, int | None], dict[str, str]]:
        """The amount by which each variable moves in an iteration, found by reading the body once.

        None if it is not constant. The last variable is the loop's variable; `control` represents
        its values if they are known. In addition, for swapped pointers, the pointer whose value
        each one takes.
        """
        starts = {name: self.scope.find(name) for name in moving}
        for name, start in starts.items():
            self.scope.declare(name, symbol_of(name, start))
        if control is not None:
            kind = starts[moving[-1]]
            assert isinstance(kind, Value)
            self.scope.declare(moving[-1], replace(control, type=kind.type))
        rehearsing, self._rehearsing = self._rehearsing, True
        self._printed.append(set())
        with self._collected():
            self._iteration(body)
            self._rest(rest, self._early, moving)
        self._printed.pop()
        self._rehearsing = rehearsing
        amounts: dict[str, int | None] = {}
        turns = turned({n: self.scope.find(n) for n in starts}, starts)
        for name, start in starts.items():
            amount = moved_by(name, self.scope.find(name))
            amounts[name] = None if isinstance(start, Unknown) else amount
            assert start is not None
            self.scope.declare(name, start)
        return amounts, turns

    def _bound(
        self,
        amounts: Mapping[str, int | None],
        starts: Mapping[str, Binding | None],
        iteration: Value,
        trips: int,
    ) -> dict[str, Binding]:
        """Set each moving variable for all iterations, and return its value after the loop."""
        later: dict[str, Binding] = {}
        for name, start in starts.items():
            amount = amounts[name]
            if amount is None or isinstance(start, Unknown):
                unknown = unknown_of(f"{name} is carried from one iteration to the next", start)
                self.scope.declare(name, unknown)
                later[name] = unknown
                continue
            assert isinstance(start, (Value, Place))
            offset = start if isinstance(start, Value) else start.offset or number(0)
            inside, after = times(iteration, amount), number(trips * amount)
            self.scope.declare(name, self._as_bound(start, plus(offset, inside)))
            later[name] = self._as_bound(start, plus(offset, after))
        return later


def _require_whole(node: Node, end: EarlyEnd | None) -> None:
    """Raise if a loop whose number of iterations varies may end early."""
    if end is not None:
        raise UnsupportedError(node, "a loop with a varying number of iterations may end early")

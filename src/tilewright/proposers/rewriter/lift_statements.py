"""C statements to loop IR, by symbolic execution.

Lifted: counted loops of any form, comparisons as guards, command calls, and local variables, which
are folded into the expressions that use them: constants, addresses, pointers into argument arrays,
and what changes from iteration to iteration in a way that can be counted. Calls of the file's own
functions are inlined. Everything else becomes `Opaque` text with the reason; a statement is lifted
whole or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tree_sitter import Node

from tilewright.proposers.rewriter.expr import Atom, Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Condition,
    Dram,
    Guard,
    Local,
    Loop,
    Opaque,
    Operand,
    Stmt,
    Text,
    walk,
)
from tilewright.proposers.rewriter.lift_constants import declare_enumerators
from tilewright.proposers.rewriter.lift_core import assignment, local_array
from tilewright.proposers.rewriter.lift_induction import (
    Count,
    Marked,
    at_head,
    behind,
    counted,
    mark_of,
)
from tilewright.proposers.rewriter.lift_scope import (
    NotModelled,
    Pointer,
    Scope,
    Table,
    Value,
    choice,
    decided,
    negated,
)
from tilewright.proposers.rewriter.lift_syntax import (
    assigned,
    comma_separated,
    comment_lines,
    declared_name,
    identifiers,
    jumped_over,
    leaves_early,
    parameters,
    pointer_levels,
    text_of,
)
from tilewright.proposers.rewriter.lift_values import INTEGER_TYPES, Reader
from tilewright.proposers.rewriter.machine import Machine

_ADDRESSES = {"dram_read": Dram, "dram_write": Dram, "local_read": Local, "local_write": Local}
_DEEPEST = 16
"""Calls within calls before a function counts as endlessly recursive."""


@dataclass
class Lifter:
    """Lifts one function; `dropped` collects locals that exist only as folded values.

    `pinned` are locals that text mentions: they stay declared, and those of them that change are
    text altogether. `reasons` keeps, by place in the source, why something became text at first.
    """

    machine: Machine
    pinned: frozenset[str]
    outermost: Scope
    reasons: dict[tuple[int, int], str]
    dropped: set[str] = field(default_factory=set)
    names: dict[Atom, str] = field(default_factory=dict)
    _unmodelled: frozenset[str] = frozenset()
    _calls: list[str] = field(default_factory=list)
    _writes: dict[Opaque, frozenset[str]] = field(default_factory=dict)
    _known: dict[int, frozenset[str]] = field(default_factory=dict)
    _serial: int = 0

    def function_body(self, block: Node) -> Body:
        """The statements of the kernel."""
        self._unmodelled = self.pinned & self._assigned(block)
        return self._block(block, self.outermost.inner())

    def _block(self, block: Node, scope: Scope) -> Body:
        result: list[Stmt] = []
        notes: list[str] = []
        last_line = -1
        jumping = jumped_over(block)
        for node in block.named_children:
            if node in jumping:
                if node == jumping[0]:
                    result.append(self._jumps(jumping))
                continue
            if node.type == "comment":
                lines = comment_lines(node)
                behind_it = node.start_point[0] == last_line and len(lines) == 1
                if behind_it and result and isinstance(result[-1], Command):
                    result[-1] = replace(result[-1], trailing=lines[0])
                else:
                    notes.extend(lines)
                continue
            last_line = node.end_point[0]
            stmts = self._statement(node, scope)
            if stmts and notes:
                stmts = (replace(stmts[0], notes=(*notes, *stmts[0].notes)), *stmts[1:])
                notes = []
            result.extend(stmts)
        return tuple(result)

    def _jumps(self, nodes: list[Node]) -> Opaque:
        """The statements that jumps may repeat or leave out, as one text."""
        parts = [self._opaque(node, "control flow by goto") for node in nodes]
        names = frozenset().union(*(part.names for part in parts))
        result = replace(parts[0], text="\n  ".join(part.text for part in parts), names=names)
        self._writes[result] = frozenset().union(*(self._writes[part] for part in parts))
        return result

    def _statement(self, node: Node, scope: Scope) -> Body:
        """Statements for one node, in a scope that declarations and assignments change."""
        try:
            match node.type:
                case "declaration":
                    return self._declaration(node, scope)
                case "expression_statement":
                    return self._expressions(node, scope)
                case "for_statement" | "while_statement" | "do_statement":
                    return self._loop(node, scope)
                case "if_statement":
                    return self._guard(node, scope)
                case "compound_statement":
                    return self._flattened(node, scope)
                case "enum_specifier":
                    declare_enumerators(node, self._reader(scope))
                    return ()
                case ";":
                    return ()
                case _:
                    raise NotModelled(node.type.replace("_", " "))
        except NotModelled as reason:
            return (self._opaque(node, str(reason)),)

    def _assigned(self, node: Node) -> frozenset[str]:
        return assigned(node, self._known)

    def _reader(self, scope: Scope) -> Reader:
        return Reader(self.machine, scope, self._called_value)

    def _flattened(self, node: Node, scope: Scope) -> Body:
        """A block without its braces, which only text with variables of its own needs."""
        stmts = self._block(node, scope.inner())
        if any(isinstance(s, Opaque) for s in stmts):
            raise NotModelled("block with code that is not modelled")
        return stmts

    def _opaque(self, node: Node, reason: str) -> Opaque:
        if self._calls:  # the names in this text mean nothing outside its function
            raise NotModelled(f"call of {self._calls[-1]} ({reason})")
        names = frozenset(identifiers(node))
        reason = self.reasons.setdefault((node.start_byte, node.end_byte), reason)
        result = Opaque(text_of(node), names, reason, line=node.start_point[0] + 1)
        self._writes[result] = self._assigned(node)
        return result

    # --- variables ---------------------------------------------------------------------------

    def _declaration(self, node: Node, scope: Scope) -> Body:
        kind = node.child_by_field_name("type")
        items = node.children_by_field_name("declarator")
        words = [text_of(c) for c in node.children if c.type.endswith(("qualifier", "specifier"))]
        if kind is None or ("static" in words and "const" not in words):
            raise NotModelled("declaration of a variable that outlives the call")
        for item in items:
            self._declare(item, text_of(kind), scope)
        declared = {name for item in items if (name := declared_name(item))}
        if self._calls:
            return ()
        self.dropped |= declared
        if declared & self.pinned:
            return (self._opaque(node, "used by code that is not modelled"),)
        return ()

    def _declare(self, item: Node, kind: str, scope: Scope) -> None:
        target = item.child_by_field_name("declarator") if item.type == "init_declarator" else item
        given = item.child_by_field_name("value") if item.type == "init_declarator" else None
        if target is None:
            raise NotModelled("declaration without a name")
        name, sizes = pointer_levels(target)
        if name in self._unmodelled and not self._calls:
            scope.declare(name, None)
            raise NotModelled(f"variable {name} that changes")
        integer = bool(set(kind.split()) & INTEGER_TYPES)
        if given is None and not sizes and integer:
            scope.declare(name, None)
            return
        if given is None and target.type == "array_declarator" and name not in self.pinned:
            self._declare_array(name, sizes, kind, scope)
            return
        scope_value = self._initial(target, given, sizes, integer, scope)
        scope.declare(name, scope_value)
        self._remember(name, scope_value)

    def _declare_array(self, name: str, sizes: list[Node | None], kind: str, scope: Scope) -> None:
        """A local array, which is printed at the head of the kernel again."""
        array = local_array(name, sizes, kind, self._reader(scope))
        if scope.arrays.get(name, array) != array or self._calls:
            raise NotModelled(f"two arrays with the name {name}")
        scope.arrays[name] = array
        scope.declare(name, Pointer(name, (Expr(),) * len(array.shape), 0))

    def _remember(self, name: str, value: Value | None) -> None:
        """The author's name for an expression, for printing it again."""
        if isinstance(value, Expr) and len(value.terms) == 1 and value.const == 0:
            atom, coefficient = value.terms[0]
            if coefficient == 1:
                self.names.setdefault(atom, name)

    def _initial(
        self,
        target: Node,
        given: Node | None,
        sizes: list[Node | None],
        integer: bool,
        scope: Scope,
    ) -> Value | None:
        """What a declared variable holds; `NotModelled` for types that are not followed."""
        if given is None:
            if sizes and sizes[0] is None:
                return None
            raise NotModelled("declaration of something other than an integer")
        reader = self._reader(scope)
        if target.type == "array_declarator" and given.type == "initializer_list" and integer:
            entries = [e for e in given.named_children if e.type != "comment"]
            if len(sizes) == 1 and entries:
                return Table(tuple(reader.value(e) for e in entries))
        if target.type != "array_declarator" or "(" in text_of(target):
            value = reader.value(given)
            if isinstance(value, Pointer) and _fits(value, sizes):
                return value
            plain = not isinstance(value, Pointer | Table)
            if plain and not sizes and (integer or isinstance(value, Text)):
                return value
        raise NotModelled("declaration of something other than an integer")

    def _expressions(self, node: Node, scope: Scope) -> Body:
        result: Body = ()
        if node.named_children:
            for part in comma_separated(node.named_children[0]):
                result += self._expression(part, scope)
        return result

    def _expression(self, node: Node, scope: Scope) -> Body:
        if node.type == "call_expression":
            return self._call(node, scope)
        if node.type not in ("assignment_expression", "update_expression"):
            raise NotModelled(node.type.replace("_", " "))
        target = node.child_by_field_name("left") or node.child_by_field_name("argument")
        if target is None or target.type != "identifier":
            return (assignment(node, self._reader(scope)),)
        name = text_of(target)
        if name in self._unmodelled and not self._calls:
            raise NotModelled(f"variable {name} that changes")
        reader = self._reader(scope)
        operator = text_of(node.child_by_field_name("operator") or node)
        if node.type == "update_expression":
            amount = Expr(1 if "+" in operator else -1)
            value = self._plus(scope, reader.value(target), amount)
        else:
            right = node.child_by_field_name("right")
            if right is None:
                raise NotModelled("assignment of nothing")
            value = self._assigned_value(scope, target, operator, right)
        scope.assign(name, value)
        self._remember(name, value)
        return ()

    def _assigned_value(self, scope: Scope, target: Node, operator: str, right: Node) -> Value:
        reader = self._reader(scope)
        if operator == "=":
            return reader.value(right)
        left = reader.value(target)
        if operator in ("+=", "-="):
            amount = reader.value(right)
            if isinstance(amount, Expr):
                return self._plus(scope, left, amount if operator == "+=" else amount * -1)
        return reader.combined(operator[:-1], left, reader.value(right))

    def _plus(self, scope: Scope, value: Value, amount: Expr) -> Value:
        return self._reader(scope).combined("+", value, amount)

    # --- calls -------------------------------------------------------------------------------

    def _call(self, call: Node, scope: Scope) -> Body:
        function, arguments = (call.child_by_field_name(f) for f in ("function", "arguments"))
        if function is None or arguments is None:
            raise NotModelled("call of something without a name")
        name = text_of(function)
        given = [a for a in arguments.named_children if a.type != "comment"]
        if not self.machine.is_command(name):
            return self._inlined(call, name, given, scope)
        reader = self._reader(scope)
        named = self.machine.unit(name) == "config"
        operands = tuple(reader.operand(a, keep_names=named) for a in given)
        self._check_operands(name, operands)
        return (Command(name, operands),)

    def _check_operands(self, name: str, given: tuple[Operand, ...]) -> None:
        effect = self.machine.effects[name]
        fewest = len(effect.operands) - int(effect.attributes.get("optional", "0"))
        if not fewest <= len(given) <= len(effect.operands):
            raise NotModelled(f"{name} with {len(given)} operands")
        for role, operand in zip(effect.operands, given, strict=False):
            kind = _ADDRESSES.get(role)
            zero = role == "dram_read" and operand == Expr(0)
            absent = isinstance(operand, Text) and (
                self.machine.flags.get(operand.text) == "absent"
            )
            if kind is not None and not (isinstance(operand, kind) or zero or absent):
                raise NotModelled(f"{name} with an address that is not affine")

    def _inlined(self, call: Node, name: str, given: list[Node], scope: Scope) -> Body:
        """The statements of one of the file's own functions, with its arguments put in."""
        body, inner = self._entered(name, given, scope)
        self._calls.append(name)
        try:
            statements = body.named_children
            last = statements[-1] if statements else None
            if last is not None and last.type == "return_statement" and last.named_children:
                raise NotModelled(f"call of {name} whose result is not used")
            if any(leaves_early(s) for s in statements[:-1]):
                raise NotModelled(f"call of {name} (it returns early)")
            kept = [s for s in statements if s.type != "return_statement"]
            return tuple(s for k in kept for s in self._statement(k, inner) if k.type != "comment")
        finally:
            self._calls.pop()

    def _entered(self, name: str, given: list[Node], scope: Scope) -> tuple[Node, Scope]:
        """The body of a function, and a scope with its parameters."""
        function = scope.functions.get(name)
        body = function.child_by_field_name("body") if function is not None else None
        if function is None or body is None:
            raise NotModelled(f"call of {name}")
        recursive = name in identifiers(body)
        if recursive or name in self._calls or len(self._calls) >= _DEEPEST:
            raise NotModelled(f"call of {name}, which calls itself")
        inner = scope.function(self.outermost)
        reader = self._reader(scope)
        expected = list(parameters(function))
        if len(expected) != len(given):
            raise NotModelled(f"call of {name} with {len(given)} arguments")
        for (parameter, sizes), argument in zip(expected, given, strict=True):
            value = reader.value(argument)
            if isinstance(value, Pointer) != bool(sizes) or (
                isinstance(value, Pointer) and not _fits(value, sizes)
            ):
                raise NotModelled(f"call of {name} with a pointer of another type")
            inner.declare(parameter, value)
        return body, inner

    def _called_value(self, call: Node, scope: Scope) -> Value:
        """What a call of one of the file's own functions returns."""
        function, arguments = (call.child_by_field_name(f) for f in ("function", "arguments"))
        assert function is not None
        assert arguments is not None
        name = text_of(function)
        given = [a for a in arguments.named_children if a.type != "comment"]
        body, inner = self._entered(name, given, scope)
        self._calls.append(name)
        try:
            return self._returned(list(body.named_children), inner)
        finally:
            self._calls.pop()

    def _returned(self, statements: list[Node], scope: Scope) -> Value:
        for at, node in enumerate(statements):
            if node.type == "comment":
                continue
            if node.type == "return_statement":
                return self._reader(scope).value(node.named_children[0])
            if node.type == "compound_statement" and leaves_early(node):
                return self._returned(list(node.named_children), scope.inner())
            if node.type == "if_statement" and leaves_early(node):
                test, yes, no = _branches(node)
                condition = self._reader(scope).condition(test)
                rest = ([no] if no is not None else []) + statements[at + 1 :]
                first = self._returned([yes], scope.branch())
                return choice(condition, first, self._returned(rest, scope.branch()))
            if self._statement(node, scope):
                raise NotModelled(f"call of {self._calls[-1]}, which issues commands, for a value")
        raise NotModelled(f"call of {self._calls[-1]}, which returns nothing")

    # --- control flow ------------------------------------------------------------------------

    def _guard(self, node: Node, scope: Scope) -> Body:
        test, yes, no = _branches(node)
        condition = self._reader(scope).condition(test)
        if leaves_early(node):
            raise NotModelled("branch that leaves early")
        holds = decided(condition)
        if holds is not None:
            chosen = yes if holds else no
            return () if chosen is None else self._flattened_branch(chosen, scope)
        first, second = scope.branch(), scope.branch()
        body = self._branch(yes, first)
        orelse = self._branch(no, second) if no is not None else ()
        scope.merge(condition, first, second)
        for name in sorted(self._assigned(node)):
            self._remember(name, scope.get(name))
        if not body and orelse:
            body, orelse, condition = orelse, (), negated(condition)
        both = _either(condition, body, orelse)
        return both or ((Guard(condition, body, orelse),) if body else ())

    def _flattened_branch(self, node: Node, scope: Scope) -> Body:
        if node.type == "compound_statement":
            return self._flattened(node, scope)
        return self._statement(node, scope.inner())

    def _branch(self, node: Node, scope: Scope) -> Body:
        if node.type == "compound_statement":
            return self._block(node, scope.inner())
        return self._statement(node, scope.inner())

    def _loop(self, node: Node, scope: Scope) -> Body:
        """A counted loop: its body is lifted once to see how variables change, then for good."""
        body, test = node.child_by_field_name("body"), node.child_by_field_name("condition")
        if body is None or test is None:
            raise NotModelled("loop without a condition")
        if leaves_early(body):
            raise NotModelled("loop that may end early")
        if node.type == "do_statement" and text_of(test).strip("() ") in ("0", "false"):
            return self._flattened_branch(body, scope)
        inner = scope.inner()
        own = self._loop_variables(node, inner)
        update = node.child_by_field_name("update")
        changing = self._changing(body, update, inner)
        head = inner.branch()
        for name, marked in changing.items():
            head.assign(name, marked.mark)
        condition = self._reader(head).condition(test)
        unique = {name: self._unique(name, inner) for name in changing}
        count = counted(condition, changing, unique)
        if node.type == "do_statement" and not _runs_once(count):
            raise NotModelled("loop that tests its condition last")
        for name, marked in changing.items():
            try:
                inner.assign(name, at_head(marked, count, changing))
            except NotModelled:
                inner.state.pop(inner.slots[name], None)
        turn = inner.branch()
        turn.loops = inner.loops | {count.variable}
        stmts = self._branch(body, turn)
        self._check_text(stmts, count, changing, own)
        for name, marked in changing.items():
            try:
                inner.assign(name, behind(marked, count, changing))
            except NotModelled:
                inner.state.pop(inner.slots[name], None)
        if not stmts:
            return ()
        return (Loop(count.variable, count.lower, count.upper, count.step, stmts),)

    def _loop_variables(self, node: Node, scope: Scope) -> set[str]:
        """Declares or sets what the head of a `for` does; the names it declares."""
        first = node.child_by_field_name("initializer")
        if first is None:
            return set()
        if first.type != "declaration":
            for part in comma_separated(first):
                self._expression(part, scope)
            return set()
        kind = first.child_by_field_name("type")
        items = first.children_by_field_name("declarator")
        for item in items:
            self._declare(item, text_of(kind) if kind is not None else "", scope)
        return {declared_name(item) for item in items}

    def _changing(self, body: Node, update: Node | None, scope: Scope) -> dict[str, Marked]:
        """The variables that an iteration changes, with what it makes of their marks."""
        written = self._assigned(body)
        if update is not None:
            written |= self._assigned(update)
        found = {n: v for n in sorted(written) if (v := scope.get(n)) is not None}
        trial = scope.branch()
        marks: dict[str, Value] = {}
        for name, value in found.items():
            self._serial += 1
            mark = mark_of(value, f"{name}{self._serial}")
            if mark is None:
                raise NotModelled(f"variable {name} that changes in a loop")
            marks[name] = mark
            trial.assign(name, mark)
        known = set(self.names)
        if self._assigned(body) & set(marks):
            self._branch(body, trial)
        for part in comma_separated(update) if update is not None else []:
            self._expression(part, trial)
        for atom in set(self.names) - known:
            del self.names[atom]
        return {n: Marked(found[n], marks[n], trial.get(n)) for n in marks}

    def _unique(self, name: str, scope: Scope) -> str:
        """A name for a loop's variable that no loop around it has."""
        while name in scope.loops or name in scope.arrays:
            name += "_"
        return name

    def _check_text(
        self, stmts: Body, count: Count, changing: dict[str, Marked], own: set[str]
    ) -> None:
        """Text in a loop may read the loop's variable by its name, and no other changing one."""
        for stmt in walk(stmts):
            if isinstance(stmt, Opaque):
                odd = stmt.names & (set(changing) | own) - {count.variable} - self.dropped
                if odd or count.variable in self._writes.get(stmt, ()):
                    raise NotModelled("loop whose variable changes in its body")
                direct = changing.get(count.variable)
                named = count.variable in stmt.names and direct is not None
                if named and direct is not None and count.lower != direct.first:
                    raise NotModelled("loop that does not count up")


def _either(condition: Condition, yes: Body, no: Body) -> Body:
    """Branches that issue the same commands with other addresses or flags, as one; else nothing."""
    result: list[Stmt] = []
    for first, second in zip(yes, no, strict=False):
        if not (isinstance(first, Command) and isinstance(second, Command)):
            return ()
        if first.name != second.name or len(first.operands) != len(second.operands):
            return ()
        operands: list[Operand] = []
        for one, other in zip(first.operands, second.operands, strict=True):
            if one == other:
                operands.append(one)
            elif isinstance(one, Local) and isinstance(other, Local):
                try:
                    chosen = choice(condition, one, other)
                except NotModelled:
                    return ()
                assert isinstance(chosen, Local)
                operands.append(chosen)
            else:
                return ()
        result.append(replace(first, operands=tuple(operands)))
    return tuple(result) if len(yes) == len(no) else ()


def _fits(value: Pointer, sizes: list[Node | None]) -> bool:
    """Whether a pointer may be held by a variable that points to so many dimensions."""
    return value.axis is None or len(value.index) - value.axis == len(sizes)


def _branches(node: Node) -> tuple[Node, Node, Node | None]:
    test, yes, no = (
        node.child_by_field_name(f) for f in ("condition", "consequence", "alternative")
    )
    if test is None or yes is None:
        raise NotModelled("if without a condition")
    if no is not None:
        no = next(c for c in no.named_children if c.type != "comment")
    return test, yes, no


def _runs_once(count: Count) -> bool:
    span = count.upper - count.lower
    return span.is_const and span.const > 0

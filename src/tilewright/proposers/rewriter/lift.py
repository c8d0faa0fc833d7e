"""C to loop IR.

Lifted: counted loops, comparisons as guards, constant integer locals (folded into the expressions
that use them), command calls, integer `#define`s. Everything else becomes `Opaque` text with the
reason; a statement is lifted whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

import tree_sitter_c
from tree_sitter import Language, Node, Parser

from tilewright.core.errors import InputError
from tilewright.proposers.rewriter.expr import Atom, Expr, as_expr, var
from tilewright.proposers.rewriter.ir import (
    Array,
    Body,
    Command,
    Dram,
    Guard,
    Kernel,
    Local,
    Loop,
    Opaque,
    Operand,
    Stmt,
    Text,
    walk,
)
from tilewright.proposers.rewriter.lift_values import (
    NotModelled,
    Reader,
    Scope,
    identifiers,
    text_of,
)
from tilewright.proposers.rewriter.machine import Machine

ENTRY = "kernel"
_INTEGER_TYPES = frozenset(
    (
        "int",
        "unsigned",
        "long",
        "short",
        "char",
        "size_t",
        "int16_t",
        "int32_t",
        "int64_t",
        "uint16_t",
        "uint32_t",
        "uint64_t",
    )
)
_ADDRESSES = {"dram_read": Dram, "dram_write": Dram, "local_read": Local, "local_write": Local}


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_c.language()))


def parse(source: str) -> Node:
    """The syntax tree; a syntax error raises `InputError` with its line."""
    root = _parser().parse(source.encode()).root_node
    if root.has_error:
        node = next(_errors(root), root)
        raise InputError(
            f"the kernel does not parse as C at line {node.start_point[0] + 1}: "
            "correct the syntax there."
        )
    return root


def lift(source: str, machine: Machine) -> Kernel:
    """The kernel function of a C file as IR; `InputError` if there is none."""
    root = parse(source)
    functions = [n for n in root.children if n.type == "function_definition"]
    entry = next((n for n in functions if _function_name(n) == ENTRY), None)
    if entry is None:
        raise InputError(
            f"the file defines no function {ENTRY!r}: define `void {ENTRY}(...)` with the "
            "workload's arguments."
        )
    block = entry.child_by_field_name("body")
    assert block is not None
    data = source.encode()
    defines = _defines(root)
    arrays = tuple(_arrays(entry, defines))
    pinned: frozenset[str] = frozenset()
    while True:
        lifter = _Lifter(machine, pinned)
        scope = Scope(dict(defines), {a.name: a for a in arrays})
        body = lifter.function_body(block, scope)
        mentioned = {n for s in walk(body) if isinstance(s, Opaque) for n in s.names}
        missing = (lifter.dropped & mentioned) - pinned
        if not missing:
            break
        pinned |= missing
    return Kernel(
        before=data[: entry.start_byte].decode(),
        signature=data[entry.start_byte : block.start_byte].decode().rstrip(),
        arrays=arrays,
        body=body,
        after=data[entry.end_byte :].decode(),
        names=lifter.names,
    )


@dataclass
class _Lifter:
    """Lifts one function; `dropped` collects locals that exist only as folded values."""

    machine: Machine
    pinned: frozenset[str]
    dropped: set[str] = field(default_factory=set)
    names: dict[Atom, str] = field(default_factory=dict)
    assigned: frozenset[str] = frozenset()

    def function_body(self, block: Node, scope: Scope) -> Body:
        if any(n.type in ("goto_statement", "labeled_statement") for n in _nodes(block)):
            inside = self._opaque(block, "control flow by goto")
            return (replace(inside, text=inside.text[1:-1].strip()),)
        self.assigned = frozenset(_assigned(block))
        return self._block(block, scope)

    def _block(self, block: Node, scope: Scope) -> Body:
        result: list[Stmt] = []
        notes: list[str] = []
        last_line = -1
        for node in block.named_children:
            if node.type == "comment":
                lines = _comment_lines(node)
                behind = node.start_point[0] == last_line and len(lines) == 1
                if behind and result and isinstance(result[-1], Command):
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

    def _statement(self, node: Node, scope: Scope) -> Body:
        """Statements for one node, in a scope that declarations extend."""
        try:
            match node.type:
                case "declaration":
                    return self._declaration(node, scope)
                case "expression_statement":
                    return self._call(node, scope)
                case "for_statement":
                    return (self._loop(node, scope),)
                case "if_statement":
                    return (self._guard(node, scope),)
                case "compound_statement":
                    return self._flattened(node, scope)
                case ";":
                    return ()
                case _:
                    raise NotModelled(node.type.replace("_", " "))
        except NotModelled as reason:
            return (self._opaque(node, str(reason)),)

    def _flattened(self, node: Node, scope: Scope) -> Body:
        """A block without its braces, which only text with variables of its own needs."""
        stmts = self._block(node, scope.inner())
        if any(isinstance(s, Opaque) for s in stmts):
            raise NotModelled("block with code that is not modelled")
        return stmts

    def _opaque(self, node: Node, reason: str) -> Opaque:
        return Opaque(text_of(node), frozenset(identifiers(node)), reason)

    def _declaration(self, node: Node, scope: Scope) -> Body:
        kind = node.child_by_field_name("type")
        if kind is None or not set(text_of(kind).split()) <= _INTEGER_TYPES:
            raise NotModelled("declaration of a type other than an integer")
        for item in node.children_by_field_name("declarator"):
            self._declare(item, scope)
        declared = {
            text_of(i.child_by_field_name("declarator") or i)
            for i in node.children_by_field_name("declarator")
        }
        self.dropped |= declared
        return (
            (self._opaque(node, "used by code that is not modelled"),)
            if (declared & self.pinned)
            else ()
        )

    def _declare(self, item: Node, scope: Scope) -> None:
        if item.type == "identifier":
            return  # a loop variable declared ahead of its loop
        name, value = item.child_by_field_name("declarator"), item.child_by_field_name("value")
        if name is None or value is None or name.type != "identifier":
            raise NotModelled("declaration of something other than an integer")
        if text_of(name) in self.assigned:
            raise NotModelled(f"variable {text_of(name)} that changes")
        bound = Reader(self.machine, scope).value(value)
        scope.values[text_of(name)] = bound
        if (
            isinstance(bound, Expr)
            and len(bound.terms) == 1
            and bound.terms[0][1] == 1
            and (bound.const == 0)
        ):
            self.names.setdefault(bound.terms[0][0], text_of(name))

    def _call(self, node: Node, scope: Scope) -> Body:
        call = node.named_children[0] if node.named_children else None
        if call is None:
            return ()
        name = call.child_by_field_name("function") if call.type == "call_expression" else None
        arguments = call.child_by_field_name("arguments")
        if name is None or arguments is None:
            raise NotModelled(call.type.replace("_", " "))
        if not self.machine.is_command(text_of(name)):
            raise NotModelled(f"call of {text_of(name)}")
        reader = Reader(self.machine, scope)
        named = self.machine.unit(text_of(name)) == "config"
        given = tuple(
            reader.operand(a, keep_names=named)
            for a in arguments.named_children
            if a.type != "comment"
        )
        self._check_operands(text_of(name), given)
        return (Command(text_of(name), given),)

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

    def _loop(self, node: Node, scope: Scope) -> Loop:
        body = node.child_by_field_name("body")
        name, lower = self._initial(node, scope)
        if body is None or name in _assigned(body):
            raise NotModelled("loop whose variable changes in its body")
        step = self._step(node, name, scope)
        upper = self._upper(node, name, scope, lower, step)
        inner = scope.inner()
        unique = name
        while unique in scope.loops:
            unique += "_"
        inner.values[name] = var(unique)
        inner.loops.add(unique)
        stmts = (
            self._block(body, inner)
            if body.type == "compound_statement"
            else (self._statement(body, inner))
        )
        if unique != name and any(isinstance(s, Opaque) and name in s.names for s in walk(stmts)):
            raise NotModelled("shadowed loop variable")
        if _leaves_early(body):
            raise NotModelled("loop that may end early")
        return Loop(unique, lower, upper, step, stmts)

    def _initial(self, node: Node, scope: Scope) -> tuple[str, Expr]:
        first = node.child_by_field_name("initializer")
        if first is not None and first.type == "declaration":
            item = first.child_by_field_name("declarator")
            first = item if item is not None and item.type == "init_declarator" else None
            left, right = ("declarator", "value")
        else:
            left, right = ("left", "right")
        name = first.child_by_field_name(left) if first is not None else None
        value = first.child_by_field_name(right) if first is not None else None
        if name is None or value is None or name.type != "identifier":
            raise NotModelled("loop that does not count")
        return text_of(name), Reader(self.machine, scope).integer(value)

    def _upper(self, node: Node, name: str, scope: Scope, lower: Expr, step: int) -> Expr:
        test = node.child_by_field_name("condition")
        left = test.child_by_field_name("left") if test is not None else None
        right = test.child_by_field_name("right") if test is not None else None
        operator = test.child_by_field_name("operator") if test is not None else None
        if left is None or right is None or operator is None or text_of(left) != name:
            raise NotModelled("loop that does not count")
        bound = Reader(self.machine, scope).integer(right)
        if text_of(operator) == "<":
            return bound
        if text_of(operator) == "<=":
            span = bound - lower
            whole = span.is_const and span.const % step == 0
            return bound + (step if whole else 1)
        raise NotModelled("loop that does not count up")

    def _step(self, node: Node, name: str, scope: Scope) -> int:
        update = node.child_by_field_name("update")
        if update is not None and update.type == "update_expression":
            if text_of(update).replace(name, "", 1).strip() == "++":
                return 1
        elif update is not None and update.type == "assignment_expression":
            left, right = update.child_by_field_name("left"), update.child_by_field_name("right")
            operator = update.child_by_field_name("operator")
            if left is not None and right is not None and text_of(left) == name:
                inner = scope.inner()
                inner.values[name] = var(name)
                step = Reader(self.machine, inner).integer(right)
                if operator is not None and text_of(operator) == "=":
                    step = step - var(name)
                elif operator is None or text_of(operator) != "+=":
                    step = as_expr(0)
                if step.is_const and step.const > 0:
                    return step.const
        raise NotModelled("loop that does not count up by a constant")

    def _guard(self, node: Node, scope: Scope) -> Guard:
        test = node.child_by_field_name("condition")
        yes, no = node.child_by_field_name("consequence"), node.child_by_field_name("alternative")
        if test is None or yes is None:
            raise NotModelled("if without a condition")
        condition = Reader(self.machine, scope).condition(test)
        if _leaves_early(yes) or (no is not None and _leaves_early(no)):
            raise NotModelled("branch that leaves early")
        orelse: Body = ()
        if no is not None:
            orelse = self._branch(next(c for c in no.named_children if c.type != "comment"), scope)
        return Guard(condition, self._branch(yes, scope), orelse)

    def _branch(self, node: Node, scope: Scope) -> Body:
        inner = scope.inner()
        if node.type == "compound_statement":
            return self._block(node, inner)
        return self._statement(node, inner)


def _errors(node: Node) -> Iterator[Node]:
    if node.is_error or node.is_missing:
        yield node
    for child in node.children:
        yield from _errors(child)


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in node.named_children:
        yield from _nodes(child)


def _function_name(node: Node) -> str:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "identifier":
        declarator = declarator.child_by_field_name("declarator")
    return text_of(declarator) if declarator is not None else ""


def _defines(root: Node) -> dict[str, Expr]:
    """Object-like macros whose value is an integer literal."""
    found: dict[str, Expr] = {}
    for node in root.named_children:
        if node.type == "preproc_def":
            name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
            digits = text_of(value).strip("() ") if value is not None else ""
            if name is not None and digits.isdigit():
                found[text_of(name)] = Expr(int(digits))
    return found


def _arrays(entry: Node, defines: dict[str, Expr]) -> Iterator[Array]:
    for node in _nodes(entry):
        if node.type == "parameter_declaration":
            declarator = node.child_by_field_name("declarator")
            sizes: list[int | None] = []
            while declarator is not None and declarator.type == "array_declarator":
                size = declarator.child_by_field_name("size")
                text = text_of(size) if size is not None else ""
                known = defines[text].const if text in defines else None
                sizes.insert(0, int(text) if text.isdigit() else known)
                declarator = declarator.child_by_field_name("declarator")
            if declarator is not None and declarator.type == "identifier":
                shape = tuple(s for s in sizes if s is not None)
                yield Array(text_of(declarator), shape if len(shape) == len(sizes) else ())


def _assigned(node: Node) -> Iterator[str]:
    """Variables that change outside the header of their own loop, or whose address is taken."""
    for child in node.named_children:
        header = node.type == "for_statement" and node.child_by_field_name("body") != child
        if not header:
            target = None
            if child.type == "assignment_expression":
                target = child.child_by_field_name("left")
            elif child.type in ("update_expression", "pointer_expression"):
                target = child.child_by_field_name("argument")
            if target is not None and target.type == "identifier":
                yield text_of(target)
        yield from _assigned(child)


def _leaves_early(node: Node) -> bool:
    leaving = ("break_statement", "continue_statement", "return_statement")
    return any(n.type in leaving for n in _nodes(node))


def _comment_lines(node: Node) -> list[str]:
    text = text_of(node)
    text = text[2:-2] if text.startswith("/*") else text[2:]
    return [line for line in (raw.strip().lstrip("*").strip() for raw in text.splitlines()) if line]

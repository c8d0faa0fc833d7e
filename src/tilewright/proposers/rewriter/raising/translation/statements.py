"""Translates statements and declarations of variables."""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from tilewright.proposers.c.syntax import TELLS, descendants, text_of
from tilewright.proposers.rewriter.raising.translation.expressions import Expressions
from tilewright.proposers.rewriter.raising.translation.parts import (
    OWN,
    SPACING,
    Own,
    Place,
    Untranslated,
    field_of,
)
from tilewright.proposers.rewriter.raising.types import (
    Elements,
    Number,
    Structure,
    Type,
    size_of,
)

_IFS = 8
"""The most `if` statements that are read as one value, because what follows them is translated once
for each of their ways.
"""


class Statements(Expressions):
    """Translates C statements to Python statements."""

    def _block(self, node: Node) -> None:
        self.scopes.append({})
        before = len(self.lines)
        for number, child in enumerate(node.named_children):
            if child.type == "if_statement" and self.data and self.result is not None:
                rest = node.named_children[number:]
                is_short = (
                    sum(n.type == "if_statement" for r in rest for n in descendants(r)) < _IFS
                )
                result = self._returned(rest, self.result) if is_short else None
                if result is not None:
                    self._put(child, f"return {result}")
                    break
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
                kind = self.type_of(field_of(node, "type"), allow_void=True)
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
                raise Untranslated(node, f"this {node.type.replace('_', ' ')} is not supported")

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
            name = text_of(field_of(node, "function"))
            if name in TELLS:
                return
        self._put(node, self.value(node)[0])

    def _if(self, node: Node) -> None:
        test = node.child_by_field_name("condition")
        assert test is not None
        if self.data and (made := self._assigned(node)) is not None:
            self._put(node, f"{made[0].code} = {made[1]}")
            return
        self._put(node, f"if {self.truth(test)}:")
        self._indented(field_of(node, "consequence"))
        other = node.child_by_field_name("alternative")
        if other is not None:
            self._put(other, "else:")
            inner = [c for c in other.named_children if c.type != "comment"]
            self._indented(inner[0] if other.type == "else_clause" else other)

    def _returned(self, nodes: Sequence[Node], kind: Type) -> str | None:
        """The value that `if (..) return ..; .. return ..;` returns; None for other statements."""
        if not nodes:
            return None
        first, *rest = nodes
        given = [c for c in first.named_children if c.type != "comment"]
        match first.type:
            case "comment":
                return self._returned(rest, kind)
            case "compound_statement" | "else_clause":
                return self._returned([*given, *rest], kind)
            case "return_statement" if given:
                return self.converted(*self.value(given[0]), kind, first)
            case "if_statement":
                other = first.child_by_field_name("alternative")
                yes = self._returned([field_of(first, "consequence"), *rest], kind)
                if yes is None:
                    return None
                no = self._returned(rest if other is None else [other, *rest], kind)
                if no is not None:
                    return self._chosen(self.truth(field_of(first, "condition")), yes, no)
        return None

    def _assigned(self, node: Node) -> tuple[Place, str] | None:
        """What `if (..) v = ..; else ..` assigns to a variable; None for everything else."""
        while node.type in ("compound_statement", "else_clause", "expression_statement"):
            inner = [c for c in node.named_children if c.type != "comment"]
            if len(inner) != 1:
                return None
            node = inner[0]
        if node.type == "if_statement":
            first = self._assigned(field_of(node, "consequence"))
            last = node.child_by_field_name("alternative")
            other = (first and (first[0], first[0].code)) if last is None else self._assigned(last)
            if first is None or other is None or first[0] != other[0]:
                return None
            test = self.truth(field_of(node, "condition"))
            return first[0], self._chosen(test, first[1], other[1])
        if node.type != "assignment_expression" or field_of(node, "left").type != "identifier":
            return None
        place = self.place(field_of(node, "left"))
        if place.in_memory or text_of(field_of(node, "operator")) != "=":
            return None
        value, kind = self.value(field_of(node, "right"))
        return place, self.converted(value, kind, place.kind, node)

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
        self._indented(field_of(node, "body"))
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
            raise Untranslated(node, "continue inside a switch statement is not supported")
        self._next_iteration(node)
        self._put(node, "continue")

    def _switch(self, node: Node) -> None:
        self.serial += 1
        value = f"s{self.serial}"
        code, _ = self.value(field_of(node, "condition"))
        cases = [c for c in field_of(node, "body").named_children if c.type == "case_statement"]
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

    def _declare(
        self, item: Node, kind: Type | None, *, static: bool = False, constant: bool = False
    ) -> None:
        value = item.child_by_field_name("value") if item.type == "init_declarator" else None
        name, full = self.declared(item, kind)
        if full is None:
            raise Untranslated(item, "a variable has no type")
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
            number = self.static_lines
            lines, self.lines = self.lines[number:], self.lines[:number]
            origins, self.origins = self.origins[number:], self.origins[:number]
        own = self._own(name, full, static=static, constant=value is not None and constant)
        self._put(item, f"{place.code} = {own or f'allocate({size_of(full)})'}")
        if value is not None or (static and not own):
            self._put(item, f"clear({place.code}, {size_of(full)})")
        if value is not None:
            self._initialise(value, place)
        if static:
            self.depth, self.static_lines = depth, len(self.lines)
            self.lines, self.origins = self.lines + lines, self.origins + origins

    def _own(self, name: str, kind: Type, *, static: bool, constant: bool) -> int:
        """The address of an array of numbers that exists once; 0 for all others."""
        if not (static or self.runs_once):
            return 0
        shape, of = list[int](), kind
        while isinstance(of, Elements):
            shape, of = [*shape, of.count], of.of
        if not shape or not all(shape) or not isinstance(of, Number):
            return 0
        outside = len(self.scopes) == 1
        self.own.append(Own(name, of, tuple(shape), static, outside, outside and constant))
        return OWN + (len(self.own) - 1) * SPACING

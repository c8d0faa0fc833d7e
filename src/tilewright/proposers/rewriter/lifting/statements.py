"""Converts C statements to loop IR by symbolic execution.

Supported are counted loops of any form, comparisons as guards, calls of commands, and local
variables. Local variables are replaced by the expressions for their values: constants, addresses,
pointers into argument arrays, and values that change from iteration to iteration in a countable
way. Calls of the file's own functions are inlined. Everything else becomes `Opaque` text with the
reason. A statement is converted completely or not at all.
"""

from __future__ import annotations

from dataclasses import replace

from tree_sitter import Node

from tilewright.proposers.c.syntax import (
    LOOPS,
    comment_lines,
    is_skip,
    jumped_over,
    leaves_early,
    text_of,
)
from tilewright.proposers.c.unroll_hints import times
from tilewright.proposers.rewriter.analysis.ranges import with_notes
from tilewright.proposers.rewriter.ir import Body, Command, Loop, Opaque, Stmt
from tilewright.proposers.rewriter.lifting.calls import Calls
from tilewright.proposers.rewriter.lifting.constants import declare_enumerators
from tilewright.proposers.rewriter.lifting.loops import Loops
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled
from tilewright.proposers.rewriter.lifting.variables import Variables


class Lifter(Variables, Calls, Loops):
    """Lifts the statements of one function, one after the other."""

    def function_body(self, block: Node) -> Body:
        """The statements of the kernel."""
        self._unmodelled = self.pinned & self._assigned(block)
        return self._block(block.named_children, self.outermost.inner())

    def _block(self, statements: list[Node], scope: Scope) -> Body:
        result: list[Stmt] = []
        notes: list[str] = []
        last_line = -1
        jumping = jumped_over(statements)
        for number, node in enumerate(statements):
            if is_skip(node):
                rest = self._unless_skipped(node, statements[number + 1 :], scope)
                return (*result, *with_notes(rest, tuple(notes)))
            if node in jumping:
                if node == jumping[0]:
                    result.append(self._jumps(jumping))
                continue
            if node.type == "comment":
                lines = comment_lines(node)
                after_it = node.start_point[0] == last_line and len(lines) == 1
                if after_it and result and isinstance(result[-1], Command):
                    result[-1] = replace(result[-1], trailing=lines[0])
                else:
                    notes.extend(lines)
                continue
            last_line = node.end_point[0]
            stmts = self._statement(node, scope)
            result.extend(with_notes(stmts, tuple(notes)))
            notes = [] if stmts else notes
        return tuple(result)

    def _jumps(self, nodes: list[Node]) -> Opaque:
        """The statements that jumps may repeat or skip, as one text."""
        parts = [self._opaque(node, "goto decides which of these statements run") for node in nodes]
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
                case kind if kind in LOOPS:
                    return self._loop(node, scope)
                case "attributed_statement":
                    return self._attributed(node, scope)
                case "if_statement":
                    return self._guard(node, scope)
                case "switch_statement":
                    return self._switch(node, scope)
                case "compound_statement":
                    return self._flattened(node, scope)
                case "enum_specifier":
                    declare_enumerators(node, self._reader(scope))
                    return ()
                case ";":
                    return ()
                case _:
                    raise NotModelled(f"this {node.type.replace('_', ' ')} is not supported")
        except NotModelled as reason:
            return (self._opaque(node, str(reason)),)

    def _attributed(self, node: Node, scope: Scope) -> Body:
        """A loop that the compiler should unroll."""
        *attributes, loop = (n for n in node.named_children if n.type != "comment")
        hints = [times(text_of(attribute)) for attribute in attributes]
        if not all(hints) or loop.type not in LOOPS:
            raise NotModelled("this attribute is not supported")
        stmts = self._loop(loop, scope)
        return tuple(replace(s, hint=hints[-1]) if isinstance(s, Loop) else s for s in stmts)

    def _flattened(self, node: Node, scope: Scope) -> Body:
        """A block without its braces, which only text with variables of its own needs."""
        if leaves_early(node):
            raise NotModelled("a block contains break, continue, return or goto")
        stmts = self._block(node.named_children, scope.inner())
        if any(isinstance(s, Opaque) for s in stmts):
            raise NotModelled("a block contains unrecognised code")
        return stmts

"""The state that the parts of the lifter share, and the methods with which they call one
another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from tree_sitter import Node

from tilewright.proposers.c.syntax import assigned, calls, identifiers, text_of
from tilewright.proposers.c.unroll_hints import as_pragmas
from tilewright.proposers.rewriter.expr import Atom, Expr
from tilewright.proposers.rewriter.ir import Body, Opaque
from tilewright.proposers.rewriter.lifting.braces import initial
from tilewright.proposers.rewriter.lifting.scope import Scope
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled, Pointer, Value
from tilewright.proposers.rewriter.lifting.values import Reader
from tilewright.proposers.rewriter.machine import Machine


@dataclass
class Lifting(ABC):
    """Lifts one function. `dropped` collects local variables that were replaced by their values.

    `pinned` are local variables that text mentions. They stay declared, and if they change, all
    their assignments stay text. `reasons` contains, by position in the source, why something first
    became text. `_placed` contains where each array of the function is declared.
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
    _placed: dict[str, int] = field(default_factory=dict)
    _serial: int = 0
    _iterations: int = 0

    @abstractmethod
    def _statement(self, node: Node, scope: Scope) -> Body:
        """Statements for one node, in a scope that declarations and assignments change."""

    @abstractmethod
    def _block(self, statements: list[Node], scope: Scope) -> Body:
        """The statements for neighbouring nodes."""

    @abstractmethod
    def _flattened(self, node: Node, scope: Scope) -> Body:
        """A block without its braces, which are needed only if text declares variables."""

    @abstractmethod
    def _declare(self, item: Node, kind: str, scope: Scope) -> None:
        """One declared variable."""

    @abstractmethod
    def _expression(self, node: Node, scope: Scope) -> Body:
        """A call, or an assignment to a variable or an element."""

    @abstractmethod
    def _call(self, call: Node, scope: Scope) -> Body:
        """The command a call issues, or the statements of the function it calls."""

    @abstractmethod
    def _called_value(self, call: Node, scope: Scope) -> Value:
        """The return value of a call of one of the file's own functions."""

    def _branch(self, node: Node, scope: Scope) -> Body:
        """The statements of a block, or a single statement, which may run several times or not at
        all."""
        if node.type == "compound_statement":
            return self._block(node.named_children, scope.inner())
        return self._statement(node, scope.inner())

    def _assigned(self, node: Node) -> frozenset[str]:
        return assigned(node, self._known)

    def _reader(self, scope: Scope) -> Reader:
        return Reader(self.machine, scope, self._called_value, braces=_braces)

    def _opaque(self, node: Node, reason: str) -> Opaque:
        if self._calls:  # the names in this text have no meaning outside its function
            place = f"{self._calls[-1]} is called, and in it "
            raise NotModelled(reason if reason.startswith(place) else place + reason)
        names = frozenset(identifiers(node))
        if names & self.outermost.functions.keys() or any(calls(node)):  # they may use them
            names |= {a.name for a in self.outermost.arrays.values() if a.outside}
        reason = self.reasons.setdefault((node.start_byte, node.end_byte), reason)
        result = Opaque(as_pragmas(text_of(node)), names, reason, line=node.start_point[0] + 1)
        self._writes[result] = self._assigned(node)
        return result

    def _remember(self, name: str, value: Value | None) -> None:
        """Record the author's name for an expression, for printing it again."""
        if isinstance(value, Expr) and len(value.terms) == 1 and value.const == 0:
            atom, coefficient = value.terms[0]
            if coefficient == 1:
                self.names.setdefault(atom, name)


def _braces(reader: Reader, kind: str, given: Node) -> Value:
    return initial(reader, kind, [], given)


def fits(value: Pointer, sizes: list[Node | None]) -> bool:
    """Whether a variable that points to this number of dimensions may have a pointer as its
    value."""
    return value.axis is None or len(value.index) - value.axis == len(sizes)

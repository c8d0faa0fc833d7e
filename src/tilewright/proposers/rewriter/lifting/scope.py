"""The variables in scope while a kernel is lifted, and their values.

A scope shares the values of its variables with the enclosing scopes, so that an assignment changes
the variable that it names. `branch` returns a copy for one branch of an `if`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from tilewright.proposers.rewriter.expr import Bounds
from tilewright.proposers.rewriter.ir import Array, Condition
from tilewright.proposers.rewriter.lifting.choice import choice
from tilewright.proposers.rewriter.lifting.narrow_integers import stored
from tilewright.proposers.rewriter.lifting.symbolic_values import NotModelled, Value


@dataclass
class Scope:
    """Names in scope. `slots` maps a name to a variable, and `state` a variable to its present
    value.

    `records` contains the fields of each structure type with their types, `kinds` the types of
    variables whose numbers may wrap around, and `ranges` the smallest and largest values of the
    enclosing loops.
    """

    arrays: dict[str, Array]
    functions: Mapping[str, Node] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    slots: dict[str, int] = field(default_factory=dict)
    state: dict[int, Value] = field(default_factory=dict)
    loops: frozenset[str] = frozenset()
    count: list[int] = field(default_factory=lambda: [0])
    kinds: dict[int, str] = field(default_factory=dict)
    ranges: Mapping[str, Bounds] = field(default_factory=dict)

    def inner(self) -> Scope:
        """A nested scope, whose declarations are not visible outside."""
        return replace(self, slots=dict(self.slots))

    def branch(self) -> Scope:
        """A nested scope with its own values."""
        return replace(self, slots=dict(self.slots), state=dict(self.state))

    def function(self, outermost: Scope) -> Scope:
        """The scope of a called function: names of the file, values of the caller."""
        return replace(self, slots=dict(outermost.slots))

    def declare(self, name: str, value: Value | None, kind: str = "") -> None:
        """Declare a variable, of this integer type if one is given. It may have no value yet."""
        self.count[0] += 1
        self.slots[name] = self.count[0]
        if kind:
            self.kinds[self.count[0]] = kind
        if value is not None:
            self.state[self.count[0]] = stored(kind, value, self.ranges)

    def kind(self, name: str) -> str:
        """The type of a variable; empty if it is not known."""
        return self.kinds.get(self.slots.get(name, 0), "")

    def get(self, name: str) -> Value | None:
        """The value of a variable; None if there is no such variable or its value is not known."""
        slot = self.slots.get(name)
        return None if slot is None else self.state.get(slot)

    def assign(self, name: str, value: Value) -> None:
        """A new value for a declared variable."""
        if name not in self.slots:
            raise NotModelled(f"{name} is assigned, but not declared as a variable")
        self.state[self.slots[name]] = stored(self.kind(name), value, self.ranges)

    def take(self, other: Scope) -> None:
        """Replace the values by those of a copy of this scope."""
        self.state.clear()
        self.state.update(other.state)

    def merge(self, condition: Condition, yes: Scope, no: Scope) -> None:
        """Set the values after an `if`. A variable whose value cannot be expressed becomes
        unknown."""
        for slot in list(self.state):
            first, second = yes.state.get(slot), no.state.get(slot)
            if first is None or second is None:
                del self.state[slot]
                continue
            try:
                self.state[slot] = choice(condition, first, second)
            except NotModelled:
                del self.state[slot]

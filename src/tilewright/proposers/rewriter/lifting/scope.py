"""The variables in scope while a kernel is lifted, and what each of them holds.

A scope shares its variables' values with the scopes around it, so that an assignment reaches the
variable it means; `branch` gives a copy for one side of an `if`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from tilewright.proposers.rewriter.expr import Bounds
from tilewright.proposers.rewriter.ir import Array, Condition
from tilewright.proposers.rewriter.lifting.choice import choice
from tilewright.proposers.rewriter.lifting.kinds import NotModelled, Value
from tilewright.proposers.rewriter.lifting.narrow import is_narrow, stored


@dataclass
class Scope:
    """Names in scope. `slots` says which variable a name means, `state` what each holds now.

    `records` has the fields of each structure type with their types, `kinds` the types of the
    variables whose numbers may wrap, `ranges` the least and largest values of the loops around.
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
        """A nested scope; what is declared there does not leave it."""
        return replace(self, slots=dict(self.slots))

    def branch(self) -> Scope:
        """A nested scope with values of its own."""
        return replace(self, slots=dict(self.slots), state=dict(self.state))

    def function(self, outermost: Scope) -> Scope:
        """The scope of a called function: names of the file, values of the caller."""
        return replace(self, slots=dict(outermost.slots))

    def declare(self, name: str, value: Value | None, kind: str = "") -> None:
        """A new variable, of integers of this type if one is named; it may not have a value yet."""
        self.count[0] += 1
        self.slots[name] = self.count[0]
        if is_narrow(kind):
            self.kinds[self.count[0]] = kind
        if value is not None:
            self.state[self.count[0]] = stored(kind, value, self.ranges)

    def kind(self, name: str) -> str:
        """The type of a variable whose numbers may wrap, or nothing."""
        return self.kinds.get(self.slots.get(name, 0), "")

    def get(self, name: str) -> Value | None:
        """What a variable holds; None if there is none or its value is not known."""
        slot = self.slots.get(name)
        return None if slot is None else self.state.get(slot)

    def assign(self, name: str, value: Value) -> None:
        """A new value for a declared variable."""
        if name not in self.slots:
            raise NotModelled(f"assignment to {name}, which is not declared here")
        self.state[self.slots[name]] = stored(self.kind(name), value, self.ranges)

    def take(self, other: Scope) -> None:
        """The values of a copy of this scope that turned out to be the ones to go on with."""
        self.state.clear()
        self.state.update(other.state)

    def merge(self, condition: Condition, yes: Scope, no: Scope) -> None:
        """The values after an `if`; a variable whose value no expression holds is forgotten."""
        for slot in list(self.state):
            first, second = yes.state.get(slot), no.state.get(slot)
            if first is None or second is None:
                del self.state[slot]
                continue
            try:
                self.state[slot] = choice(condition, first, second)
            except NotModelled:
                del self.state[slot]

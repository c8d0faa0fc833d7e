"""Change the dataflow: sums that stay in the array are moved to local memory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import Env, at_value, decide
from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Compare,
    Flag,
    Guard,
    Kernel,
    Local,
    Loop,
    Operand,
    Stmt,
    Text,
    commands,
    has_opaque,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine

MOST_TESTED = 4096
"""Maximum number of iterations of a loop for which a test is evaluated one by one."""


def sum_in_memory(kernel: Kernel, machine: Machine) -> Kernel:
    """Latch the second factor of every product, and let products add to the local rows of their
    sum.

    Before: `for k { latch(NONE, k == last ? sum : NONE); k == 0 ? use(a, b) : again(a, b); }`
    After:  `for k { latch(b, sum | (k > 0 ? ACCUMULATE : 0)); use(a, NONE); }`

    Factors may then be shared by neighbouring products, and products of several sums take turns.
    Legal if one setting applies to the whole kernel, every sum begins with nothing and is moved out
    once, and every sum is stored with a scale of 1: sums that leave the array may be narrower.
    While a sum is being accumulated, nothing else may use the local memory of sums, because every
    product now writes to it.
    """
    setting = _setting(kernel, machine)
    if has_opaque(kernel.body):
        raise NotApplicable("unrecognised code may use the array")
    sums = _Sums(machine)
    sums.scan(kernel.body)
    if not sums.changed:
        raise NotApplicable("no sum stays in the array")
    sums.changed[setting] = _other(setting, machine)
    return kernel.with_body(
        rebuilt(kernel.body, lambda s: (sums.changed[s],) if s in sums.changed else None)
    )


def _setting(kernel: Kernel, machine: Machine) -> Command:
    """The single command that keeps sums in the array; `NotApplicable` if there is none."""
    found = [c for c in commands(kernel.body) if machine.attribute(c.name, "sums_in_array")]
    if len(found) != 1 or found[0] not in kernel.body:
        raise NotApplicable("no single setting determines where sums stay")
    setting = found[0]
    kind, plain = machine.attribute(setting.name, "sums_in_array"), machine.effects[setting.name]
    if kind is None or setting.operands[_dataflow(setting, machine)] not in (
        Text(kind),
        Expr(machine.constants[kind]),
    ):
        raise NotApplicable("sums do not stay in the array")
    for role in plain.attributes.get("untransposed", "").split():
        if setting.operands[plain.operands.index(role)] != Expr(0):
            raise NotApplicable(f"{role} is set")
    unscaled = machine.flag("unscaled")
    for store in (c for c in commands(kernel.body) if machine.unit(c.name) == "store"):
        if any(
            isinstance(o, Local) and any(f.name == unscaled for f in o.flags)
            for o in store.operands
        ):
            raise NotApplicable("sums are stored unscaled, but the array has narrowed them")
        if any(not _is_one(scale) for scale in _scales(kernel, machine, store)):
            raise NotApplicable("sums are stored with a scale, but the array has narrowed them")
    return setting


def _scales(kernel: Kernel, machine: Machine, store: Command) -> list[Operand]:
    """The scales that stores may have."""
    configured = machine.attribute(store.name, "configured_by")
    found = [c.operands for c in commands(kernel.body) if c.name == configured]
    at = machine.effects[configured].operands.index("scale") if configured else 0
    return [operands[at] for operands in found if len(operands) > at]


def _is_one(scale: Operand) -> bool:
    if isinstance(scale, Text):
        with suppress(ValueError):
            return float(scale.text.rstrip("fF")) == 1.0
    return scale == Expr(1)


def _dataflow(setting: Command, machine: Machine) -> int:
    return machine.operands(setting.name, "dataflow")[0]


def _other(setting: Command, machine: Machine) -> Command:
    name, position = machine.attribute(setting.name, "sums_in_memory"), _dataflow(setting, machine)
    assert name is not None
    operands = list(setting.operands)
    operands[position] = Text(name)
    return replace(setting, operands=tuple(operands))


@dataclass(frozen=True, slots=True)
class _Part:
    """One product of a sum, and the loop in whose first iteration it begins the sum, if any."""

    latch: Stmt
    use: Stmt
    begins: bool
    loop: Loop | None


@dataclass
class _Sums:
    """Follows the products of a kernel in order. `changed` contains the replacements of
    statements."""

    machine: Machine
    changed: dict[Stmt, Command] = field(default_factory=dict)
    _open: list[_Part] = field(default_factory=list)
    _moved: set[str] = field(default_factory=set)  # memories that moves use while a sum is open

    def scan(self, body: Body, loop: Loop | None = None) -> None:
        """Process the products of a body; `loop` is the enclosing loop whose iterations share a
        sum."""
        latch: Stmt | None = None
        for stmt in body:
            if all(self.machine.unit(c.name) != "execute" for c in commands((stmt,))):
                if latch is not None or self._open:
                    self._moved |= self._moved_by(stmt)
                continue
            if loop is None and latch is None and not self._open:
                self._moved.clear()
            if latch is None and self._is(stmt, "latches"):
                latch = stmt
            elif latch is not None and self._is(stmt, "uses"):
                self._product(latch, stmt, loop)
                latch = None
            elif isinstance(stmt, Loop) and latch is None and loop is None:
                shared = self._shares_a_sum(stmt)
                if self._open and not shared:
                    raise NotApplicable("a sum contains a loop that computes other sums")
                if shared:
                    self._moved |= self._moved_by(stmt)
                self.scan(stmt.body, stmt if shared else None)
            else:
                raise NotApplicable("the operands of some products are not known")
        if latch is not None or (loop is None and self._open):
            raise NotApplicable("a sum does not leave the array in the block in which it began")

    def _moved_by(self, stmt: Stmt) -> set[str]:
        """The memories that the loads and stores of a statement use."""
        moves = (c for c in commands((stmt,)) if self.machine.unit(c.name) != "execute")
        return {o.space for c in moves for o in c.operands if isinstance(o, Local)}

    def _shares_a_sum(self, loop: Loop) -> bool:
        """Whether a loop's own products do not begin a sum in each of its iterations."""
        uses = [s for s in loop.body if self._is(s, "uses")]
        return bool(uses) and all(any(self._keeps(c) for c in _ways(use)) for use in uses)

    def _is(self, stmt: Stmt, attribute: str) -> bool:
        """Whether a statement is a command of a kind, or a choice between two such commands."""
        ways = _ways(stmt)
        return bool(ways) and all(self.machine.attribute(c.name, attribute) for c in ways)

    def _keeps(self, use: Command) -> bool:
        return self.machine.attribute(use.name, "keeps") is not None

    def _product(self, latch: Stmt, use: Stmt, loop: Loop | None) -> None:
        ways = _ways(use)
        if any(c.operands != ways[0].operands for c in ways):
            raise NotApplicable("the variants of a product have different factors")
        begins = self._only(use, [not self._keeps(c) for c in ways], loop, first=True)
        if bool(self._open) == begins:
            raise NotApplicable("a sum does not begin at exactly one place")
        self._open.append(_Part(latch, use, begins, loop))
        out = self._moved_out(latch, loop)
        if out is not None:
            for part in self._open:
                self.changed[part.latch], self.changed[part.use] = self._in_memory(part, out)
            self._open.clear()

    def _moved_out(self, latch: Stmt, loop: Loop | None) -> Command | None:
        """The command that gives the destination of the sum, if the sum is moved out here."""
        ways = _ways(latch)
        reads, writes = self.machine.local_operands(ways[0].name)
        if any(isinstance(c.operands[reads], Local) for c in ways):
            raise NotApplicable("a sum does not begin with zero")
        named = [isinstance(c.operands[writes], Local) for c in ways]
        if not self._only(latch, named, loop, first=False):
            return None
        out = ways[named.index(True)]
        if loop is None:
            return out
        (last,) = at_value((out,), loop.var, Expr(_values(loop)[-1]))
        assert isinstance(last, Command)
        return last

    def _only(self, stmt: Stmt, which: list[bool], loop: Loop | None, *, first: bool) -> bool:
        """Whether the marked branch is taken only in a loop's first or last iteration."""
        if not any(which):
            return False
        if loop is None:
            if len(which) == 1:
                return True
            raise NotApplicable("a product depends on a test")
        values = _values(loop)
        taken = [which[0] if _holds(stmt, {loop.var: (v, v)}) else which[-1] for v in values]
        if taken.count(True) != 1 or not taken[0 if first else -1]:
            raise NotApplicable("a sum begins or ends inside a loop")
        return True

    def _in_memory(self, part: _Part, out: Command) -> tuple[Command, Command]:
        """The product with its second factor latched, whose result is added to the sum's rows."""
        machine, use = self.machine, _ways(part.use)[0]
        reads, writes = machine.local_operands(out.name)
        first, second = machine.local_operands(use.name)
        target, left, right = out.operands[writes], use.operands[first], use.operands[second]
        add, absent = machine.flag("accumulate"), machine.flag("absent")
        if not isinstance(target, Local) or not isinstance(left, Local) or not add or not absent:
            raise NotApplicable("the target has no local memory for sums")
        if target.space == left.space:
            raise NotApplicable(f"rows of {target.space} cannot contain sums")
        if target.space in self._moved:
            raise NotApplicable("sums in memory are moved before the next one is complete")
        if all(f.name != add for f in target.flags) and not (part.begins and part.loop is None):
            begun = () if not part.begins else (_after_first(part.loop),)
            target = replace(target, flags=(*target.flags, Flag(add, begun)))
        latch = list(out.operands)
        latch[reads], latch[writes] = right, target
        for axis in ("columns", "rows"):
            into, extent = (
                machine.extent(out.name, reads, axis),
                machine.extent(use.name, second, axis),
            )
            if into is not None and extent is not None:
                latch[into] = use.operands[extent]
        again = list(use.operands)
        again[second] = Text(absent)
        plain = next(
            name
            for name in machine.effects
            if machine.attribute(name, "uses") and not machine.attribute(name, "keeps")
        )
        return replace(out, operands=tuple(latch)), replace(use, name=plain, operands=tuple(again))


def _ways(stmt: Stmt) -> list[Command]:
    """The command of a statement, or the two commands of which a test chooses one."""
    if isinstance(stmt, Command):
        return [stmt]
    if isinstance(stmt, Guard) and len(stmt.body) == len(stmt.orelse) == 1:
        return [s for s in (*stmt.body, *stmt.orelse) if isinstance(s, Command)]
    return []


def _holds(stmt: Stmt, env: Env) -> bool:
    verdict = decide(stmt.condition, env)[0] if isinstance(stmt, Guard) else True
    if verdict is None:
        raise NotApplicable("a test depends on more than the variable of its loop")
    return verdict


def _values(loop: Loop) -> range:
    if not (loop.lower.is_const and loop.upper.is_const):
        raise NotApplicable(f"the number of iterations of loop {loop.var} varies")
    values = range(loop.lower.const, loop.upper.const, loop.step)
    if not 0 < len(values) <= MOST_TESTED:
        raise NotApplicable(f"loop {loop.var} has too many iterations to follow")
    return values


def _after_first(loop: Loop | None) -> Compare:
    assert loop is not None
    return Compare(">", var(loop.var), loop.lower)

"""Lets products use an operand that is already in the array."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import (
    at_value,
    env_of,
    labelled_loops,
    simplify,
    trips,
    with_notes,
)
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Guard,
    Kernel,
    Local,
    Loop,
    Operand,
    Stmt,
    Text,
    expressions,
    same_code,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.loops import tail_first


def reuse_latched(kernel: Kernel, machine: Machine) -> Kernel:
    """Let products use the operand that the previous product left in the array.

    Before: `latch(B, C0); product(A0); latch(B, C1); product(A1);`
    After:  `latch(B, C0); product(A0); latch(none, C1); keeping_product(A1);`
    Before: `for i { latch(B, C(i)); product(A(i)); }`
    After:  `latch(B, C(0)); product(A(0));  for (i = 16; ..) { latch(none, C(i)); .. }`

    A partial last iteration is moved to the front if the order does not matter (`tail_first`).
    Legal if nothing between the two products latches another operand, changes the array's settings
    or writes the rows of this operand. The first product in a loop is unchanged.
    """
    kept = _Names.of(machine)
    start = kernel
    for label in [label for label, s, _ in labelled_loops(kernel.body) if _is_repeated(s, machine)]:
        loop = next(s for found, s, _ in labelled_loops(kernel.body) if found == label)
        with suppress(NotApplicable):
            kernel = simplify(tail_first(kernel, machine, loop))
    body = _straight(kernel.body, machine, kept)
    body = _repeated(body, (), machine, kept)
    if same_code(body, kernel.body):
        raise NotApplicable("no product follows one with the same latched operand")
    return start.with_body(body)


@dataclass(frozen=True, slots=True)
class _Names:
    """The machine's product that keeps the latched operand, and its notation for no operand."""

    product: str
    absent: Text

    @classmethod
    def of(cls, machine: Machine) -> _Names:
        keeping = [n for n in machine.effects if machine.attribute(n, "keeps")]
        absent = machine.flag("absent")
        if not keeping or absent is None:
            raise NotApplicable("the target has no product that keeps its latched operand")
        return cls(keeping[0], Text(absent))


def _straight(body: Body, machine: Machine, kept: _Names) -> Body:
    """Applies to each sequence of consecutive products, in which the latched operand is known."""
    result: list[Stmt] = []
    latched: tuple[Operand, ...] | None = None
    for stmt in body:
        latch = result[-1] if result else None
        if _is_pair(latch, stmt, machine):
            assert isinstance(latch, Command)
            assert isinstance(stmt, Command)
            operand = _latched(latch, machine)
            if operand == latched:
                result[-1:] = _reusing(latch, stmt, machine, kept)
            else:
                result.append(stmt)
            latched = operand
            continue
        if not _is_latch(stmt, machine) or _is_latch(latch, machine):
            latched = None
        result.append(_inside(stmt, machine, kept))
    return tuple(result)


def _inside(stmt: Stmt, machine: Machine, kept: _Names) -> Stmt:
    if isinstance(stmt, Loop):
        return replace(stmt, body=_straight(stmt.body, machine, kept))
    if isinstance(stmt, Guard):
        yes, no = (_straight(b, machine, kept) for b in (stmt.body, stmt.orelse))
        return replace(stmt, body=yes, orelse=no)
    return stmt


def _repeated(body: Body, above: Body, machine: Machine, kept: _Names) -> Body:
    """Applies to loops of one product whose latched operand does not change, in all iterations
    except the first."""
    result: list[Stmt] = []
    for stmt in body:
        inside = (*above, stmt)
        if isinstance(stmt, Loop) and _is_repeated(stmt, machine):
            result.extend(
                _after_first(stmt, result[-2:], trips(stmt, env_of(above))[0], machine, kept)
            )
        elif isinstance(stmt, Loop):
            result.append(replace(stmt, body=_repeated(stmt.body, inside, machine, kept)))
        elif isinstance(stmt, Guard):
            yes, no = (_repeated(b, inside, machine, kept) for b in (stmt.body, stmt.orelse))
            result.append(replace(stmt, body=yes, orelse=no))
        else:
            result.append(stmt)
    return tuple(result)


def _after_first(
    loop: Loop, before: list[Stmt], fewest: float, machine: Machine, kept: _Names
) -> Body:
    """A loop of one product whose operand was latched by the product before it, or by its first
    iteration."""
    latch, product = loop.body
    assert isinstance(latch, Command)
    assert isinstance(product, Command)
    later = replace(loop, body=_reusing(latch, product, machine, kept))
    if len(before) == 2 and _is_pair(before[0], before[1], machine):
        earlier = before[0]
        assert isinstance(earlier, Command)
        if _latched(earlier, machine) == _latched(latch, machine):
            return (later,)
    if fewest < 2:
        return (loop,)
    first = with_notes(at_value(loop.body, loop.var, loop.lower), loop.notes)
    return (*first, replace(later, lower=loop.lower + loop.step, notes=()))


def _is_repeated(loop: Loop, machine: Machine) -> bool:
    """Whether a loop consists of one product that latches the same operand in every iteration."""
    if len(loop.body) != 2 or not _is_pair(loop.body[0], loop.body[1], machine):
        return False
    latch = loop.body[0]
    assert isinstance(latch, Command)
    fixed = [e for o in _latched(latch, machine) for e in expressions(o)]
    return not any(loop.var in e.names() for e in fixed)


def _is_pair(latch: Stmt | None, product: Stmt | None, machine: Machine) -> bool:
    """Whether two adjacent commands form one product that latches a block of rows and does not
    write it."""
    if not (isinstance(latch, Command) and _is_latch(latch, machine)):
        return False
    if not (isinstance(product, Command) and machine.attribute(product.name, "uses")):
        return False
    operand = _latched(latch, machine)[0]
    written = [latch.operands[i] for i in machine.operands(latch.name, "local_write")]
    return isinstance(operand, Local) and all(
        isinstance(w, Local) and w.space != operand.space for w in written
    )


def _is_latch(stmt: Stmt | None, machine: Machine) -> bool:
    return isinstance(stmt, Command) and machine.attribute(stmt.name, "latches") is not None


def _latched(latch: Command, machine: Machine) -> tuple[Operand, ...]:
    """The address of the latched operand and its extents."""
    position = machine.operands(latch.name, "local_read")[0]
    extents = (machine.extent(latch.name, position, axis) for axis in ("columns", "rows"))
    return (latch.operands[position], *(latch.operands[e] for e in extents if e is not None))


def _reusing(latch: Command, product: Command, machine: Machine, kept: _Names) -> Body:
    """A latch command that only names the destination, and the product that keeps its operand."""
    operands = list(latch.operands)
    operands[machine.operands(latch.name, "local_read")[0]] = kept.absent
    return (
        replace(latch, operands=tuple(operands), notes=()),
        replace(product, name=kept.product, notes=()),
    )

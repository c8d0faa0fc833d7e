"""Removes fences that no access needs. They are found by following every access of the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, check_all_commands_known
from tilewright.proposers.rewriter.analysis.ranges import decide, trips
from tilewright.proposers.rewriter.analysis.sections import (
    Section,
    core_parts,
    is_core_loop,
    section_of,
)
from tilewright.proposers.rewriter.analysis.settings import resolved
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Guard,
    Kernel,
    Loop,
    Stmt,
    commands,
    map_expressions,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.redundant_commands import last_fences, remove_fences

LONGEST = 20_000
"""Maximum number of commands of a kernel that is followed access by access."""


def spare_fences(kernel: Kernel, machine: Machine) -> Kernel:
    """Remove fences if every access finds the same data without them.

    Before: `store(u); fence(); load(v); store(w); fence(); load(w);`
    After:  `store(u); load(v); store(w); fence(); load(w);`

    A fence is kept in four cases: a load or the core might otherwise access data before a store has
    written them; data might be overwritten before a load has read them; unrecognised code
    follows; the kernel ends. In kernels that are too long to follow, or whose sizes vary, fences
    are removed only if no load reads data that any store writes (`remove_fences`).
    """
    try:
        return remove_fences(kernel, machine)
    except NotApplicable:
        pass
    originals = [c for c in commands(kernel.body) if machine.unit(c.name) == "sync"]
    candidates = len(originals) - len(last_fences(kernel, machine))
    if candidates <= 0:
        raise NotApplicable("the only fence is the one at the kernel's end")
    free = resolved(kernel, machine)
    fences = [c for c in commands(free.body) if machine.unit(c.name) == "sync"]
    accesses = list(_followed(free, machine))
    kept = set(fences)
    for fence in fences[:candidates]:
        if _is_ordered(accesses, kept - {fence}):
            kept.discard(fence)
    if len(kept) == len(fences):
        raise NotApplicable("every fence is needed")
    spared = {n for n, fence in enumerate(fences) if fence not in kept}
    gone = {c for n, c in enumerate(originals) if n in spared}
    return kernel.with_body(rebuilt(kernel.body, lambda s: () if s in gone else None))


def is_ordered(kernel: Kernel, machine: Machine) -> bool:
    """Whether the fences of a resolved kernel order all accesses that need it; False if not
    known."""
    fences = {c for c in commands(kernel.body) if machine.unit(c.name) == "sync"}
    try:
        return _is_ordered(list(_followed(kernel, machine)), fences)
    except NotApplicable:
        return False


@dataclass(frozen=True, slots=True)
class _Access:
    """One access, or a fence, in the order in which the core issues them."""

    kind: str  # load, store, fence, or an access of the core: reads, writes, or anything (code)
    section: Section | None = None
    fence: Stmt | None = None


@dataclass
class _Pending:
    """Elements of each array that the accelerator may still have to read or write."""

    loads: dict[str, set[int]] = field(default_factory=dict)
    stores: dict[str, set[int]] = field(default_factory=dict)


def _is_ordered(accesses: list[_Access], fences: set[Command]) -> bool:
    """Whether no access conflicts with an earlier one for which it had to wait."""
    pending = _Pending()
    for access in accesses:
        if access.kind == "fence":
            if access.fence in fences:
                pending = _Pending()
            continue
        if access.section is None:
            if pending.loads or pending.stores:
                return False
            continue
        array = access.section.array
        elements = {access.section.start.const + o for o in access.section.offsets}
        if access.kind != "store" and elements & pending.stores.get(array, set()):
            return False
        if access.kind in ("store", "writes") and elements & pending.loads.get(array, set()):
            return False
        if access.kind in ("load", "store"):
            waiting = pending.loads if access.kind == "load" else pending.stores
            waiting.setdefault(array, set()).update(elements)
    return True


def _followed(kernel: Kernel, machine: Machine) -> Iterator[_Access]:
    """Every access of a resolved kernel, in all iterations of its loops."""
    check_all_commands_known(kernel, machine)
    for number, (stmt, values) in enumerate(_issued(kernel.body, {})):
        if number > LONGEST:
            raise NotApplicable("the kernel is too long to follow every access")
        yield from _of_statement(stmt, values, kernel, machine)


def _of_statement(
    stmt: Stmt, values: Mapping[str, Expr], kernel: Kernel, machine: Machine
) -> Iterator[_Access]:
    if isinstance(stmt, Loop):
        reads, writes = core_parts(_with(stmt, values), kernel)
        yield from (_Access("reads", s) for s in reads)
        yield from (_Access("writes", s) for s in writes)
    elif isinstance(stmt, Command):
        unit = machine.unit(stmt.name)
        if unit == "sync":
            yield _Access("fence", fence=stmt)
        elif unit in ("load", "store"):
            moved = _with(stmt, values)
            assert isinstance(moved, Command)
            section = section_of(moved, kernel, machine)
            if section is not None:
                yield _Access(unit, section)
    else:  # code that may access any array
        yield _Access("code")


def _issued(body: Body, values: Mapping[str, Expr]) -> Iterator[tuple[Stmt, Mapping[str, Expr]]]:
    """Statements in the order of execution, with the values of the enclosing loops."""
    for stmt in body:
        if isinstance(stmt, Loop) and not is_core_loop(stmt):
            now = _with(stmt, values)
            assert isinstance(now, Loop)
            fewest, most = trips(now, {})
            if fewest != most or not now.lower.is_const:
                raise NotApplicable(f"the number of iterations of loop {stmt.var} varies")
            for turn in range(int(most)):
                value = now.lower + turn * stmt.step
                yield from _issued(stmt.body, {**values, stmt.var: value})
        elif isinstance(stmt, Guard):
            now = _with(stmt, values)
            assert isinstance(now, Guard)
            verdict, _ = decide(now.condition, {})
            if verdict is None:
                raise NotApplicable("whether a branch is taken is not known")
            yield from _issued(stmt.body if verdict else stmt.orelse, values)
        else:
            yield stmt, values


def _with(stmt: Stmt, values: Mapping[str, Expr]) -> Stmt:
    return map_expressions((stmt,), lambda e: e.substituted(values))[0]

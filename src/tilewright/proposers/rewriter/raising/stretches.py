"""Raises a kernel whose core computes something else than sums: the core's statements are kept, and
each stretch of commands before, between and after them is raised by itself.

Loops of commands in which the core finishes sums are part of a stretch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import groupby

from tilewright.proposers.rewriter.analysis.core_functions import issuing
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import (
    Array,
    Assign,
    Body,
    Command,
    Kernel,
    Opaque,
    Stmt,
    arrays_of,
    commands,
    has_opaque,
    rebuilt,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.core_parts import called, limits, names_of
from tilewright.proposers.rewriter.raising.core_variables import changed_by, declared_in
from tilewright.proposers.rewriter.raising.execute import CORE, Event, NotRaised, Run, executed


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of commands as a kernel of its own, and its run.

    Arrays that other statements use as well are parameters of this kernel. `limits` are the largest
    absolute values of the elements of some of them.
    """

    kernel: Kernel
    run: Run
    limits: Mapping[str, int] = field(default_factory=dict)


def parts(kernel: Kernel, machine: Machine) -> list[Body | Stretch]:
    """The statements of the core, and the stretches of commands, in their order.

    `NotRaised` if commands and other code alternate inside a loop, or if the core's code may issue
    commands.
    """
    unsafe = issuing(kernel.before + kernel.after, machine)
    groups = [(c, tuple(g)) for c, g in groupby(kernel.body, lambda s: _is_core(s, unsafe))]
    if not any(has_opaque(body) for is_core, body in groups if is_core):
        raise NotRaised("the kernel has no statements of the core outside of loops of commands")
    if all(is_core for is_core, _ in groups):
        raise NotRaised("the kernel issues no commands")
    found: list[Body | Stretch] = []
    settings: tuple[tuple[str, Event], ...] = ()
    for number, (is_core, body) in enumerate(groups):
        if is_core:
            found.append(body)
            continue
        before = tuple(s for core, part in groups[:number] if core for s in part)
        others = tuple(s for n, (_, part) in enumerate(groups) if n != number for s in part)
        stretch = _stretch(kernel, body, before, others, machine)
        run = _configured(executed(emit(stretch), machine, data=has_opaque(body)), settings)
        moves = any(machine.unit(name) not in ("config", "sync") for name in run.commands)
        made = Stretch(stretch, run, _limits(kernel, before, machine))
        found.append(made if moves else _fences(body, machine))
        settings = tuple(
            (run.commands[e[0]], e)
            for e in (*run.settings, *run.events)
            if e[0] != CORE and machine.unit(run.commands[e[0]]) == "config"
        )
    return found


def _fences(body: Body, machine: Machine) -> Body:
    """The statements with only their fences: later stretches make the settings themselves."""

    def kept(stmt: Stmt) -> Body | None:
        return () if isinstance(stmt, Command) and machine.unit(stmt.name) != "sync" else None

    return rebuilt(body, kept)


def _is_core(stmt: Stmt, unsafe: frozenset[str]) -> bool:
    """Whether a statement issues no commands; `NotRaised` if this is not known."""
    if any(isinstance(s, Opaque) and s.names & unsafe for s in walk((stmt,))):
        raise NotRaised("unrecognised code may issue commands")
    return next(commands((stmt,)), None) is None


def _stretch(kernel: Kernel, body: Body, before: Body, others: Body, machine: Machine) -> Kernel:
    """A kernel of only these statements. Arrays that the `others` use as well are parameters.

    Variables that the core's statements `before` define are defined in this kernel too.
    """
    here = names_of(body) | called(body, kernel)
    elsewhere = names_of(others) | called(others, kernel)
    arrays = [a for a in kernel.arrays if not a.local or a.name in here]
    if not has_opaque(body):
        return alone(body, arrays, elsewhere | {a.name for a in arrays if a.outside})
    shared = {a.name for a in arrays if a.name in elsewhere}
    if shared & called(body, kernel):
        raise NotRaised("a function of the core uses an array that other code uses")
    if _changed(kernel, body, machine) & here:
        raise NotRaised("code of the core in a loop of commands changes a variable of other code")
    defined = _needed(kernel, here, before, machine)
    used = here | names_of(defined) | called(defined, kernel)
    text = "".join(s.text for s in defined if isinstance(s, Opaque))
    declared = declared_in(text, lasting=False)
    declared -= declared_in(kernel.before + kernel.after, lasting=True)
    rest = tuple(s for s in others if s not in defined)
    changed = _changed(kernel, rest, machine) | _changed(kernel, defined, machine) - declared
    if changed & used:
        raise NotRaised("code of the core in a loop of commands uses a variable of other code")
    return replace(
        alone((*defined, *body), arrays, shared), before=kernel.before, after=kernel.after
    )


def _needed(kernel: Kernel, here: Set[str], before: Body, machine: Machine) -> Body:
    """The core's statements `before` that define variables among the names `here`, without those
    that use arrays."""
    names = {a.name for a in kernel.arrays}
    plain = {
        s: (_changed(kernel, (s,), machine), names_of((s,)) | called((s,), kernel))
        for s in before
        if isinstance(s, Opaque)
    }
    plain = {s: found for s, found in plain.items() if not found[1] & names}
    used, found = set(here), set[Stmt]()
    while new := {s for s, (changed, _) in plain.items() if s not in found and changed & used}:
        found |= new
        used |= {name for s in new for name in plain[s][1]}
    return tuple(s for s in before if s in found)


def _changed(kernel: Kernel, body: Body, machine: Machine) -> frozenset[str]:
    """The variables that statements may change, and that are not declared inside of them."""
    return changed_by(emit(_of_core(kernel, body)), machine) - {a.name for a in kernel.arrays}


def _limits(kernel: Kernel, before: Body, machine: Machine) -> Mapping[str, int]:
    """The largest absolute values of elements of the kernel's own arrays to which only the core's
    statements `before` store."""
    if called(before, kernel) & {a.name for a in kernel.arrays}:
        return {}
    here = set(walk(before))
    rest = tuple(s for s in walk(kernel.body) if isinstance(s, Opaque | Assign) and s not in here)
    changed = names_of(rest) | called(rest, kernel)
    for command in commands(kernel.body):
        if machine.unit(command.name) == "store":
            changed |= arrays_of(command)
    own = {a.name for a in kernel.arrays if a.local} - changed
    found = limits(_of_core(kernel, before), machine)
    return {name: most for name, most in found.items() if name in own}


def _of_core(kernel: Kernel, body: Body) -> Kernel:
    """A kernel of only these statements of the core, with the text around the kernel. All arrays
    are parameters."""
    only = alone(body, kernel.arrays, {a.name for a in kernel.arrays})
    return replace(only, before=kernel.before, after=kernel.after)


def alone(body: Body, arrays: Sequence[Array], shared: Set[str]) -> Kernel:
    """A kernel of only these statements. Its parameters are those among the arrays, and the
    `shared` ones."""
    given = [
        replace(a, local=False, static=False, outside=False) if a.name in shared else a
        for a in arrays
    ]
    parameters = ", ".join(_parameter(a) for a in given if not a.local)
    return Kernel("", f"void kernel({parameters})", tuple(given), body, "")


def _parameter(array: Array) -> str:
    """The declaration of an array as a parameter."""
    sizes = "".join(f"[{size or ''}]" for size in array.shape)
    return f"{array.element or 'char'} {array.name}{sizes or '[]'}"


def _configured(run: Run, settings: Sequence[tuple[str, Event]]) -> Run:
    """A run before which commands made settings."""
    names = list(dict.fromkeys((*run.commands, *(name for name, _ in settings))))
    earlier = tuple((names.index(name), *event[1:]) for name, event in settings)
    return replace(run, commands=tuple(names), settings=earlier)

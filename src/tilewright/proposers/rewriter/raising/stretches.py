"""Raises a kernel whose core computes something else than sums: the core's statements are kept, and
each stretch of commands before, between and after them is raised by itself.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import groupby

from tilewright.proposers.rewriter.analysis.core_functions import issuing
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import (
    Array,
    Body,
    Command,
    Kernel,
    Opaque,
    Stmt,
    arrays_of,
    commands,
    core_names,
    has_opaque,
    rebuilt,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import Event, NotRaised, Run, executed


@dataclass(frozen=True, slots=True)
class Stretch:
    """A stretch of commands as a kernel of its own, and its run.

    Arrays that other statements use as well are parameters of this kernel.
    """

    kernel: Kernel
    run: Run


def parts(kernel: Kernel, machine: Machine) -> list[Body | Stretch]:
    """The statements of the core, and the stretches of commands, in their order.

    `NotRaised` if commands and other code alternate inside a loop, or if the core's code may issue
    commands.
    """
    unsafe = issuing(kernel.before + kernel.after, machine)
    groups = [
        (c, tuple(g)) for c, g in groupby(kernel.body, lambda s: _is_core(s, unsafe, machine))
    ]
    if not any(has_opaque(body) for is_core, body in groups if is_core):
        raise NotRaised("the kernel has no statements of the core outside of loops of commands")
    if all(is_core for is_core, _ in groups):
        raise NotRaised("the kernel issues no commands")
    found: list[Body | Stretch] = []
    settings: list[tuple[str, Event]] = []
    for number, (is_core, body) in enumerate(groups):
        if is_core:
            found.append(body)
            continue
        others = tuple(s for n, (_, part) in enumerate(groups) if n != number for s in part)
        stretch = _stretch(kernel, body, others)
        run = _configured(executed(emit(stretch), machine), settings)
        names = run.commands
        moves = any(machine.unit(name) not in ("config", "sync") for name in names)
        found.append(Stretch(stretch, run) if moves else _fences(body, machine))
        settings = [
            (names[e[0]], e) for e in run.events if machine.unit(names[e[0]]) == "config"
        ]  # fmt: skip
    return found


def _fences(body: Body, machine: Machine) -> Body:
    """The statements with only their fences: later stretches make the settings themselves."""

    def kept(stmt: Stmt) -> Body | None:
        return () if isinstance(stmt, Command) and machine.unit(stmt.name) != "sync" else None

    return rebuilt(body, kept)


def _is_core(stmt: Stmt, unsafe: frozenset[str], machine: Machine) -> bool:
    """Whether a statement issues no commands; `NotRaised` if this holds only for a part of it."""
    texts = [s for s in walk((stmt,)) if isinstance(s, Opaque)]
    if any(text.names & unsafe for text in texts):
        raise NotRaised("code that is not understood may issue commands")
    issues = next(commands((stmt,)), None) is not None
    if issues and has_opaque((stmt,)):
        raise NotRaised("a loop contains both commands and code of the core")
    return not issues


def _stretch(kernel: Kernel, body: Body, others: Body) -> Kernel:
    """A kernel of only these statements. Arrays that the `others` use as well are parameters."""
    here = {name for command in commands(body) for name in arrays_of(command)}
    arrays = [a for a in kernel.arrays if not a.local or a.name in here]
    shared = {a.name for a in arrays if a.outside}
    shared |= {name for command in commands(others) for name in arrays_of(command)}
    shared |= {name for stmt in walk(others) for name in core_names(stmt)}
    return alone(body, arrays, shared)


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
    """A run that begins with the settings that earlier commands made."""
    names = list(dict.fromkeys((*run.commands, *(name for name, _ in settings))))
    earlier = [(names.index(name), *event[1:]) for name, event in settings]
    return Run(tuple(names), [*earlier, *run.events], run.own)

"""Rewrites that a person chooses: lists those that apply and the code that is not understood, and
carries them out."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.core.errors import InputError, UnknownNameError
from tilewright.core.records import LeftAlone
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable, find_buffers
from tilewright.proposers.rewriter.analysis.ranges import labelled_loops
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel, Opaque, commands, walk
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE, IN_NEST
from tilewright.proposers.rewriter.planning.steps import Step, steps_for
from tilewright.proposers.rewriter.reading import understood


@dataclass(frozen=True, slots=True)
class Applicable:
    """A step that applies, and the estimated time after it as a share of the time before."""

    step: Step
    time: float


def applicable(kernel: Kernel, machine: Machine) -> Iterator[Applicable]:
    """Every step that applies to a kernel and changes it, in the order of the catalogue."""
    before = estimate(kernel, machine).total
    for technique in CATALOGUE:
        for step in steps_for(kernel, machine, technique):
            after = step.carried_out(kernel, machine)
            if after is not None:
                yield Applicable(step, estimate(after, machine).total / max(before, 1.0))


def left_alone(source: str, machine: Machine) -> list[LeftAlone]:
    """The unrecognised code of a kernel, in the order of the text; all of it if it has no
    commands."""
    kernel = understood(source, machine)
    found = [
        LeftAlone(stmt.line, stmt.text.strip().partition("\n")[0], stmt.reason)
        for stmt in walk(kernel.body)
        if isinstance(stmt, Opaque)
    ]
    if not found and not any(True for _ in commands(kernel.body)):
        line = kernel.before.count("\n") + 1
        reason = "it contains no command of the accelerator, and the rewriter changes nothing else"
        return [LeftAlone(line, "the whole kernel", reason)]
    return found


def carried_out(kernel: Kernel, machine: Machine, text: str) -> tuple[Kernel, list[Step]]:
    """The kernel after `step; step`, and the steps including the arguments that were not given.

    `InputError` for an unknown technique or a step that does not apply.
    """
    done = []
    for wanted in filter(None, (part.strip() for part in text.split(";"))):
        step, kernel = _carried_out(kernel, machine, wanted)
        done.append(step)
    if not done:
        raise InputError('no step is given. Give some, for example "overwrite C; unroll k 2".')
    return kernel, done


def usage(technique: str) -> str:
    """A technique with the names of its arguments, such as `pipeline BUFFER LOOP SLOTS`."""
    return " ".join((technique, *_parameters(technique)))


def _parameters(technique: str) -> list[str]:
    names = list(inspect.signature(CATALOGUE[technique].apply).parameters)[2:]
    return [{"label": "LOOP", "buffer_name": "BUFFER"}.get(n, n.upper()) for n in names]


def _carried_out(kernel: Kernel, machine: Machine, text: str) -> tuple[Step, Kernel]:
    """The given step. If arguments are missing, those with the lowest estimate are used."""
    step = Step.parse(text)
    if step.technique not in CATALOGUE:
        raise UnknownNameError("rewrite", step.technique, CATALOGUE)
    step = _of_a_buffer(step, kernel, machine)
    if step.technique != IN_NEST:
        _check_arguments(step, kernel, machine)
    complete = step.technique == IN_NEST or len(step.arguments) == len(_parameters(step.technique))
    tried = [step] if complete else _completions(step, kernel, machine)
    results: list[tuple[Step, Kernel]] = []
    reason = f"no place fits; {_choices(step.technique, kernel, machine)}"
    for candidate in tried:
        try:
            results.append((candidate, candidate.apply(kernel, machine)))
        except NotApplicable as refusal:
            reason = str(refusal)
    if not results:
        raise InputError(f"step {text!r} does not apply: {reason}.")
    return min(results, key=lambda found: estimate(found[1], machine).total)


def _of_a_buffer(step: Step, kernel: Kernel, machine: Machine) -> Step:
    """Hoisting a buffer, instead of a loop's settings, means keeping it resident."""
    buffers = {b.name for b in find_buffers(kernel, machine)}
    loops = {label for label, _, _ in labelled_loops(kernel.body)}
    named = set(step.arguments[:1])
    if step.technique == "hoist" and named <= buffers - loops and named:
        return Step("resident", step.arguments)
    return step


def _completions(step: Step, kernel: Kernel, machine: Machine) -> list[Step]:
    """The places of a technique whose arguments contain the given ones in the same order."""
    return [
        place
        for place in steps_for(kernel, machine, step.technique)
        if _within(step.arguments, place.arguments)
    ]


def _within(given: Sequence[str], arguments: Sequence[str]) -> bool:
    rest = iter(arguments)
    return all(argument in rest for argument in given)


def _choices(technique: str, kernel: Kernel, machine: Machine) -> str:
    buffers = ", ".join(b.name for b in find_buffers(kernel, machine)) or "none"
    loops = ", ".join(label for label, _, _ in labelled_loops(kernel.body)) or "none"
    return f"write {usage(technique)!r}; buffers: {buffers}; loops: {loops}"


def _check_arguments(step: Step, kernel: Kernel, machine: Machine) -> None:
    """Refuse an argument that is not a buffer, loop, number of at least 2, or place of the
    technique."""
    known = {b.name for b in find_buffers(kernel, machine)}
    known |= {label for label, _, _ in labelled_loops(kernel.body)}
    known |= {a for s in steps_for(kernel, machine, step.technique) for a in s.arguments}
    odd = [a for a in step.arguments if a not in known and not (a.isdecimal() and int(a) >= 2)]
    if odd or len(step.arguments) > len(_parameters(step.technique)):
        reason = f"{odd[0]!r} is not known" if odd else "it has too many arguments"
        choices = _choices(step.technique, kernel, machine)
        raise InputError(f"step {str(step)!r} does not apply: {reason}; {choices}.")

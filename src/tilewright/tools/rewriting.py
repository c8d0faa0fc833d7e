"""The built-in rewriter by hand: what it could do to a kernel, and doing some of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

from tilewright.core.errors import InputError
from tilewright.core.records import TargetBrief, Workload, content_id
from tilewright.proposers.builtin import REWRITTEN, has_local_memories, is_nki
from tilewright.tools.records import Rewrite, Rewrites, Rewritten

LONGEST_LIST_S = 10.0
"""Of computing, after which no more rewrites are looked for: a model or an agent may ask for those
of a kernel of hundreds of loops, and a search waits for the answer."""

_Step = TypeVar("_Step")


def rewrites(source: str, target: TargetBrief, workload: Workload) -> Rewrites:
    """Every rewrite that applies to a kernel of a workload.

    `InputError` for a kernel that the rewriter does not read.
    """
    require_readable(target)
    candidate = content_id(source)
    if is_nki(target):
        from tilewright.proposers.nki import by_hand as of_nki

        found_steps, cut = _in_time(of_nki.applicable(source, workload, target.language))
        return Rewrites(candidate, tuple(Rewrite(str(s), what) for s, what in found_steps), (), cut)
    if not has_local_memories(target):
        from tilewright.proposers.loops.planning import by_hand as of_loops

        steps, cut = _in_time(of_loops.applicable(source, target))
        return Rewrites(candidate, tuple(Rewrite(str(s), what) for s, what in steps), (), cut)
    from tilewright.proposers.rewriter.machine import Machine
    from tilewright.proposers.rewriter.planning import by_hand
    from tilewright.proposers.rewriter.reading import read

    machine = Machine.of(target)
    found, cut = _in_time(by_hand.applicable(read(source, machine), machine))
    left = by_hand.left_alone(source, machine)
    return Rewrites(
        candidate,
        tuple(
            Rewrite(str(one.step), one.step.sentence, one.time)
            for one in sorted(found, key=lambda one: one.time)
        ),
        tuple(f"line {part.line}: {part.text} ({part.reason})" for part in left),
        cut,
    )


def _in_time(steps: Iterator[_Step]) -> tuple[list[_Step], str]:
    """The steps that are found in `LONGEST_LIST_S`, and what to say where there may be more.

    It counts this thread's computing, so that a busy machine lists as much as a quiet one.
    """
    began, found = time.thread_time(), []
    for step in steps:
        found.append(step)
        if time.thread_time() - began > LONGEST_LIST_S:
            more = f"after {LONGEST_LIST_S:g} s of computing the search for further ones ended"
            return found, more
    return found, ""


def rewritten(source: str, target: TargetBrief, workload: Workload, steps: str) -> Rewritten:
    """The kernel after steps separated by `;`.

    `InputError` for a step that does not exist or does not apply.
    """
    require_readable(target)
    if is_nki(target):
        from tilewright.proposers.nki import by_hand as of_nki

        text, done = of_nki.carried_out(source, workload, target.language, steps)
        return Rewritten(content_id(text), tuple(done), text)
    if not has_local_memories(target):
        from tilewright.proposers.loops.planning import by_hand as of_loops

        text, done = of_loops.carried_out(source, target, steps)
        return Rewritten(content_id(text), tuple(done), text)
    from tilewright.proposers.rewriter.emit import emit
    from tilewright.proposers.rewriter.machine import Machine
    from tilewright.proposers.rewriter.planning import by_hand
    from tilewright.proposers.rewriter.reading import read

    machine = Machine.of(target)
    kernel, carried_out = by_hand.carried_out(read(source, machine), machine, steps)
    text = emit(kernel)
    return Rewritten(
        content_id(text), tuple(f"{step}: {step.sentence}" for step in carried_out), text
    )


def require_readable(target: TargetBrief) -> None:
    """`InputError` for kernels in a language that the rewriter does not read."""
    if target.language.name not in REWRITTEN:
        raise InputError(
            f"kernels of {target.name} are written in {target.language.name}, and the rewriter "
            f"reads {' and '.join(REWRITTEN)} only. Give a workload of another target."
        )

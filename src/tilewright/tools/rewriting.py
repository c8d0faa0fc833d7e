"""Lists the rewrites that the built-in rewriter could apply to a kernel, and applies some of
them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

from tilewright.core.errors import InputError
from tilewright.core.records import TargetBrief, Workload, content_id
from tilewright.proposers.builtin import REWRITTEN, has_local_memories, is_nki
from tilewright.tools.records import Rewrite, Rewrites, Rewritten

LONGEST_LIST_S = 10.0
"""CPU time in seconds after which the search for rewrites ends. A model or an agent may request
those of a kernel with hundreds of loops, and a search waits for the answer.
"""

_Step = TypeVar("_Step")


def rewrites(source: str, target: TargetBrief, workload: Workload) -> Rewrites:
    """Every rewrite that applies to a kernel of a workload.

    Raises `InputError` for a kernel that the rewriter cannot read.
    """
    require_readable(target)
    candidate = content_id(source)
    if is_nki(target):
        from tilewright.proposers.nki.planning import by_hand as of_nki

        found_steps, cut = _in_time(of_nki.applicable(source, workload, target.language))
        return Rewrites(candidate, tuple(Rewrite(str(s), what) for s, what in found_steps), (), cut)
    if not has_local_memories(target):
        from tilewright.proposers.loops.planning import by_hand as of_loops

        steps, cut = _in_time(of_loops.applicable(source, target, workload))
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
    """The steps that are found in `LONGEST_LIST_S`, and a sentence if there may be more.

    The limit is in CPU time of this thread, so that the result does not depend on other programs.
    """
    began, found = time.thread_time(), []
    for step in steps:
        found.append(step)
        if time.thread_time() - began > LONGEST_LIST_S:
            more = f"the search for further rewrites ended after {LONGEST_LIST_S:g} s of computing"
            return found, more
    return found, ""


def rewritten(source: str, target: TargetBrief, workload: Workload, steps: str) -> Rewritten:
    """The kernel after steps separated by `;`.

    Raises `InputError` for a step that does not exist or cannot be applied.
    """
    require_readable(target)
    if is_nki(target):
        from tilewright.proposers.nki.planning import by_hand as of_nki

        text, done = of_nki.carried_out(source, workload, target.language, steps)
        return Rewritten(content_id(text), tuple(done), text)
    if not has_local_memories(target):
        from tilewright.proposers.loops.planning import by_hand as of_loops

        text, done = of_loops.carried_out(source, target, workload, steps)
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
    """Raise `InputError` for kernels in a language that the rewriter does not support."""
    if target.language.name not in REWRITTEN:
        raise InputError(
            f"kernels of {target.name} are written in {target.language.name}, and the rewriter "
            f"reads {' and '.join(REWRITTEN)} only. Give a workload of another target."
        )

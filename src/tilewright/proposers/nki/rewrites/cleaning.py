"""Removes unused code, and creates tensors where they are first used. Applied after every
rewrite."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import has_hidden_state
from tilewright.proposers.nki.ir import Alloc, Body, Kernel, Loop, Statement, ops


def cleaned(kernel: Kernel) -> Kernel:
    """The kernel without tensors that are never read, the instructions that compute them, and empty
    loops."""
    kept = {*kernel.returned}
    if has_hidden_state(kernel.body):
        return kernel
    every = tuple(ops(kernel.body))
    while True:
        before = len(kept)
        for op in every:
            if any(region.tensor in kept for region in op.writes):
                kept.update(region.tensor for region in op.reads)
                kept.update(region.tensor for region in op.writes)
        if len(kept) == before:
            break
    kept |= {tensor.name for tensor in kernel.arguments}
    return replace(kernel, body=_cleaned(kernel.body, kept))


def _cleaned(body: Body, kept: set[str]) -> Body:
    """The body with only the `kept` tensors, each created directly before its first use."""
    waiting = {s.tensor.name: s for s in body if isinstance(s, Alloc) and s.tensor.name in kept}
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            inner = _cleaned(statement.body, kept)
            if not inner:
                continue
            statement = replace(statement, body=inner)
        elif isinstance(statement, Alloc) or not any(r.tensor in kept for r in statement.writes):
            continue
        part = statement.body if isinstance(statement, Loop) else (statement,)
        for op in ops(part):
            for _, region in op.regions:
                if region.tensor in waiting:
                    found.append(waiting.pop(region.tensor))
        found.append(statement)
    return tuple(found)


def without_tensor(body: Body, name: str) -> Body:
    """The body without the creation of a tensor."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            found.append(replace(statement, body=without_tensor(statement.body, name)))
        elif not (isinstance(statement, Alloc) and statement.tensor.name == name):
            found.append(statement)
    return tuple(found)

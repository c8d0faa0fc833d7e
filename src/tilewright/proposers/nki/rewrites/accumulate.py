"""Sums products in PSUM over a loop, instead of adding each one to a sum in SBUF."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, touches
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Statement,
    at,
    spliced,
    whole,
)
from tilewright.proposers.nki.rewrites.cleaning import without_tensor
from tilewright.proposers.nki.rewrites.joined_sums import joined, require_product, summands
from tilewright.proposers.nki.rewrites.uses import body_of, op_at, uses


def accumulate(kernel: Kernel, path: Path) -> Kernel:
    """The kernel without an addition of products, which are accumulated where they are computed."""
    sums, parts = summands(kernel, path)
    total, product = whole(sums), whole(parts)
    use, part = uses(kernel, sums.name), uses(kernel, parts.name)
    home = body_of(kernel, use.home)
    depth = len(use.home)
    if path[: depth - 1] == use.home[:-1] and len(path) == depth:
        return joined(kernel, path, sums, parts)
    if path[: depth - 1] != use.home[:-1]:
        raise NotApplicableError("the sum is not created outside the loop")
    start, around = [p for p in use.written if p != path], path[depth - 1]
    if (
        len(start) != 1
        or len(start[0]) != depth
        or not use.home[-1] < start[0][-1] < around
        or op_at(kernel, start[0]).name != "memset"
        or op_at(kernel, start[0]).get("value") not in (0, 0.0)
    ):
        raise NotApplicableError("the sum does not begin with zeros")
    if any(touches(home[n], sums.name) for n in range(start[0][-1] + 1, around)):
        raise NotApplicableError("the sum is used before the loop")
    if any(p != path and p[depth - 1] <= around for p in use.read):
        raise NotApplicableError("the sum is used within the loop")
    require_product(kernel, part, path)
    loop = home[around]
    assert isinstance(loop, Loop)
    inside = spliced(loop.body, path[depth:], ())
    inside = without_tensor(inside, parts.name)
    copy = Op("tensor_copy", (("dst", total), ("src", product)))
    made: list[Statement] = []
    for number, statement in enumerate(home):
        if number == start[0][-1]:
            made.append(Alloc(parts))
        elif number == around:
            made += [replace(loop, body=inside), copy]
        else:
            made.append(statement)
    body: Body = tuple(made)
    if depth > 1:
        outer = at(kernel.body, use.home[:-1])
        assert isinstance(outer, Loop)
        body = spliced(kernel.body, use.home[:-1], (replace(outer, body=body),))
    return replace(kernel, body=body)

"""Replaces operations on shifted windows of one tile by one reduction over the windows.

Before:                                       After:

    maximum(p, t[:, 0:256], t[:, 1:257])          reduce(d, maximum, t seen as 256 windows of 3)
    maximum(d, p, t[:, 2:258])

`unfold` is the opposite rewrite. `separate` and `pairs` make reductions of windows cheaper.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, touches, written
from tilewright.proposers.nki.ir import Alloc, Kernel, Op, Path, Region
from tilewright.proposers.nki.rewrites.uses import body_of, op_at, same_elements, uses, with_body

_REDUCTIONS = ("nl.add", "nl.maximum", "nl.minimum")
FEWEST = 3
"""Minimum number of windows: a reduction of two takes as long as one operation on two tiles."""
_MOST_DIMS = 5


def refold(kernel: Kernel, path: Path) -> Kernel:
    """The kernel with one reduction instead of the instruction at `path` and those that compute its
    operands."""
    last, body, tensors = op_at(kernel, path), body_of(kernel, path), kernel.tensors()
    if last.name != "tensor_tensor" or last.get("op") not in _REDUCTIONS:
        raise NotApplicableError("no reduction computes this operation")
    windows, chain = list[Region](), [path[-1]]
    while True:
        op = body[chain[-1]]
        assert isinstance(op, Op)
        before, window = _operand_before(kernel, (*path[:-1], chain[-1]), op, last)
        windows.append(window)
        if before is None:
            windows.append(op.region("data1" if window == op.region("data2") else "data2"))
            break
        chain.append(before)
    windows.sort(key=lambda region: region.offset.constant)
    first, apart = windows[0], windows[1].offset - windows[0].offset
    even = all(
        region == replace(first, offset=first.offset + apart * n)
        for n, region in enumerate(windows)
    )
    if len(windows) < FEWEST or not even or apart.terms or apart.constant < 1:
        raise NotApplicableError("the operands are not windows of one tile at equal distances")
    target = last.region("dst").tensor
    if target == first.tensor:
        raise NotApplicableError("the result replaces some of the windows")
    for number in range(chain[-1] + 1, path[-1]):
        between = body[number]
        if number in chain or isinstance(between, Alloc):
            continue
        if first.tensor in written((between,)) or touches(between, target):
            raise NotApplicableError("other instructions change the windows in between")
    dims = (*first.dims, (apart.constant, len(windows)))
    if len(dims) > _MOST_DIMS or tensors[first.tensor].dtype != "float32":
        raise NotApplicableError("the windows have too many axes, or are not float32")
    data = replace(first, dims=dims)
    made = Op("tensor_reduce", (
        ("dst", last.region("dst")), ("op", str(last.get("op"))), ("data", data),
        ("axis", len(dims) - 1)))  # fmt: skip
    after = [made if n == path[-1] else s for n, s in enumerate(body) if n not in chain[1:]]
    return with_body(kernel, path[:-1], tuple(after))


def _operand_before(kernel: Kernel, path: Path, op: Op, last: Op) -> tuple[int | None, Region]:
    """The place of the instruction of the same kind that computes one operand for nothing else, and
    the other operand."""
    body = body_of(kernel, path)
    for key, other in (("data1", "data2"), ("data2", "data1")):
        region = op.region(key)
        number = path[-1] - 1
        while number >= 0 and not touches(body[number], region.tensor):
            number -= 1
        before = body[number] if number >= 0 else None
        if not isinstance(before, Op) or before.name != "tensor_tensor":
            continue
        if before.get("op") != last.get("op") or not same_elements(before.region("dst"), region):
            continue
        tensor = kernel.tensors()[region.tensor]
        in_place = same_elements(region, last.region("dst"))
        found = uses(kernel, tensor.name) if not in_place and tensor.on_chip else None
        places = (*path[:-1], number)
        alone = found is not None and found.written == (places,) and set(found.read) == {path}
        if tensor.dtype == "float32" and (in_place or alone):
            return number, op.region(other)
    return None, op.region("data2")

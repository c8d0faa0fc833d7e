"""Merges two consecutive instructions into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, written
from tilewright.proposers.nki.ir import (
    WRITTEN,
    Alloc,
    Kernel,
    Op,
    Path,
    Region,
    Setting,
    Tensor,
    spliced,
)
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.copies import may_read_psum
from tilewright.proposers.nki.rewrites.fused_reduction import (
    beside,
    coarsen,
    reduces_rows,
    with_sum,
)
from tilewright.proposers.nki.rewrites.uses import (
    between,
    body_of,
    is_whole,
    op_at,
    same_elements,
    uses,
)

_COMMUTES = ("nl.add", "nl.multiply", "nl.maximum", "nl.minimum")


def merge(kernel: Kernel, path: Path) -> Kernel:
    """An instruction merged with the one that computes its operand in the same iteration.

    A copy and a reduction of the same elements are merged too.
    """
    second = op_at(kernel, path)
    tensors = kernel.tensors()
    for key, region in second.regions:
        if key in WRITTEN or not tensors[region.tensor].on_chip:
            continue
        place = _producer(kernel, path, region)
        if place is None:
            continue
        first = op_at(kernel, place)
        for rule in _RULES:
            made = rule(first, second, key, kernel)
            if made is None:
                continue
            op, extra = made
            new = {s.tensor.name: s.tensor for s in extra if isinstance(s, Alloc)}
            if may_read_psum(op, {**tensors, **new}) and _still_there(kernel, place, path, first):
                return _replaced(kernel, place, path, op, extra, first, region)
    try:
        return beside(kernel, path)
    except NotApplicableError:
        return beside(coarsen(kernel, path), path)


def _producer(kernel: Kernel, path: Path, region: Region) -> Path | None:
    """The instruction in the same body that last wrote exactly this region."""
    body = body_of(kernel, path)
    for number in range(path[-1] - 1, -1, -1):
        statement = body[number]
        if isinstance(statement, Alloc):
            if statement.tensor.name == region.tensor:
                return None
            continue
        if not isinstance(statement, Op):
            if region.tensor in written((statement,)):
                return None
            continue
        if any(r.tensor == region.tensor for r in statement.writes):
            exact = [r for r in statement.writes if same_elements(r, region)]
            return (*path[:-1], number) if exact and statement.writes[0] in exact else None
    return None


def _still_there(kernel: Kernel, place: Path, path: Path, first: Op) -> bool:
    """Whether the first instruction's operands are unchanged when the second one runs."""
    changed = {r.tensor for op in between(kernel, place, path) for r in op.writes}
    return not {region.tensor for region in first.reads} & changed


def _replaced(
    kernel: Kernel, place: Path, path: Path, op: Op, extra: list[Op | Alloc], first: Op,
    region: Region,
) -> Kernel:  # fmt: skip
    """The kernel with the merged instruction. The first one is removed if nothing else needs it."""
    made = replace(kernel, body=spliced(kernel.body, path, (*extra, op)))
    if first.writes[0] in op.writes:
        if any(
            r.tensor == region.tensor
            for other in between(kernel, place, path)
            for _, r in other.regions
        ):
            raise NotApplicableError("another instruction uses the operand between the two")
        return replace(made, body=spliced(made.body, place, ()))
    if _is_dead_after(kernel, place, path, region):
        made = replace(made, body=spliced(made.body, place, ()))
    elif any(r.tensor in {w.tensor for w in first.writes} for r in first.reads):
        raise NotApplicableError("the operand is changed in place and used again")
    return made


def _is_dead_after(kernel: Kernel, place: Path, path: Path, region: Region) -> bool:
    """Whether only the second instruction uses the result of the first one."""
    tensor = kernel.tensors()[region.tensor]
    found = uses(kernel, tensor.name)
    if found.home[:-1] != path[:-1]:
        return False
    again = [
        p
        for p in found.written
        if len(p) == len(path) and p >= path and _overwrites(kernel, p, tensor, p == path)
    ]
    limit = min(again, default=None)
    readers = [p for p in found.read if p > place and p != path]
    return not any(limit is None or p <= limit for p in readers)


def _overwrites(kernel: Kernel, place: Path, tensor: Tensor, reads: bool) -> bool:
    """Whether an instruction replaces a whole tile. It may read the tile only if `reads` is
    true."""
    op = op_at(kernel, place)
    whole = any(r.tensor == tensor.name and is_whole(r, tensor) for r in op.writes)
    return whole and (reads or not any(r.tensor == tensor.name for r in op.reads))


_Merged: TypeAlias = tuple[Op, list[Op | Alloc]] | None
_Rule: TypeAlias = Callable[[Op, Op, str, Kernel], _Merged]


def _two_scalars(first: Op, second: Op, key: str, kernel: Kernel) -> _Merged:
    """Two operations with scalars or columns."""
    if first.name != "tensor_scalar" or second.name != "tensor_scalar" or key != "data":
        return None
    if first.get("op1") is not None or second.get("op1") is not None:
        return None
    made = Op(
        "tensor_scalar",
        (("dst", second.region("dst")), ("data", first.region("data")),
         ("op0", _of(first, "op0")), ("operand0", _of(first, "operand0"))),
    ).having(
        reverse0=first.get("reverse0"), op1=second.get("op0"), operand1=second.get("operand0"),
        reverse1=second.get("reverse0"), engine=second.get("engine"),
    )  # fmt: skip
    return made, []


def _scalar_and_tile(first: Op, second: Op, key: str, kernel: Kernel) -> _Merged:
    """An operation with a scalar or column, followed by one with a tile."""
    if first.name != "tensor_scalar" or second.name != "tensor_tensor" or first.get("op1"):
        return None
    other = second.region("data2" if key == "data1" else "data1")
    if key not in ("data1", "data2") or same_elements(other, second.region(key)):
        return None
    made = Op(
        "scalar_tensor_tensor",
        (("dst", second.region("dst")), ("data", first.region("data")),
         ("op0", _of(first, "op0")), ("operand0", _of(first, "operand0")),
         ("op1", _of(second, "op")), ("operand1", other)),
    ).having(reverse0=first.get("reverse0"))  # fmt: skip
    if key == "data2" and second.get("op") not in _COMMUTES:
        made = made.having(reverse1=True)
    return made, []


def _into_activation(first: Op, second: Op, key: str, kernel: Kernel) -> _Merged:
    """A product with, or difference from, a scalar or column, followed by a function."""
    if first.name != "tensor_scalar" or second.name not in _FUNCTIONS or key != "data":
        return None
    if second.get("scale") is not None or second.get("bias") is not None or first.get("reverse0"):
        return None
    made = second.having(data=first.region("data"))
    extra: list[Op | Alloc] = []
    steps = [("op0", "operand0"), ("op1", "operand1")]
    for name, operand in [s for s in steps if first.get(s[0]) is not None]:
        value, op = _of(first, operand), first.get(name)
        if op == "nl.multiply" and made.get("bias") is None and made.get("scale") is None:
            made = made.having(scale=value)
        elif op == "nl.add" and isinstance(value, Region) and made.get("bias") is None:
            made = made.having(bias=value)
        elif op == "nl.subtract" and isinstance(value, Region) and made.get("bias") is None:
            column = kernel.tensors()[value.tensor]
            shape = (value.dims[0][1], 1)
            tensor = Tensor(Names(kernel).fresh("negative"), shape, "float32", "sbuf")
            target = Region(tensor.name, Linear(), ((1, shape[0]), (1, 1)))
            if column.dtype != "float32":
                return None
            scaled = (("op0", "nl.multiply"), ("operand0", -1.0))
            negated = Op("tensor_scalar", (("dst", target), ("data", value), *scaled))
            extra = [Alloc(tensor), negated]
            made = made.having(bias=target)
        else:
            return None
    return made, extra


_FUNCTIONS = ("activation", "activation_reduce")


def _sum_on_the_way(first: Op, second: Op, key: str, kernel: Kernel) -> _Merged:
    """A function, followed by the sum of its values along each row."""
    if first.name != "activation" or second.name != "tensor_reduce" or key != "data":
        return None
    data, dst = second.region("data"), second.region("dst")
    all_axes = dst.columns == 1 and data.columns > 1
    if second.get("op") != "nl.add" or second.get("negate") or not all_axes:
        return None
    if first.get("reduce_cmd") is not None or first.get("reduce_res") is not None:
        return None
    made = first.having(
        reduce_op="nl.add", reduce_res=dst, reduce_cmd="nisa.reduce_cmd.reset_reduce"
    )
    return made, []


def _reduced_on_the_way(first: Op, second: Op, key: str, kernel: Kernel) -> _Merged:
    """A copy, or an operation with a scalar, followed by the reduction of each row."""
    if first.name == "activation" or key != "data" or not reduces_rows(second):
        return None
    made = with_sum(first, second, second.region("dst"), kernel.tensors())
    return None if made is None or second.get("negate") else (made, [])


def _copied_first(first: Op, second: Op, key: str, kernel: Kernel) -> _Merged:
    """A copy, followed by any instruction that can read the original."""
    if first.name != "tensor_copy" or second.name in ("nc_matmul", "nc_transpose", "dma_copy"):
        return None
    tensors = kernel.tensors()
    source, target = first.region("src"), first.region("dst")
    if tensors[source.tensor].dtype != tensors[target.tensor].dtype:
        return None
    if source.shape != second.region(key).shape:
        return None
    return second.having(**{key: source}), []


def _of(op: Op, name: str) -> Region | Setting:
    value = op.get(name)
    assert value is not None
    return value


_RULES: tuple[_Rule, ...] = (
    _two_scalars, _scalar_and_tile, _into_activation, _sum_on_the_way, _reduced_on_the_way,
    _copied_first,
)  # fmt: skip

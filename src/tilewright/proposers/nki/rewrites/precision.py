"""Converts tiles to bfloat16, with which a product takes one pass instead of four. The evaluator
decides whether this is allowed."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Alloc, Body, Kernel, Loop, Statement, ops
from tilewright.proposers.nki.rewrites.renaming import renewed
from tilewright.proposers.nki.rewrites.uses import uses


def narrow(kernel: Kernel, name: str) -> Kernel:
    """A float32 tile in bfloat16, with all tiles with which it is multiplied.

    A tile that is written repeatedly is first split, so that only the multiplied part is converted.
    """
    kernel, name = _apart(kernel, name)
    tensors = kernel.tensors()
    chosen = {name}
    products = [op for op in ops(kernel.body) if op.name == "nc_matmul"]
    while True:
        before = len(chosen)
        for op in products:
            operands = {op.region("stationary").tensor, op.region("moving").tensor}
            if operands & chosen:
                chosen |= operands
        if len(chosen) == before:
            break
    made = {n for n in chosen if tensors[n].dtype == "float32"}
    if name not in made or any(tensors[n].memory != "sbuf" for n in made):
        raise NotApplicableError(f"{name} is not a float32 tile in SBUF")
    for op in ops(kernel.body):
        for key, region in op.regions:
            if region.tensor in made and key in _FLOAT32_ONLY:
                raise NotApplicableError(f"{region.tensor} is a column of float32")
    return replace(kernel, body=retyped(kernel.body, made, "bfloat16"))


def operands_by_product(kernel: Kernel) -> list[frozenset[str]]:
    """The tiles from which the operands of products are made only by copies and transposes.

    Products that share such a tile are in one set. The sets are in the order of the text.
    """
    group: dict[str, str] = {}

    def root(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    operands: dict[str, None] = {}
    for op in ops(kernel.body):
        if op.name == "nc_matmul":
            one, other = op.region("stationary").tensor, op.region("moving").tensor
            operands |= dict.fromkeys((one, other))
        elif op.name in ("nc_transpose", "tensor_copy"):
            one, other = op.region("dst").tensor, op.reads[0].tensor
        else:
            continue
        group[root(one)] = root(other)
    members: dict[str, set[str]] = {root(name): set() for name in operands}
    for name in group:
        members.get(root(name), set[str]()).add(name)
    return [frozenset(names) for names in members.values()]


def _apart(kernel: Kernel, name: str) -> tuple[Kernel, str]:
    """The kernel with a separate tile for data that PE reads, if the original tile is written
    several times."""
    found = uses(kernel, name)
    if len(found.written) < 2:
        return kernel, name
    made = renewed(kernel, found.home)
    for before, after in zip(ops(kernel.body), ops(made.body), strict=True):
        if before.name in ("nc_matmul", "nc_transpose"):
            for (key, region), (_, now) in zip(before.regions, after.regions, strict=True):
                if key != "dst" and region.tensor == name:
                    return made, now.tensor
    return kernel, name


_FLOAT32_ONLY = (
    "operand0", "scale", "bias", "reduce_res", "initial", "prob", "on_false", "bound0", "bound1",
    "range_start",
)  # fmt: skip


def retyped(body: Body, names: set[str], dtype: str) -> Body:
    """The body in which these tiles have another type."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            found.append(replace(statement, body=retyped(statement.body, names, dtype)))
        elif isinstance(statement, Alloc) and statement.tensor.name in names:
            found.append(Alloc(replace(statement.tensor, dtype=dtype)))
        else:
            found.append(statement)
    return tuple(found)

"""Reads a PrimFunc: the block that the template tiles, its loops, and its affine accesses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.tuner.workload import Access, Loop, LoopKind, TensorWorkload

REMEDY = (
    "the template rules tile one reduction of affine accesses over static loops, such as a "
    "(batched) matrix product or a convolution with element-wise stages around it"
)


@dataclass(frozen=True)
class Anatomy:
    """The parts of a function that the tuner needs.

    `block` is the name of the block that is tiled. `loops[i]` is the position, among the block's
    own loops, of the workload's loop i, which has spatial loops first.
    """

    workload: TensorWorkload
    block: str
    loops: tuple[int, ...]


def analyse(function: Any, name: str) -> Anatomy:
    """The anatomy of an unscheduled PrimFunc; `WorkloadError` if the rules cannot tile it."""
    _check_parameters(function, name)
    blocks = list(_blocks(function.body))
    reductions = [found for found in blocks if found.reduces]
    if len(reductions) != 1:
        raise WorkloadError(
            f"{name} has {len(reductions) or 'no'} reduction blocks, so it cannot be tiled: "
            f"{REMEDY}."
        )
    anchor = reductions[0]
    loops = _loops(anchor, name)
    order = sorted(range(len(loops)), key=lambda i: loops[i].kind is LoopKind.REDUCTION)
    place = {id_: order.index(i) for i, id_ in enumerate(anchor.variables)}
    written = {str(region.source.name) for region in anchor.block.writes}
    inputs = [r for r in anchor.block.reads if str(r.source.name) not in written]
    if not inputs:
        raise WorkloadError(f"{name} reads no buffer in its reduction, so it cannot be tiled.")
    producers = {b.writes: b for b in blocks if b is not anchor}
    padded = frozenset(
        str(r.source.name)
        for r in inputs
        if str(r.source.name) in producers and producers[str(r.source.name)].branches
    )
    workload = TensorWorkload(
        name=name,
        loops=tuple(loops[i] for i in order),
        inputs=tuple(_access(region, anchor, place, name) for region in inputs),
        output=_access(anchor.block.writes[0], anchor, place, name),
        padded=padded,
    )
    return Anatomy(workload, str(anchor.block.name_hint), tuple(order))


def _check_parameters(function: Any, name: str) -> None:
    for parameter in function.params:
        if not hasattr(parameter, "shape"):
            raise WorkloadError(
                f"{name} has the parameter {parameter.name}, which is a number and not a buffer. "
                "Write it into the function as a constant."
            )
        try:
            plain = np.dtype(dtype_of(parameter)).kind in "biuf"
        except TypeError:
            plain = False
        if not plain:
            raise WorkloadError(
                f"{name} takes {parameter.name} as {dtype_of(parameter)}, which numpy does not "
                "have, so results cannot be checked: take a plain float or integer type."
            )


def blocks_of(function: Any) -> list[Any]:
    """The blocks of a function that compute something, in program order."""
    return [found.block for found in _blocks(function.body)]


def dtype_of(buffer: Any) -> str:
    """The element type of a buffer as numpy names it."""
    return str(buffer.dtype)


def output_position(function: Any) -> int:
    """The argument that the function writes; `WorkloadError` unless there is exactly one."""
    written = [block.writes[0].source for block in blocks_of(function)]
    positions = [
        n
        for n, parameter in enumerate(function.params)
        if any(parameter.same_as(target) for target in written)
    ]
    if len(positions) != 1:
        raise WorkloadError(
            f"the function writes {len(positions)} of its arguments: expected exactly one output."
        )
    return positions[0]


@dataclass(frozen=True)
class _Block:
    """A block with the loops around it, outermost first."""

    realize: Any
    around: tuple[Any, ...]

    @property
    def block(self) -> Any:
        return self.realize.block

    @property
    def variables(self) -> list[Any]:
        return [axis.var for axis in self.block.iter_vars]

    @property
    def reduces(self) -> bool:
        return any(int(axis.iter_type) == 2 for axis in self.block.iter_vars)

    @property
    def writes(self) -> str:
        return str(self.block.writes[0].source.name) if len(self.block.writes) else ""

    @property
    def branches(self) -> bool:
        """Whether the block selects by a condition, as padding does. Such a stage is not
        inlined."""
        return "if_then_else" in str(self.block.body) or "Select" in str(self.block.body)


def _blocks(root: Any) -> list[_Block]:
    """All blocks with iteration variables, in program order."""
    from tvm import tirx
    from tvm.s_tir.stmt import SBlockRealize

    found: list[_Block] = []

    def walk(statement: Any, around: tuple[Any, ...]) -> None:
        if isinstance(statement, tirx.For):
            walk(statement.body, (*around, statement))
        elif isinstance(statement, SBlockRealize):
            if len(statement.block.iter_vars):
                found.append(_Block(statement, around))
            else:
                walk(statement.block.body, around)
        elif isinstance(statement, tirx.SeqStmt):
            for part in statement.seq:
                walk(part, around)

    walk(root, ())
    return found


def _loops(anchor: _Block, name: str) -> list[Loop]:
    """One loop for each iteration variable, in the block's order."""
    from tvm import tirx

    by_variable = {loop.loop_var: loop for loop in anchor.around}
    values = list(anchor.realize.iter_values)
    loops = []
    for axis, value in zip(anchor.block.iter_vars, values, strict=True):
        loop = by_variable.get(value) if isinstance(value, tirx.Var) else None
        if loop is None or not isinstance(loop.extent, tirx.IntImm):
            raise WorkloadError(
                f"{name} has a loop whose size is not a constant, or a loop that is already tiled. "
                "Give the function without a schedule, and with constant shapes."
            )
        kind = LoopKind.REDUCTION if int(axis.iter_type) == 2 else LoopKind.SPATIAL
        loops.append(Loop(str(loop.loop_var.name), int(loop.extent), kind))
    if [str(v) for v in values] != [str(loop.loop_var) for loop in anchor.around]:
        raise WorkloadError(
            f"{name} iterates its loops in another order than its block's axes. Write the loops "
            "in the order of the axes."
        )
    return loops


def _access(region: Any, anchor: _Block, place: dict[Any, int], name: str) -> Access:
    from tvm import runtime
    from tvm.sym import detect_linear_equation

    variables = anchor.variables
    dims = []
    for bound in region.region:
        terms = detect_linear_equation(bound.min, variables)
        if not len(terms):
            raise WorkloadError(
                f"{name} indexes {region.source.name} by something that is not a sum of loops, so "
                f"it cannot be tiled: {REMEDY}."
            )
        dims.append(
            tuple(
                (place[variable], int(term))
                for variable, term in zip(variables, terms, strict=False)
                if int(term) != 0
            )
        )
    size = (runtime.DataType(dtype_of(region.source)).bits + 7) // 8
    return Access(str(region.source.name), tuple(dims), size)

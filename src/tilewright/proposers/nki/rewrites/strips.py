"""Executes consecutive instructions strip by strip of their columns, instead of one after another.

Tiles that only pass a strip on become as narrow as the strip, so that they fit into PSUM, where one
operand halves the time of sums and products of two tiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.proposers.nki.analysis.dependence import KernelFacts, NotApplicableError, conflicts
from tilewright.proposers.nki.estimate.cost import estimate
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Statement,
    Tensor,
    mapped_regions,
    spliced,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.memory import place
from tilewright.proposers.nki.rewrites.renaming import renewed
from tilewright.proposers.nki.rewrites.uses import body_of, op_at, uses, with_body

_BY_COLUMN = (
    "dma_copy", "tensor_copy", "memset", "tensor_tensor", "tensor_scalar", "activation",
    "scalar_tensor_tensor", "reciprocal", "tensor_tensor_scan",
)  # fmt: skip
_REDUCES = ("nl.add", "nl.maximum", "nl.minimum")


def strip(kernel: Kernel, path: Path, width: int) -> Kernel:
    """The kernel in which an instruction, and as many of the following ones as possible, run in
    strips."""
    first = op_at(kernel, path)
    columns = max(region.columns for _, region in first.regions)
    if width < 1 or columns <= width or columns % width:
        raise NotApplicableError(f"{columns} columns cannot be divided into strips of {width}")
    kernel = renewed(kernel, path)
    names = Names(kernel)
    group = _Group(kernel, columns, width, names.fresh("strip"), names)
    body, number = body_of(kernel, path), path[-1]
    while number < len(body) and group.takes(body[number]):
        number += 1
    made = group.made()
    around = (*body[: path[-1]], *made, *body[number:])
    stripped = with_body(kernel, path[:-1], around)
    return _in_psum(_narrower(stripped, group.loop, columns, width), group)


@dataclass
class _Group:
    """The instructions that become one loop, with strips of this number of columns."""

    kernel: Kernel
    columns: int
    width: int
    loop: str
    names: Names
    before: list[Statement] = field(default_factory=list)
    inside: list[Op] = field(default_factory=list)
    after: list[Op] = field(default_factory=list)
    apart: list[Op] = field(default_factory=list)
    """The instructions of `inside` without the numbers that scans pass from strip to strip."""
    kind: str = "affine_range"
    done: set[str] = field(default_factory=set)
    """Columns that are complete only after the loop."""

    def takes(self, statement: Statement) -> bool:
        """Whether a statement can be added. The group ends with the first one that cannot."""
        if isinstance(statement, Alloc):
            self.before.append(statement)
            return True
        if isinstance(statement, Loop) or {r.tensor for _, r in statement.regions} & self.done:
            return False
        found = self._reduction(statement) or self._sliced(statement)
        if found is None:
            return False
        loop = Loop(self.loop, self.columns // self.width, self.kind, (*self.apart, found))
        trips = {**self.kernel.trips(), self.loop: loop.trips}
        world = KernelFacts({**self.kernel.tensors(), **self._partials()}, trips)
        if any(not c.forward or c.first == c.second for c in conflicts(loop.body, loop, world)):
            self.done -= {region.tensor for region in statement.writes}
            self.after = [op for op in self.after if op.region("dst").tensor not in
                           {r.tensor for r in statement.writes}]  # fmt: skip
            return False
        self.apart.append(found)
        self.inside += self._carrying(found) if found.name == "tensor_tensor_scan" else [found]
        return True

    def _carrying(self, scan: Op) -> list[Op]:
        """A scan that begins with the last column of the previous strip, which is kept for this."""
        target, start = scan.region("dst"), scan.get("initial")
        rows = target.dims[0][1]
        carry = Tensor(self.names.fresh("carry"), (rows, 1), "float32", "sbuf")
        column = Region(carry.name, Linear(), ((1, rows), (1, 1)))
        begin = (
            Op("tensor_copy", (("dst", column), ("src", start)))
            if isinstance(start, Region)
            else Op("memset", (("dst", column), ("value", float(str(start)))))
        )
        self.before += [Alloc(carry), begin]
        step, _ = target.dims[1]
        last = Region(
            target.tensor, target.offset + step * (self.width - 1), (target.dims[0], (1, 1))
        )
        self.kind = "sequential_range"
        return [
            scan.having(initial=column), Op("tensor_copy", (("dst", column), ("src", last)))
        ]  # fmt: skip

    def made(self) -> Body:
        """The statements that replace the instructions."""
        if not self.inside:
            raise NotApplicableError("the instruction does not work column by column")
        loop = Loop(self.loop, self.columns // self.width, self.kind, tuple(self.inside))
        return (*self.before, loop, *self.after)

    def _partials(self) -> dict[str, Tensor]:
        return {s.tensor.name: s.tensor for s in self.before if isinstance(s, Alloc)}

    def _sliced(self, op: Op) -> Op | None:
        if op.name not in _BY_COLUMN or op.get("reduce_res") or op.get("reduce_cmd"):
            return None
        if op.name == "tensor_tensor_scan" and not self._scans(op):
            return None
        made: list[tuple[str, Region]] = []
        for key, region in op.regions:
            if key in ("initial", "operand0", "operand1", "bias", "scale") and region.columns == 1:
                if region.tensor in self._written():
                    return None
                continue
            part = self._slice(region)
            if part is None:
                return None
            made.append((key, part))
        found = op.having(**dict(made))
        if op.name == "dma_copy" and len({region.shape for _, region in made}) != 1:
            return None
        return found if made else None

    def _scans(self, op: Op) -> bool:
        """Whether a scan runs along one axis and begins with a number or column of float32."""
        start, target = op.get("initial"), op.region("dst")
        if isinstance(start, Region):
            tensor = self.kernel.tensors()[start.tensor]
            if tensor.dtype != "float32" or start.tensor in self._written():
                return False
        elif not isinstance(start, (int, float)):
            return False
        exact = self.kernel.tensors()[target.tensor].dtype == "float32"
        return exact and len([n for _, n in target.dims[1:] if n > 1]) == 1

    def _written(self) -> set[str]:
        return {region.tensor for op in self.inside for region in op.writes}

    def _slice(self, region: Region) -> Region | None:
        if region.columns != self.columns:
            return None
        first, *free = [region.dims[0], *(dim for dim in region.dims[1:] if dim[1] > 1)]
        if not free:
            return None
        (step, count), *rest = free
        inner = math.prod(size for _, size in rest)
        if self.width % inner or count % (self.width // inner):
            return None
        taken = self.width // inner
        offset = region.offset + variable(self.loop) * (step * taken)
        return Region(region.tensor, offset, (first, (step, taken), *rest))

    def _reduction(self, op: Op) -> Op | None:
        """A reduction of the columns to one: of each strip, and then of the results of the
        strips."""
        key = "reduce_res" if op.get("reduce_res") is not None else "dst"
        if op.name == "tensor_reduce":
            how, data = op.get("op"), op.region("data")
            if op.region("dst").columns != 1:
                return None
        elif op.name in ("activation", "activation_reduce") and key == "reduce_res":
            how, data = op.get("reduce_op"), op.region("data")
            if op.get("reduce_cmd") not in (None, "nisa.reduce_cmd.reset_reduce"):
                return None
        else:
            return None
        part, target = self._slice(data), op.region(key)
        tensor = self.kernel.tensors()[target.tensor]
        if how not in _REDUCES or part is None or tensor.dtype != "float32":
            return None
        strips = self.columns // self.width
        partial = Tensor(self.names.fresh("parts"), (target.dims[0][1], strips), "float32", "sbuf")
        into = Region(partial.name, variable(self.loop), ((strips, target.dims[0][1]), (1, 1)))
        changed: dict[str, Region] = {"data": part, key: into}
        if key == "reduce_res":
            written = self._slice(op.region("dst"))
            if written is None:
                return None
            changed["dst"] = written
        self.before.append(Alloc(partial))
        self.done.add(target.tensor)
        everything = Region(partial.name, Linear(), ((strips, target.dims[0][1]), (1, strips)))
        self.after.append(
            Op("tensor_reduce", (("dst", target), ("op", how), ("data", everything), ("axis", 1)))
            .having(negate=op.get("negate"))
        )  # fmt: skip
        found = op.having(**changed, negate=None)
        if op.name == "tensor_reduce":
            found = found.having(axis=tuple(range(1, len(part.dims))) if len(part.dims) > 2 else 1)
        return found


def _narrower(kernel: Kernel, name: str, columns: int, width: int) -> Kernel:
    """The loop in which tiles that only pass a strip on are as narrow as the strip."""
    path, loop = next(
        (p, s) for p, s in _loops(kernel.body) if isinstance(s, Loop) and s.variable == name
    )
    body, tensors = body_of(kernel, path), kernel.tensors()
    whole = variable(name) * width
    chosen = []
    for statement in body[: path[-1]]:
        if not isinstance(statement, Alloc) or not statement.tensor.on_chip:
            continue
        tensor = statement.tensor
        found = uses(kernel, tensor.name)
        places = (*found.written, *found.read)
        if not found.written or tensor.row != columns or any(p[:-1] != path for p in places):
            continue
        regions = [
            r for op in loop.body if isinstance(op, Op) for _, r in op.regions
            if r.tensor == tensor.name
        ]  # fmt: skip
        rows = ((columns, tensor.shape[0]), (1, width))
        if any(r.offset != whole or r.dims != rows for r in regions):
            continue
        if min(found.written) <= min(found.read, default=found.written[0]):
            chosen.append(tensor)
    if not chosen:
        return kernel
    narrow = {t.name: replace(t, shape=(t.shape[0], width)) for t in chosen}

    def changed(region: Region) -> Region:
        if region.tensor not in narrow:
            return region
        return Region(region.tensor, Linear(), ((width, region.dims[0][1]), (1, width)))

    inner = tuple(mapped_regions(op, changed) if isinstance(op, Op) else op for op in loop.body)
    inside = (*(Alloc(tensor) for tensor in narrow.values()), *inner)
    made = spliced(kernel.body, path, (replace(loop, body=inside),))
    for number in range(path[-1] - 1, -1, -1):
        statement = body[number]
        if isinstance(statement, Alloc) and statement.tensor.name in narrow:
            made = spliced(made, (*path[:-1], number), ())
    assert set(narrow) <= set(tensors)
    return replace(kernel, body=made)


def _loops(body: Body, path: Path = ()) -> Sequence[tuple[Path, Loop]]:
    found: list[tuple[Path, Loop]] = []
    for number, statement in enumerate(body):
        if isinstance(statement, Loop):
            found.append(((*path, number), statement))
            found += _loops(statement.body, (*path, number))
    return found


def _in_psum(kernel: Kernel, group: _Group) -> Kernel:
    """The loop with tiles of the strips in PSUM, one after the other, if this improves the
    estimate."""
    before = estimate(kernel)
    for _, loop in _loops(kernel.body):
        if loop.variable != group.loop:
            continue
        for statement in loop.body:
            if isinstance(statement, Alloc):
                try:
                    made = place(kernel, statement.tensor.name, "psum")
                except NotApplicableError:
                    continue
                after = estimate(made)
                if after.fits and after.total < before.total:
                    kernel, before = made, after
    return kernel

"""Two products of which the second one reads the results of the first one in local memory.

The results of the first product are the rows of the first operand of the second one. If a whole row
of them fits the memory for sums, it need not be stored and loaded, and no fence is needed:

    for i { T[i] = A[i] * B; store(T[i]); } fence(); for i { load(T[i]); C[i] = T[i] * D; .. }
    ->  for i { t = A[i] * B; C[i] = t * D; store(C[i]); }
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tilewright.proposers.rewriter.expr import Expr, var
from tilewright.proposers.rewriter.ir import Array, Body
from tilewright.proposers.rewriter.raising.computation import Computation, Operands
from tilewright.proposers.rewriter.raising.isa import Isa
from tilewright.proposers.rewriter.raising.nest_writer import NestWriter
from tilewright.proposers.rewriter.raising.nests import Nest
from tilewright.proposers.rewriter.raising.tiles import Tile
from tilewright.proposers.rewriter.raising.translation.parts import SPACING


def chain(
    computation: Computation, isa: Isa, arrays: Mapping[int, Array],
    nests: Sequence[tuple[Nest, int]], at: int,
) -> tuple[Body, int] | None:  # fmt: skip
    """The loops of nest `at` and the next one as one nest, and the number of the array between
    them; None if the first one's results are used elsewhere, or do not stay in local memory.

    Each nest is given with the width of a narrower last block of columns, or 0.
    """
    if at + 1 >= len(nests):
        return None
    (first, rest), (second, more) = nests[at : at + 2]
    between = first.points.base[0] // SPACING
    phases = [nest.phase for nest, _ in nests]
    alone = phases.count(first.phase) == phases.count(second.phase) == 1
    others = [nest for n, (nest, _) in enumerate(nests) if n != at]
    uses = [a // SPACING for nest in others for a in nest.points.base].count(between)
    if not alone or uses != 1 or between not in computation.own.numbers() or first.how.identities:
        return None
    if second.points.base[1] // SPACING != between:
        return None
    kinds = list(computation.kinds)
    settings = _settings_to_read(first, isa)
    if settings is None:
        return None
    kinds = [replace(kind, settings=settings(kind.settings)) for kind in kinds]
    writers = [NestWriter(isa, arrays, kinds, rest), NestWriter(isa, arrays, kinds, more)]
    inner, outer = (w.tile(nest) for w, nest in zip(writers, (first, second), strict=True))
    if not _is_row_of_tiles(inner, outer, writers[1], isa):
        return None
    space, rows = isa.machine.spaces[isa.sums], -(-inner.width // isa.width) * isa.height
    result = Expr(max(rows, space.bank_rows))
    if result.const + -(-min(outer.width, outer.most) // isa.width) * isa.height > space.rows:
        return None
    begin, products = writers[0].sum(inner, var(inner.block.name))
    again, sums = writers[1].sum(outer, result, held=True)
    setting, store = writers[1].stored(outer, result)
    body: Body = (*begin, *inner.in_blocks(tuple(products)))
    body = (*body, *again, *outer.in_blocks((*sums, store)))
    return (setting, *inner.in_loops(body, isa)), between


def _settings_to_read(first: Nest, isa: Isa) -> Callable[[Operands], Operands] | None:
    """A function from the settings of the array for a product to those with which it reads the
    results of a nest as the nest's store would write them; None if that is impossible."""
    machine = isa.machine
    array = machine.attribute(isa.product, "configured_by") or ""
    stores = machine.attribute(isa.store, "configured_by") or ""
    roles = (machine.attribute(array, "read_as_stored") or "").split()
    stored = dict(zip(machine.effects[stores].operands[1:], first.how.settings, strict=False))
    if first.how.unscaled or not roles or set(stored) - set(roles):
        return None
    names = machine.effects[array].operands

    def settings(given: Operands) -> Operands:
        known = {**dict(zip(names, given, strict=False)), "scale": 1.0, "activation": 0, **stored}
        return tuple(known[name] for name in names)

    return settings


def _is_row_of_tiles(inner: Tile, outer: Tile, writer: NestWriter, isa: Isa) -> bool:
    """Whether the rows of a tile's first operand are whole rows of results of the tiles inside."""
    size = isa.bytes_of(isa.factors)
    for terms, _ in writer.terms(outer):
        kind, points = writer.kinds[terms.kind], terms.points
        plain = not kind.transposed[0] and kind.factors[0] == 1.0 and kind.apart == size
        begins = (points.base[0], *(step[0] for step, _ in points.dims))
        if terms.first != 1 or not plain or any(at % (isa.width * size) for at in begins):
            return False

    def rows(tile: Tile, place: int) -> list[tuple[int, int]]:
        return [(dim.step[place], dim.count) for dim in (*tile.outer, tile.row)]

    same_rows = rows(inner, 0) == rows(outer, 1)
    return same_rows and outer.nest.points.base[1] == inner.nest.points.base[0]

"""Sequences that overlap all moves of a kernel of tiled products with its products.

The steps of such a sequence are only useful together: what is loaded for a tile, when, and in which
portions. Therefore, they are carried out wherever they apply, and the estimate only chooses the
tiles. In the result, several products use one operand, loads stay in local memory or are issued
ahead over all enclosing loops, and stores are delayed. Loads and stores are distributed among the
products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from tilewright.proposers.rewriter.analysis.ranges import env_of, labelled_loops, trip_count
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.extending import (
    Made,
    all_places,
    each_place,
    first_place,
    with_steps,
)
from tilewright.proposers.rewriter.planning.overlapped.loads import (
    keep_for_strip,
    keep_resident,
    load_wide,
    share_loads,
)
from tilewright.proposers.rewriter.planning.overlapped.loops import (
    merge_around_products,
    merge_tile_loops,
    unroll_products,
)
from tilewright.proposers.rewriter.planning.overlapped.moves import (
    alternate_results,
    complete_tiles,
    delay_stores,
    load_ahead,
    load_first_tile_late,
)
from tilewright.proposers.rewriter.planning.overlapped.queries import (
    divides,
    has_unit,
    label_around_products,
    loaded_buffers,
    loop_of_products,
    loops_beside,
    tile_count,
    tile_loops,
    tile_variable,
)
from tilewright.proposers.rewriter.planning.steps import Step

TECHNIQUES = frozenset(
    (
        *("keep-operand", "retile", "overwrite", "coalesce", "resident", "block-load"),
        *("double-accumulator", "pipeline", "interleave", "split", "unroll", "pack"),
    )
)
"""The techniques in these sequences. `pipeline-nest` belongs to `pipeline`."""
LATE = frozenset(("peel", "reorder", "stagger"))
"""The techniques that load the data of the first tile among its products."""
LATE_TILES = 8
"""Minimum number of tiles for which the data of the first tile are loaded among its products. With
fewer tiles, the wait before the first product matters less than the further steps that the code of
a separate first tile makes impossible.
"""
FINISHING = ("small-loads-first", "pack")
"""The techniques that are applied to a whole kernel at the end, in this order."""
FIRST_TILES = 4
"""Ways to enlarge tiles that may be enlarged a second time."""
TILES = 4
"""Number of tilings with which a sequence continues."""
WORTH = 0.005
"""Minimum share of the time that code without short loops of moves must save, because it is
longer."""


def overlapped_sequences(kernel: Kernel, machine: Machine, offered: Set[str]) -> Iterator[Made]:
    """The sequences, those with the best tiles first; none if one of their techniques is not
    available."""
    if not offered >= TECHNIQUES:
        return
    begun = all_places(((), kernel), machine, "overwrite")
    tilings = _tiled(begun, machine)
    most = TILES
    best = begun
    for tiles in tilings[:1]:
        made, tile = _overlapped(tiles, machine)
        best = made
        yield made
        if tile is None or not offered >= LATE or tile_count(tiles[1], machine) < LATE_TILES:
            break
        late = load_first_tile_late(made, machine, tile)
        if late is not made:
            yield late
            most -= 1  # so that sequences of other kinds are still among the first plans
        strips, tile = _by_strips(tiles, machine)
        if tile is not None:
            yield load_first_tile_late(strips, machine, tile)
            most -= 1
    whole = _whole_result(begun, machine)
    if whole is not None:
        yield whole
    streams = next(streamed(kernel, machine), best)
    if _ranked((best, streams), machine)[0] is not best:
        yield streams
        most -= 1
    for tiles in tilings[1:most]:
        yield _overlapped(tiles, machine)[0]


def _whole_result(made: Made, machine: Machine) -> Made | None:
    """A product whose whole result stays in local memory; None if it does not fit.

    Every operand is then loaded once, and the first products wait only for the first terms of the
    sums. For a small product, this saves more than stores that overlap the products. Where
    possible, the last terms are added tile by tile, so that the stores overlap these products.
    """
    for _ in tile_loops(made[1], machine):
        for label, loop, above in tile_loops(made[1], machine)[:1]:
            count = str(trip_count(loop, env_of(above)))
            made = with_steps((Step("retile", (label, count)),), made, machine)
    outermost = [
        (label, loop)
        for label, loop, above in labelled_loops(made[1].body)
        if not above and has_unit(loop, machine, "execute")
    ]
    if tile_loops(made[1], machine) or len(outermost) != 1:
        return None
    label, terms = outermost[0]
    made = alternate_results(made, machine)
    for name in loaded_buffers(made[1], machine):
        made = with_steps((Step("pipeline", (name, label, "2")),), made, machine)
    made = first_place(made, machine, "widen")
    label = label_around_products(made[1], machine, terms.var)
    made = complete_tiles(with_steps((Step("peel", (label, "last")),), made, machine), machine)
    made = first_place(made, machine, "reuse")
    work = loop_of_products(made[1], machine, terms.var)
    if work is not None:
        made = with_steps((Step("unroll", (work, "0")),), made, machine)
    return first_place(made, machine, "pack")


def _tiled(start: Made, machine: Machine) -> list[Made]:
    """Tiles that keep an operand in the array, enlarged in one or two dimensions of a product, the
    best first."""
    once = _ranked(each_place(start, machine, ("keep-operand",)), machine)
    twice = [
        made
        for first in once[:FIRST_TILES]
        for label in [first[0][-1].arguments[0]]
        for made in each_place(
            first, machine, ("keep-operand", "retile"), loops_beside(first[1], label)
        )
    ]
    best = _ranked(twice, machine)
    return [*once[:1], *best[: TILES - len(once[:1])], *once[1:], *best[TILES:]]


def _overlapped(made: Made, machine: Machine) -> tuple[Made, str | None]:
    """The kernel with these tiles in which all moves overlap the products, and the variable that
    counts its tiles; None, and an unfinished kernel, if there is no such variable."""
    made = merge_tile_loops(made, machine)
    made = share_loads(made, machine)
    made = keep_resident(made, machine)
    tile = tile_variable(made[1], machine)
    return (made, None) if tile is None else (_moved_beside(made, machine, tile), tile)


def streamed(kernel: Kernel, machine: Machine) -> Iterator[Made]:
    """Tiles of the first operand that stream past a second operand in local memory; none if it does
    not fit.

    The first results are complete early, and little code is enough: for a product that takes as
    long as fetching its code, this saves more than products that use one block in the array.
    """
    begun = all_places(((), kernel), machine, "overwrite")
    kept = keep_resident(begun, machine)
    made = merge_tile_loops(kept, machine)
    tile = tile_variable(made[1], machine)
    if kept is not begun and tile is not None:
        short = _moves_of_tile(load_wide(made, machine, tile), machine, tile)
        ways = (short, _unrolled_beside(made, machine, tile))
        yield _ranked((finished(way, machine) for way in ways), machine)[0]


def _by_strips(made: Made, machine: Machine) -> tuple[Made, str | None]:
    """The same with an operand that stays in local memory for all iterations of the innermost loop
    around tiles. None, and an unfinished kernel, unless the last of these tiles is narrower.

    A narrow tile loads as much as the others for fewer products, which then wait for it. An operand
    that is loaded once for a strip of tiles is loaded beside all of them.
    """
    around = tile_loops(made[1], machine)
    if len(around) < 2 or divides(around[-1][1]):
        return made, None
    strips = keep_for_strip(made, machine, around[-1][0])
    tile = around[-1][1].var
    return (made, None) if strips is made else (_moved_beside(strips, machine, tile), tile)


def _moved_beside(made: Made, machine: Machine, tile: str) -> Made:
    """The kernel in which the moves of each tile overlap the products of other tiles."""
    made = _unrolled_beside(made, machine, tile)
    return first_place(_written_out(made, machine), machine, "pack")


def finished(made: Made, machine: Machine) -> Made:
    """The kernel with its first loads in a better order, and with packed blocks."""
    for technique in FINISHING:
        made = first_place(made, machine, technique)
    return made


def _unrolled_beside(made: Made, machine: Machine, tile: str) -> Made:
    """The same without its last steps, with unrolled products."""
    made = merge_around_products(load_wide(made, machine, tile), machine, tile)
    return unroll_products(_moves_of_tile(made, machine, tile), machine, tile)


def _moves_of_tile(made: Made, machine: Machine, tile: str) -> Made:
    """The kernel that loads for the next tile and stores the result of the previous one."""
    made = delay_stores(made, machine, tile)
    for name in loaded_buffers(made[1], machine):
        made = load_ahead(made, machine, name, tile)
    return made


def _written_out(made: Made, machine: Machine) -> Made:
    """Short loops of moves are written out if the time for their code is worth it."""
    after = first_place(made, machine, "write-moves-out")
    before = estimate(made[1], machine).total
    return after if estimate(after[1], machine).total < (1 - WORTH) * before else made


def _ranked(found: Iterable[Made], machine: Machine) -> list[Made]:
    return sorted(found, key=lambda made: estimate(made[1], machine).total)

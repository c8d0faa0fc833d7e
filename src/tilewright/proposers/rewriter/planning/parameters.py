"""Numbers for rewrites that the kernel and the machine allow: tiles, slots, unrolling.

Small numbers are always offered, because they cost little. The largest number is the one for which
the data fit into half of a memory, the time of a load is hidden, or the code fits into the
instruction cache.
"""

from __future__ import annotations

import math

from tilewright.proposers.rewriter.analysis.buffers import MAX_SLOTS, Buffer, find_buffers
from tilewright.proposers.rewriter.analysis.ranges import env_of, trip_count, trips
from tilewright.proposers.rewriter.estimate.cost import Cost
from tilewright.proposers.rewriter.estimate.timeline import LATENCY
from tilewright.proposers.rewriter.ir import Body, Kernel, Loop, commands, is_core_loop
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.rewrites.loops import MAX_UNROLLED


def tile_factors(kernel: Kernel, machine: Machine, loop: Loop, above: Body) -> list[int]:
    """Numbers of neighbouring tiles for one iteration.

    These are 2, 4, 8 if it divides the number of tiles, and as many as fit into half of the
    memories.

    The other half is for the next tile. If a tile filled a memory, there would be no slot to load
    or store another one at the same time, and no later step could change this. The largest number
    divides the number of tiles, or is a power of two if no divisor is close. If each number leaves
    an incomplete last group, all tiles are offered too, provided that they fit into the memories.
    """
    count, room = _tiles(kernel, machine, loop, above)
    most = min(count, room // 2)
    divisor = max((f for f in range(1, most + 1) if count % f == 0), default=1)
    largest = divisor if 2 * divisor > most else 1 << (most.bit_length() - 1)
    small = (2, 4) if count % 8 else (2, 4, 8)
    found = {f for f in (*small, largest) if 2 <= f <= most}
    if found and count <= room and all(count % f for f in found):
        found.add(count)
    return sorted(found)


def all_tile_factors(kernel: Kernel, machine: Machine, loop: Loop, above: Body) -> list[int]:
    """Every number of neighbouring tiles that divides their number or is a power of two."""
    count, room = _tiles(kernel, machine, loop, above)
    most = min(count, room // 2)
    return [f for f in range(2, most + 1) if count % f == 0 or f & (f - 1) == 0]


def _tiles(kernel: Kernel, machine: Machine, loop: Loop, above: Body) -> tuple[int, int]:
    """The number of tiles of a loop, and how many such tiles fit into the memories; 0 if
    unknown."""
    count = trip_count(loop, env_of(above))
    if count is None or count < 2:
        return 0, 0
    inside = set(commands(loop.body))
    used = dict.fromkeys(machine.spaces, 0)
    for buffer in find_buffers(kernel, machine):
        if any(a.command in inside for a in buffer.accesses):
            used[buffer.space] += buffer.rows * buffer.slots
    return count, min((machine.spaces[s].rows // n for s, n in used.items() if n), default=2)


def slot_counts(buffer: Buffer, loop: Loop, above: Body, cost: Cost) -> list[int]:
    """Numbers of slots of a loaded buffer: 2, 3, and as many as hide the time from load to use."""
    rounds = 1.0
    for position, around in enumerate((*above, loop)):
        if isinstance(around, Loop):
            rounds *= trip_count(around, env_of(above[:position])) or 1
    per_iteration = max(cost.array / rounds, 1.0)
    ahead = 1 + math.ceil((LATENCY + buffer.rows) / per_iteration)
    return sorted({2, 3, min(max(ahead, 2), MAX_SLOTS)})


CORE_FACTORS = (8, 4, 16)
"""Unrolling factors of loops of the core's code, the usual one first."""


def unroll_factors(loop: Loop, above: Body) -> list[int]:
    """Unrolling factors: 0 for all iterations if they fit, 2, and the largest divisor that fits.
    For a loop of the core's code, the usual one."""
    whole, divisors = _unrolled(loop, above)
    if is_core_loop(loop):
        return divisors[:1]
    return sorted({*whole, *divisors[:1], *divisors[-1:]})


def all_unroll_factors(loop: Loop, above: Body) -> list[int]:
    """Unrolling factors: 0 for all iterations if they fit, and every divisor that fits."""
    whole, divisors = _unrolled(loop, above)
    return [*whole, *divisors]


def _unrolled(loop: Loop, above: Body) -> tuple[list[int], list[int]]:
    """0 if all iterations fit, and the smaller divisors of their number that fit. For a loop of
    the core's code, the numbers for which the compiler is asked."""
    fewest, most = trips(loop, env_of(above))
    if is_core_loop(loop):
        return [], [f for f in CORE_FACTORS if f <= most]
    if fewest != most or not math.isfinite(most):
        return [], []
    count, fits = int(most), MAX_UNROLLED // max(1, sum(1 for _ in commands(loop.body)))
    divisors = [f for f in range(2, min(count - 1, fits) + 1) if count % f == 0]
    return [0] if 2 <= count <= fits else [], divisors

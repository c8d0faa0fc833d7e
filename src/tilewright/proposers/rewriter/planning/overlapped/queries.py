"""What the sequences ask about a kernel: its tiles, loops around uses, and numbers of commands."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.proposers.rewriter.analysis.buffers import find_buffers
from tilewright.proposers.rewriter.analysis.ranges import env_of, labelled_loops, loops_in, trips
from tilewright.proposers.rewriter.ir import Body, Command, Kernel, Loop, children, commands
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.extending import Made


def tile_loops(kernel: Kernel, machine: Machine) -> list[tuple[str, Loop, Body]]:
    """The loops around both products and stores, outermost first."""
    return [
        found
        for found in labelled_loops(kernel.body)
        if has_unit(found[1], machine, "execute") and has_unit(found[1], machine, "store")
    ]


def divides(loop: Loop) -> bool:
    """Whether the step of a loop divides its range, as far as that is known."""
    span = loop.upper - loop.lower
    return not span.is_const or span.const % loop.step == 0


def tile_variable(kernel: Kernel, machine: Machine) -> str | None:
    """The variable of the innermost loop around products and stores, whose iterations are tiles."""
    found = tile_loops(kernel, machine)
    return found[-1][1].var if found else None


def tile_count(kernel: Kernel, machine: Machine) -> float:
    """The largest number of tiles of a nest of products and stores; 0 if there is no such nest."""
    counts: dict[Loop, float] = {}
    for _, loop, above in tile_loops(kernel, machine):
        around = loops_in(above)
        outside = counts[around[-1]] if around else 1.0
        counts[loop] = outside * trips(loop, env_of(above))[1]
    return max(counts.values(), default=0.0)


def label_around_products(kernel: Kernel, machine: Machine, variable: str) -> str:
    """The label of the loop over a variable that is around products; empty if there is none."""
    return next(
        (
            label
            for label, loop, _ in labelled_loops(kernel.body)
            if loop.var == variable and has_unit(loop, machine, "execute")
        ),
        "",
    )


def loop_of_products(kernel: Kernel, machine: Machine, variable: str) -> str | None:
    """The label of the only loop with products directly inside such a loop; None if there are
    several or none."""
    label = label_around_products(kernel, machine, variable)
    loops = {s: found for found, s, _ in labelled_loops(kernel.body)}
    bodies = [s.body for s, found in loops.items() if found == label]
    inside = [
        s for b in bodies for s in b if isinstance(s, Loop) and has_unit(s, machine, "execute")
    ]
    return loops[inside[0]] if len(inside) == 1 else None


def label_inside(kernel: Kernel, label: str) -> str | None:
    """The label of the first loop directly inside the loop with a label."""
    loops = labelled_loops(kernel.body)
    around = next((loop for found, loop, _ in loops if found == label), None)
    return next((found for found, _, above in loops if above and above[-1] is around), None)


def loops_inside(kernel: Kernel, label: str) -> list[str]:
    """The loops inside the loop with a label."""
    loops = labelled_loops(kernel.body)
    around = next((loop for found, loop, _ in loops if found == label), None)
    return [found for found, _, above in loops if around in above]


def loops_beside(kernel: Kernel, label: str) -> set[str]:
    """The other loops of the nest that contains the loop with a label."""
    nests: list[set[str]] = []
    for found, _, above in labelled_loops(kernel.body):
        if not loops_in(above):
            nests.append(set())
        nests[-1].add(found)
    return next((nest - {label} for nest in nests if label in nest), set())


def takes_at_most(made: Made, machine: Machine, name: str, most: float) -> bool:
    """Whether a buffer takes at most a given share of its memory."""
    buffer = next((b for b in find_buffers(made[1], machine) if b.name == name), None)
    return buffer is not None and buffer.rows <= most * machine.spaces[buffer.space].rows


def products_in_iteration(loop: Loop, above: Body, machine: Machine) -> float:
    """Number of products in an iteration of a loop in a whole tile. Partial last tiles have
    fewer."""

    def iterations(inner: Loop, around: Body) -> float:
        return trips(inner, env_of(around))[1]

    def multiplies(name: str) -> bool:
        return machine.attribute(name, "uses") is not None

    return _count(loop.body, (*above, loop), multiplies, iterations)


def cycles_of_product(machine: Machine) -> int:
    """The cycles of a product: the array takes one row of it in each."""
    rows = (
        machine.attribute(n, "max_rows") for n in machine.effects if machine.attribute(n, "uses")
    )
    return max((int(r) for r in rows if r), default=1)


def commands_issued(body: Body, machine: Machine, unit: str) -> float:
    """Minimum number of commands of a unit that a body issues."""
    return _count(
        body, (), lambda name: machine.unit(name) == unit, lambda loop, _: trips(loop, {})[0]
    )


def _count(
    body: Body,
    above: Body,
    counts: Callable[[str], bool],
    iterations: Callable[[Loop, Body], float],
) -> float:
    """Number of commands that a body inside some loops issues and whose names count."""
    count = 0.0
    for stmt in body:
        if isinstance(stmt, Loop):
            inside = _count(stmt.body, (*above, stmt), counts, iterations)
            count += iterations(stmt, above) * inside
        elif isinstance(stmt, Command):
            count += counts(stmt.name)
        else:
            count += _count(children(stmt), above, counts, iterations)
    return count


def loaded_buffers(kernel: Kernel, machine: Machine) -> list[str]:
    """Buffers with data that products only read."""
    return [
        b.name
        for b in find_buffers(kernel, machine)
        if b.writers and all(machine.unit(a.command.name) == "load" for a in b.writers)
    ]


def has_unit(loop: Loop, machine: Machine, unit: str) -> bool:
    """Whether a loop contains commands of a unit."""
    return any(machine.unit(c.name) == unit for c in commands(loop.body))


def loops_around(kernel: Kernel, machine: Machine, name: str) -> list[str]:
    """The loops around all uses of a buffer, innermost first; empty if there are none."""
    buffer = next((b for b in find_buffers(kernel, machine) if b.name == name), None)
    if buffer is None:
        return []
    shared = set(loops_in(buffer.accesses[0].above))
    for access in buffer.accesses:
        shared &= set(loops_in(access.above))
    return [label for label, loop, _ in reversed(labelled_loops(kernel.body)) if loop in shared]

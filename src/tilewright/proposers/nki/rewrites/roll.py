"""Turns repeated instructions back into loops, so that rewrites of loops apply to them.

Before:                                       After:

    t_1, t_2, t_3 = tiles                         t = one tile of three times the columns
    load(t_1, x[0:128])                           for i in range(3):
    load(t_2, x[128:256])                             load(t[:, i * 512 : ...], x[i * 128 : ...])
    load(t_3, x[256:384])                         use(t[:, 512:1024])
    use(t_2)

Kernels that keep tiles in lists are read like this, because the reader writes out their loops. The
instructions run in the same order as before, so the results are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tilewright.proposers.nki.analysis.dependence import KernelFacts, NotApplicableError
from tilewright.proposers.nki.analysis.repetitions import (
    Flat,
    Repetition,
    Slot,
    number_of,
    repetitions,
)
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Path,
    Region,
    Statement,
    mapped_ops,
    ops,
    spliced,
    substituted,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.cleaning import cleaned
from tilewright.proposers.nki.rewrites.tile_lists import TileLists, WideTile, with_wide_tiles
from tilewright.proposers.nki.rewrites.unroll_and_jam import is_parallel
from tilewright.proposers.nki.rewrites.uses import with_body


def roll(kernel: Kernel) -> Kernel:
    """The kernel in which all repeated instructions are loops."""
    made = kernel
    while (after := _once(made)) is not None:
        made = cleaned(after)
    made = replace(made, body=_flattened(made.body))
    if made == kernel:
        raise NotApplicableError("no consecutive instructions differ only in their places")
    return made


def _once(kernel: Kernel) -> Kernel | None:
    """The kernel with the loop that saves most statements of the first body that repeats any."""
    bodies: list[tuple[Path, Body]] = [((), kernel.body)]
    bodies += [(path, s.body) for path, s in kernel.statements() if isinstance(s, Loop)]
    for path, body in bodies:
        for run in repetitions(Flat.of(body, kernel.tensors())):
            try:
                return _rolled(kernel, path, body, run)
            except NotApplicableError:
                continue
    return None


def _rolled(kernel: Kernel, path: Path, body: Body, run: Repetition) -> Kernel:
    """The kernel with a loop instead of a repetition in the body at `path`."""
    name = Names(kernel).fresh("i")
    tiles = _Tiles.of(kernel, path, body, run, {**kernel.trips(), name: run.count})
    columns = iter(run.columns())
    template = [body[n] for n in run.statements(0)]
    private = tuple(s for s in body if isinstance(s, Alloc) and s.tensor.name in tiles.first)
    made = (*private, *(_repeated(s, name, columns, tiles) for s in template))
    loop = Loop(name, run.count, "sequential_range", made)
    replaced = {n for i in range(run.count) for n in run.statements(i)}
    rest: list[Statement] = []
    for number, statement in enumerate(body):
        if number == run.statements(0)[0]:
            rest.append(loop)
        elif number not in replaced and not (
            isinstance(statement, Alloc) and statement.tensor.name in tiles.private
        ):
            rest.append(statement)
    after = with_body(kernel, path, tuple(rest))
    after = replace(after, body=with_wide_tiles(after.body, [*tiles.wide.values()]))
    return _parallel(after, name)


@dataclass(frozen=True, slots=True)
class _Tiles:
    """The tiles of which each iteration uses another one."""

    lists: TileLists
    wide: Mapping[int, WideTile]
    """The tiles that replace lists."""
    private: frozenset[str]
    """Tiles in the body of the loop that one iteration uses and nothing else."""
    first: frozenset[str | None]
    """Those of the first iteration, which all iterations use in the loop."""

    @classmethod
    def of(
        cls, kernel: Kernel, path: Path, body: Body, run: Repetition, trips: Mapping[str, int]
    ) -> _Tiles:
        """The tiles of a repetition; `NotApplicableError` if they cannot become the same tile, or
        parts of one."""
        lists, used = TileLists(), list[list[str]]()
        for column in run.columns():
            names = [name for name, _ in column if name is not None]
            if len(set(names)) > 1:
                used.append(names)
                lists.add(names)
        tensors, new = kernel.tensors(), Names(kernel)
        homes = {s.tensor.name: p[:-1] for p, s in kernel.statements() if isinstance(s, Alloc)}
        owners = {n: i for i in range(run.count) for n in run.statements(i)}
        wide: dict[int, WideTile] = {}
        private = list[str]()
        for number, members in enumerate(lists.lists):
            places = {homes[name] for name in members}
            if all(len(home) > len(path) and home[: len(path)] == path for home in places):
                continue  # in inner loops
            if len(places) > 1:
                raise NotApplicableError("the tiles of a list are created in several places")
            others = [names for names in used if names[0] in members and names != members]
            if places == {path} and not others and _only_in(body, members, owners):
                private += members
                continue
            part = tensors[members[0]]
            wide[number] = WideTile.of(part, members, new.fresh(part.name), trips)
        first = frozenset(name for name, _ in run.slots(0) if name in private)
        return cls(lists, wide, frozenset(private), first)


def _only_in(body: Body, members: Sequence[str], owners: Mapping[int, int]) -> bool:
    """Whether each tile is used only by its own iteration of a body's statements."""
    return all(
        region.tensor not in members or owners.get(place) == members.index(region.tensor)
        for place, statement in enumerate(body)
        for op in ops((statement,))
        for _, region in op.regions
    )


def _repeated(
    statement: Statement, name: str, columns: Iterator[tuple[Slot, ...]], tiles: _Tiles
) -> Statement:
    """The statement of the first iteration as that of iteration `name`."""
    if isinstance(statement, Alloc):
        next(columns)
        return statement
    if isinstance(statement, Loop):
        inner = tuple(_repeated(s, name, columns, tiles) for s in statement.body)
        return replace(statement, body=inner)
    arguments = []
    for key, value in statement.arguments:
        number = value.offset if isinstance(value, Region) else number_of(key, value)
        if number is None:
            arguments.append((key, value))
            continue
        column = next(columns)
        number = number + variable(name) * (column[1][1] - column[0][1]).constant
        if not isinstance(value, Region):
            arguments.append((key, number))
            continue
        region = replace(value, offset=number)
        names = [tensor for tensor, _ in column if tensor is not None]
        if names[0] != names[1]:
            listed, first, step = tiles.lists.spread(names)
            if listed in tiles.wide:
                position = Linear(first) + variable(name) * step
                region = tiles.wide[listed].region(region, position)
        arguments.append((key, region))
    return Op(statement.name, tuple(arguments))


def _parallel(kernel: Kernel, name: str) -> Kernel:
    """The kernel with a loop that may run in any order, if its iterations are independent."""
    for path, loop in kernel.statements():
        if isinstance(loop, Loop) and loop.variable == name:
            if is_parallel(loop, KernelFacts.of(kernel)):
                free = replace(loop, kind="affine_range")
                return replace(kernel, body=spliced(kernel.body, path, (free,)))
            break
    return kernel


def _flattened(body: Body) -> Body:
    """The body in which a loop over nothing but another loop is merged with it, if both together
    count evenly."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            statement = replace(statement, body=_flattened(statement.body))
            inner = statement.body[0]
            if (
                len(statement.body) == 1
                and isinstance(inner, Loop)
                and _counts_on(statement, inner)
            ):
                kind = statement.kind if statement.kind == inner.kind else "sequential_range"
                once = {statement.variable: Linear()}
                merged = mapped_ops(inner.body, partial(substituted, values=once))
                statement = Loop(inner.variable, statement.trips * inner.trips, kind, merged)
        found.append(statement)
    return tuple(found)


def _counts_on(outer: Loop, inner: Loop) -> bool:
    """Whether all numbers grow by as much in an iteration of the outer loop as in all iterations of
    the inner one."""
    values = (
        value.offset if isinstance(value, Region) else value
        for op in ops(inner.body)
        for _, value in op.arguments
    )
    return all(
        value.factor(outer.variable) == value.factor(inner.variable) * inner.trips
        for value in values
        if isinstance(value, Linear)
    )

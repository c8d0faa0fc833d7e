"""Vectorise a loop: `lanes` iterations become one on vectors.

Before::

    for (int c = 0; c < 1000; c++) sum = sum + X[r][c] * X[r][c];

After (16 lanes)::

    vf sum_1 = v_splat(0.0f);
    for (int c = 0; c < 992; c += 16)
      sum_1 = sum_1 + *(const vf *)&X[r][c] * *(const vf *)&X[r][c];
    sum = sum + v_sum(sum_1);
    for (int c = 992; c < 1000; c++) sum = sum + X[r][c] * X[r][c];

If iterations may run twice, because they add to no array or variable, and read nothing that the
loop writes, the last vector begins at iteration 984 instead, and no iteration remains. Such loops
also begin with an additional vector if the others can then be stored at multiples of their size
(`alignment`). A running
sum is the sum of the lanes up to each lane (`v_running`), or of the lanes before it if the sum is
read before it grows, plus the sum of the previous vectors. Running sums of integers are in
`exact_scans`. Running maxima and minima are computed in the same way. Values that are the same in
all iterations are computed before the loop (`invariants`). A loop that reads and writes its arrays
from the last element to the first is reversed first. Inner loops are kept: values that are private
to an iteration become vectors, and values that do not change with the loop's variable stay scalars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    Reduction,
    coefficient,
    declared_in,
    fresh,
    names_in,
    reductions,
    scans,
    visible_types,
)
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Select,
    Statement,
    Type,
    Var,
    around,
    changed_in,
    expressions,
    loops,
    statements,
    with_loop,
)
from tilewright.proposers.loops.rewrites.alignment import iterations_to_aligned
from tilewright.proposers.loops.rewrites.exact_scans import sums_whole_numbers, whole_scan
from tilewright.proposers.loops.rewrites.exchanges import with_extremes
from tilewright.proposers.loops.rewrites.invariants import moved_out
from tilewright.proposers.loops.rewrites.vectors import Converter

COMBINED = {"sum": "v_sum", "most": "v_most", "least": "v_least"}
SCALAR = {"most": "fmaxf", "least": "fminf"}


def vectorise(kernel: Kernel, number: int, lanes: int) -> Kernel:
    """The kernel in which loop `number` is vectorised. Raises `NotApplicableError`."""
    kernel = with_extremes(kernel, number)
    loop = loops(kernel)[number]
    if loop.step != 1 or loop.trips < lanes or kernel.lanes not in (0, lanes):
        raise NotApplicableError(
            "the step of the loop is not 1, or the loop has too few iterations"
        )
    if lanes & (lanes - 1):
        raise NotApplicableError(f"the number of lanes, {lanes}, is not a power of two")
    if sums_whole_numbers(kernel, number):
        return whole_scan(kernel, number, lanes)
    types = visible_types(kernel, number)
    own = declared_in(loop.body)
    if any(isinstance(s, Command) for s in statements(loop.body)):
        raise NotApplicableError("the loop contains more than arithmetic on floats")
    declared = [s for s in statements(kernel.body) if isinstance(s, Declare)]
    of_vectors = {s.name for s in declared if s.type == "vector" and s.sizes}
    if "vector" in own.values() or any(
        isinstance(e, Load) or (isinstance(e, Element) and e.array in of_vectors)
        for e in expressions(loop.body)
    ):
        raise NotApplicableError("the loop already contains vectors")
    running = scans(loop, types)
    found = reductions(loop, types, running)
    if any(r.type != "float" for r in found):
        raise NotApplicableError("the loop reduces vectors or numbers of double precision")
    require_independent(loop, kernel)
    if not running and _runs_backwards(loop):
        loop = _turned_round(loop)
    taken = names_in(kernel)
    partial = {r.name: fresh(r.name, taken) for r in found}
    carried = {name: fresh(name, taken) for name in running}
    here = {name: fresh(name, taken) for name in running}
    scanned = loop.body
    starts = {name: fresh(name, taken) for name, kind in running.items() if kind != "sum"}
    for name, kind in running.items():
        if kind == "sum":
            scanned = _scanned(scanned, name, carried[name], here[name], taken)
        else:
            names = (name, carried[name], here[name], starts[name])
            scanned = _extremes_so_far(scanned, kind, names, taken)
    body = tuple(changed_in(s, lambda e: _renamed(e, partial)) for s in scanned)
    vectors_before = {*partial.values(), *carried.values(), *starts.values()}
    known: dict[str, Type] = {**types, **own, **dict.fromkeys(vectors_before, "vector")}
    known |= {s.name: s.type for s in body if isinstance(s, Declare)}
    within = [replace(loop, body=body), *(o for o in around(kernel, number)[:-1])]
    converter = Converter(kernel, within, known, vectors_before)
    vectors = converter.converted(body)
    repeatable = not running and _may_run_twice(loop, found)
    ahead = iterations_to_aligned(loop, kernel, lanes) if repeatable else 0
    begin = loop.first + ahead
    main = begin + (loop.last - begin) // lanes * lanes
    new: list[Statement] = [
        Declare("vector", partial[r.name], (), Call("v_splat", (_identity(r),))) for r in found
    ]
    new += [
        Declare("vector", vector, (), Call("v_splat", (Var(name),)))
        for name, vector in (*starts.items(), *carried.items())
    ]
    vectorised = replace(loop, first=begin, last=main, step=lanes, body=vectors)
    before, vectorised = moved_out(vectorised, converter.is_float, taken)
    new += before
    if ahead:
        new.append(replace(vectorised, first=loop.first, last=loop.first + lanes, threads=1))
    new.append(vectorised)
    repeated = main < loop.last and repeatable
    if repeated:
        new.append(replace(vectorised, first=loop.last - lanes, last=loop.last, threads=1))
    new += [Assign(Var(n), Call("v_first", (Var(vector),))) for n, vector in carried.items()]
    new += [Assign(Var(r.name), _combined(r, partial[r.name])) for r in found]
    if main < loop.last and not repeated:
        new.append(replace(loop, first=main, threads=1))
    return replace(with_loop(kernel, number, tuple(new)), lanes=lanes)


def _runs_backwards(loop: For) -> bool:
    """Whether each iteration accesses elements before those of the previous iteration."""
    found = {
        coefficient(subscript, loop.variable)
        for e in expressions(loop.body)
        if isinstance(e, Element)
        for subscript in e.subscripts
    }
    return found - {0} == {-1} and loop.first >= 0


def _turned_round(loop: For) -> For:
    """The loop with its iterations, which do not depend on one another, in the opposite order."""
    variable = Var(loop.variable)
    other = Binary("-", Number(str(loop.first + loop.last - 1)), variable)
    change = tuple(changed_in(s, lambda e: other if e == variable else e) for s in loop.body)
    return replace(loop, body=change)


def _may_run_twice(loop: For, found: Sequence[Reduction]) -> bool:
    """Whether an iteration has the same result if it runs again after others. It then reads no
    array that the loop writes, and adds to nothing.
    """
    targets = [s.target for s in statements(loop.body) if isinstance(s, Assign)]
    written = [target for target in targets if isinstance(target, Element)]
    read = [e for e in expressions(loop.body) if isinstance(e, Element)]
    for target in written:
        read.remove(target)
    arrays = {e.array for e in written} & {e.array for e in read}
    return not arrays and all(r.kind != "sum" for r in found)


def _scanned(
    body: tuple[Statement, ...], name: str, carried: str, here: str, taken: set[str]
) -> tuple[Statement, ...]:
    """A running sum as the running sum of the lanes plus the carried value, and the new carried
    value.

    Statements before the addition use the sum of the lanes before each lane.
    """
    place = next(i for i, s in enumerate(body) if isinstance(s, Assign) and s.target == Var(name))
    added = _added(body[place], name)
    early = [i for i, s in enumerate(body[:place]) if Var(name) in expressions((s,))]
    first = min(early, default=place)
    lanes, before = Var(fresh("lanes", taken)), Var(carried)
    computed: list[Statement] = [Declare("float", lanes.name, (), Call("v_running", (added,)))]
    if early:
        earlier = fresh(name, taken)
        lower = Binary("+", Call("v_before", (lanes,)), before)
        computed.append(Declare("float", earlier, (), lower))
        body = tuple(_with(s, name, earlier) if i < place else s for i, s in enumerate(body))
    return (
        *body[:first],
        *computed,
        *body[first:place],
        Declare("float", here, (), Binary("+", lanes, before)),
        Assign(before, Binary("+", before, Call("v_ends", (lanes,)))),
        *(_with(s, name, here) for s in body[place + 1 :]),
    )


def _extremes_so_far(
    body: tuple[Statement, ...], kind: str, names: tuple[str, str, str, str], taken: set[str]
) -> tuple[Statement, ...]:
    """A running maximum or minimum as that of the lanes, together with the carried value.

    `names` are the variable, the carried value, the value in an iteration and the value before the
    loop, which stands for lanes that are not a number: a comparison never chooses them.
    """
    name, carried, here, start = names
    place = next(i for i, s in enumerate(body) if isinstance(s, Assign) and s.target == Var(name))
    statement, function = body[place], SCALAR[kind]
    assert isinstance(statement, Assign)
    numbers = Call(function, (_compared_with(name, statement.value), Var(start)))
    lanes = Var(fresh("lanes", taken))
    return (
        *body[:place],
        Declare("float", lanes.name, (), Call(f"v_running_{kind}", (numbers,))),
        Declare("float", here, (), Call(function, (lanes, Var(carried)))),
        Assign(Var(carried), Call(function, (Call("v_ends", (lanes,)), Var(carried)))),
        *(_with(s, name, here) for s in body[place + 1 :]),
    )


def _compared_with(name: str, value: Expr) -> Expr:
    """The other operand of a maximum or minimum."""
    sides = value.arguments if isinstance(value, Call) else ()
    if isinstance(value, Select):
        sides = (value.value, value.other)
    return next(side for side in sides if side != Var(name))


def _added(statement: Statement, name: str) -> Expr:
    """The value that an assignment adds to a variable."""
    assert isinstance(statement, Assign)
    value = statement.value
    assert isinstance(value, Binary)
    added = value.right if value.left == Var(name) else value.left
    return Negative(added) if value.operator == "-" else added


def _with(statement: Statement, name: str, other: str) -> Statement:
    return changed_in(statement, lambda e: _renamed(e, {name: other}))


def _renamed(expr: Expr, names: dict[str, str]) -> Expr:
    return Var(names[expr.name]) if isinstance(expr, Var) and expr.name in names else expr


def _identity(reduction: Reduction) -> Expr:
    return Number("0.0f") if reduction.kind == "sum" else Var(reduction.name)


def _combined(reduction: Reduction, partial: str) -> Expr:
    lanes = Call(COMBINED[reduction.kind], (Var(partial),))
    if reduction.kind == "sum":
        return Binary("+", Var(reduction.name), lanes)
    return Call(SCALAR[reduction.kind], (Var(reduction.name), lanes))

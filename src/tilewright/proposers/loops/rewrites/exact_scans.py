"""Compute `lanes` iterations of a running sum of integers or doubles at once.

Before::

    for (int i = 0; i < 1000; i++) {
      sum = sum + X[i];
      Y[i] = sum;
    }

After (16 lanes)::

    vf sum_1 = v_bits(sum);
    for (int i = 0; i < 992; i += 16) {
      int32_t sums_1[16];
      vf lanes_1 = v_bits_running(*(const vf *)&X[i]);
      *(vf *)&sums_1[0] = v_bits_plus(lanes_1, sum_1);
      sum_1 = v_bits_plus(sum_1, v_ends(lanes_1));
      for (int n_2 = 0; n_2 < 16; n_2++) Y[i + n_2] = sums_1[n_2];
    }
    sum = v_bits_first(sum_1);
    for (int i = 992; i < 1000; i++) { .. as before .. }

The vectors contain the bits of integers, and their sums wrap around, so parts of a sum may be too
large even if the sum is not. Compilers vectorise the loops over lanes. If the summands are not
elements of the sum's type side by side in an array, a first loop over lanes stores them in an array
`part_1`. A statement that reads the sum before the addition gets `sums_1[n_2] - X[i + n_2]`, or
`sums_1[n_2] - part_1[n_2]`, which is exact for integers only. If all other statements only store
sums, differences and elements of the sum's type side by side, they use vectors as well, as in `*(vf
*)&Y[i] = v_bits_plus(lanes_1, sum_1)`. Sums of 8 or 16 bits are computed with 32 bits, and
truncated where they are read. A vector contains half as many sums of 64 bits; their arrays still
have `lanes` elements, the length of a vector in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.argmax_loops import type_of
from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    array_types,
    fresh,
    names_in,
    reduction_of,
    visible_types,
)
from tilewright.proposers.loops.analysis.independence import require_independent
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.c_types import is_whole
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Statement,
    Type,
    Var,
    changed,
    changed_in,
    expressions,
    loops,
    walk,
    with_loop,
)

_KINDS: Mapping[str, str] = {
    **dict.fromkeys(("int", "int32_t", "uint32_t"), "bits"),
    **dict.fromkeys(("int8_t", "uint8_t", "int16_t", "uint16_t"), "bits"),
    **dict.fromkeys(("int64_t", "uint64_t"), "wide"),
    "double": "double",
}
"""What the functions on vectors of sums of a type are called."""
_UNSIGNED: Mapping[str, Type] = {"bits": "uint32_t", "wide": "uint64_t"}
"""Types whose sums begin again at zero, so that no part of a sum is too large."""
_ALIKE = ("int", "int32_t", "uint32_t")
"""Types whose sums have the same bits."""
_NARROW = ("int8_t", "uint8_t", "int16_t", "uint16_t")


def sums_whole_numbers(kernel: Kernel, number: int) -> bool:
    """Whether loop `number` updates exactly one variable, which is an integer or a double, and also
    reads this variable in another statement."""
    loop, types = loops(kernel)[number], visible_types(kernel, number)
    sums = [s for s in loop.body if isinstance(s, Assign) and isinstance(s.target, Var)]
    if len(sums) != 1 or types.get(_name_of(sums[0].target)) not in _KINDS:
        return False
    others = tuple(s for s in loop.body if s is not sums[0])
    return sums[0].target in expressions(others)


def _name_of(target: Expr) -> str:
    assert isinstance(target, Var)
    return target.name


def whole_scan(kernel: Kernel, number: int, lanes: int) -> Kernel:
    """The kernel in which the running sum of loop `number` uses vectors. Raises
    `NotApplicableError`."""
    loop, types = loops(kernel)[number], visible_types(kernel, number)
    place = next(
        i for i, s in enumerate(loop.body) if isinstance(s, Assign) and isinstance(s.target, Var)
    )
    scanned = loop.body[place]
    assert isinstance(scanned, Assign)
    total = Var(_name_of(scanned.target))
    if any(
        isinstance(s, (For, Command)) or (isinstance(s, Declare) and s.sizes) for s in loop.body
    ):
        raise NotApplicableError("the loop with a running sum contains loops or arrays")
    if any(isinstance(e, Load) for e in expressions(loop.body)):
        raise NotApplicableError("the loop already contains vectors")
    total_type = types[total.name]
    word = _KINDS[total_type]
    value = scanned.value
    if isinstance(value, Cast) and value.type == total_type and is_whole(total_type):
        value = value.value  # what an assignment does as well
    if not isinstance(value, Binary) or reduction_of(total.name, value) != "sum":
        raise NotApplicableError(f"{total.name} is more than a running sum")
    early = any(total in expressions((s,)) for s in loop.body[:place])
    if early and not is_whole(total_type):
        raise NotApplicableError(f"{total.name} is read before it grows, and would be rounded")
    needed = _needed(value, loop.body[:place], total)
    added = _added(value, total)
    known = {**array_types(kernel), **types, **{s.name: s.type for s in needed}}
    known[loop.variable] = "int"
    kind = type_of(added, known)
    if kind is None or (is_whole(total_type) and not is_whole(kind)):
        raise NotApplicableError(f"what is added to {total.name} is not an integer")
    _require_unwritten((*needed, scanned), loop.body[:place])
    require_independent(loop, kernel)
    taken = names_in(kernel)
    names = {name: fresh(name, taken) for name in ("part", "sums", "lanes")}
    carried, lane = Var(fresh(total.name, taken)), Var(names["lanes"])
    own: Type = "int32_t" if total_type in _NARROW else total_type
    at_once = lanes if word == "bits" else lanes // 2
    main = loop.first + loop.trips // at_once * at_once
    if value.operator == "-":
        added = Negative(Cast(_UNSIGNED[word], added) if word in _UNSIGNED else added)
    ends = "v_ends" if word == "bits" else f"v_{word}_ends"
    # Vectors of 64-bit numbers have fewer elements than `lanes`, which other rewrites assume.
    direct = _as_vector(added, loop, known) if word == "bits" else None
    summands: tuple[Statement, ...] = ()
    if direct is None:
        summands = (
            Declare(own, names["part"], (lanes,)),
            _summands(loop, needed, added, names["part"], at_once, taken),
        )
    vector = direct or _vector(names["part"])
    part = added if direct is not None else None
    running = Declare("vector", lane.name, (), Call(f"v_{word}_running", (vector,)))
    sums = Call(f"v_{word}_plus", (lane, carried))
    grown = Assign(carried, Call(f"v_{word}_plus", (carried, Call(ends, (lane,)))))
    stores = None
    if word == "bits" and own == total_type:
        stores = _stores(loop, place, total, vector, known)
    if stores is not None:
        whole = Declare("vector", names["sums"], (), sums)
        named: dict[Expr, Expr] = {total: Var(names["sums"])}
        of_sums = [changed_in(s, lambda e: named.get(e, e)) for s in stores]
        body: tuple[Statement, ...] = (*summands, running, whole, grown, *of_sums)
    else:
        body = (
            *summands,
            Declare(own, names["sums"], (lanes,)),
            running,
            Assign(_vector(names["sums"]), sums),
            grown,
            _rest(loop, place, total, total_type, names, at_once, taken, part),
        )
    new: list[Statement] = [
        Declare("vector", carried.name, (), Call(f"v_{word}", (total,))),
        replace(loop, last=main, step=at_once, body=body, threads=1),
        Assign(total, Call(f"v_{word}_first", (carried,))),
    ]
    if main < loop.last:
        new.append(replace(loop, first=main, threads=1))
    return replace(with_loop(kernel, number, tuple(new)), lanes=lanes)


def _vector(array: str) -> Load:
    return Load(array, (Number("0"),))


def _stores(
    loop: For, place: int, total: Var, summands: Load, known: Mapping[str, Type]
) -> list[Statement] | None:
    """All statements of a loop but that at a place on vectors, in which `total` is a vector of
    sums; None if one of them does anything else."""

    def vector(expr: Expr, *, early: bool) -> Expr | None:
        if expr == total:
            return Call("v_bits_minus", (total, summands)) if early else total
        if isinstance(expr, Number) and expr.text.isdigit():
            return Call("v_bits", (expr,))
        if isinstance(expr, Element):
            return _as_vector(expr, loop, known)
        if isinstance(expr, Cast) and expr.type in _ALIKE:
            return vector(expr.value, early=early)
        if isinstance(expr, Binary) and expr.operator in "+-":
            left, right = (vector(side, early=early) for side in (expr.left, expr.right))
            name = "plus" if expr.operator == "+" else "minus"
            return Call(f"v_bits_{name}", (left, right)) if left and right else None
        return None

    found: list[Statement] = []
    for index, statement in enumerate(loop.body):
        if index == place:
            continue
        if not isinstance(statement, Assign) or not isinstance(statement.target, Element):
            return None
        target = _as_vector(statement.target, loop, known)
        value = vector(statement.value, early=index < place)
        if target is None or value is None:
            return None
        found.append(Assign(target, value))
    return found


def _as_vector(added: Expr, loop: For, known: Mapping[str, Type]) -> Load | None:
    """The vector of elements that lie side by side in an array of 32-bit integers. The iterations
    of the loop are independent, so its statements can be executed one after the other."""
    if not isinstance(added, Element) or known.get(added.array) not in _ALIKE:
        return None
    *outer, last = added.subscripts
    inside = {s.name for s in loop.body if isinstance(s, Declare)}
    if any(e in (Var(loop.variable), *map(Var, inside)) for s in outer for e in walk(s)):
        return None
    terms, _ = linear(last)
    if terms.pop(Var(loop.variable), 0) != 1:
        return None
    names = {e.name for term in terms for e in walk(term) if isinstance(e, Var)}
    arrays = any(isinstance(e, Element) for s in added.subscripts for e in walk(s))
    if arrays or names & (inside | {loop.variable}):
        return None
    return Load(added.array, added.subscripts)


def _added(value: Binary, total: Var) -> Expr:
    """The value that is added to a running sum, or subtracted."""
    return value.right if value.left == total else value.left


def _needed(value: Expr, before: tuple[Statement, ...], total: Var) -> list[Declare]:
    """The declarations that are needed to compute the summand of an iteration.

    Raises `NotApplicableError` if the summand depends on the sum itself.
    """
    names = {e.name for e in walk(value) if isinstance(e, Var)} - {total.name}
    found: list[Declare] = []
    for statement in reversed(before):
        if isinstance(statement, Declare) and statement.name in names:
            if statement.value is None or total in walk(statement.value):
                raise NotApplicableError(
                    f"the number that is added to {total.name} depends on {total.name}",
                )
            names |= {e.name for e in walk(statement.value) if isinstance(e, Var)}
            found.insert(0, statement)
    return found


def _require_unwritten(read: tuple[Statement, ...], before: tuple[Statement, ...]) -> None:
    """Raise if summands read data that an earlier statement of their iteration writes."""
    targets = [s.target for s in before if isinstance(s, Assign)]
    written = {target.array for target in targets if isinstance(target, Element)}
    used = {e.array for e in expressions(read) if isinstance(e, Element)}
    if written & used:
        raise NotApplicableError(f"{min(written & used)} is written before it is added")


def _at(
    loop: For, name: str, declared: list[Declare], taken: set[str]
) -> tuple[dict[str, Expr], list[Declare]]:
    """Replacements for the loop's variable and for declared variables, and the declarations."""
    renamed: dict[str, Expr] = {loop.variable: Binary("+", Var(loop.variable), Var(name))}
    found = []
    for statement in declared:
        assert statement.value is not None
        own = fresh(statement.name, taken)
        found.append(replace(statement, name=own, value=changed(statement.value, _with(renamed))))
        renamed[statement.name] = Var(own)
    return renamed, found


def _with(renamed: Mapping[str, Expr]) -> Callable[[Expr], Expr]:
    return lambda e: renamed.get(e.name, e) if isinstance(e, Var) else e


def _summands(
    loop: For, needed: list[Declare], added: Expr, part: str, lanes: int, taken: set[str]
) -> For:
    """A loop over lanes that stores the values that are added to the sum."""
    name = fresh("n", taken)
    renamed, declared = _at(loop, name, needed, taken)
    value = changed(added, _with(renamed))
    return For(name, 0, lanes, 1, (*declared, Assign(Element(part, (Var(name),)), value)))


def _rest(
    loop: For,
    place: int,
    total: Var,
    total_type: Type,
    names: Mapping[str, str],
    lanes: int,
    taken: set[str],
    summand: Expr | None,
) -> For:
    """A loop over lanes with all other statements, which read the sum. `summand` is what an
    iteration adds to it, if no array contains this."""
    name = fresh("n", taken)
    renamed: dict[str, Expr] = {loop.variable: Binary("+", Var(loop.variable), Var(name))}
    after: Expr = Element(names["sums"], (Var(name),))
    part: Expr = Element(names["part"], (Var(name),))
    if summand is not None:
        part = changed(summand, _with(renamed))
    before = after
    if is_whole(total_type):
        unsigned = _UNSIGNED[_KINDS[total_type]]
        before = Cast(total_type, Binary("-", Cast(unsigned, after), Cast(unsigned, part)))
    if total_type in _NARROW:
        after = Cast(total_type, after)
    found: list[Statement] = []
    for index, statement in enumerate(loop.body):
        if index == place:
            continue
        renamed[total.name] = before if index < place else after
        new = changed_in(statement, _with(renamed))
        if isinstance(new, Declare):
            own = fresh(new.name, taken)
            renamed[new.name] = Var(own)
            new = replace(new, name=own)
        found.append(new)
    return For(name, 0, lanes, 1, tuple(found))

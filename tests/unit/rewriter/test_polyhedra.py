"""Exact dependence: compared with walking through all iterations, and on cases that need it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_model import _holds, evaluate

from tilewright.proposers.rewriter.analysis.polyhedra import meet, uncovered
from tilewright.proposers.rewriter.analysis.region import Region
from tilewright.proposers.rewriter.expr import Expr, minimum, quotient, remainder, var
from tilewright.proposers.rewriter.ir import Command, Compare, Guard, Loop, Stmt, walk_paths

X, Y = var("i"), var("j")


def expressions() -> st.SearchStrategy[Expr]:
    linear = st.builds(lambda a, b, c: X * a + Y * b + c, number(), number(), number())
    return st.one_of(
        linear,
        st.builds(lambda e, n: quotient(e, n), linear, st.integers(2, 4)),
        st.builds(lambda e, n: remainder(e, n), linear, st.integers(2, 4)),
        st.builds(lambda e, n: minimum(e, Expr(n)), linear, st.integers(0, 9)),
    )


def sizes() -> st.SearchStrategy[Expr]:
    """Sizes between 1 and 5 that contain minimums in different places."""
    least = st.builds(lambda n, a: minimum(Expr(n), X * a + 1), st.integers(1, 4), number())
    return st.one_of(
        st.builds(Expr, st.integers(1, 4)),
        least,
        st.builds(lambda e: Expr(5) - e, least),
        st.builds(lambda e, n: quotient(e + (n - 1), n), least, st.integers(2, 3)),
    )


def number() -> st.SearchStrategy[int]:
    return st.integers(0, 5)


def nest(guarded: bool, at: int, step: int) -> tuple[Loop, list[tuple[Command, tuple[Stmt, ...]]]]:
    """`for i { [if (i > at)] first; for (j, step 2) second; }`, both commands with their path."""
    first, second = Command("first", ()), Command("second", ())
    head: Stmt = Guard((Compare(">", X, Expr(at)),), (first,)) if guarded else first
    inner = Loop("j", Expr(), minimum(Expr(5), Expr(6) - X), 2, (second,))
    outer = Loop("i", Expr(), Expr(4), step, (head, inner))
    paths = {s: above for s, above in walk_paths((outer,)) if isinstance(s, Command)}
    return outer, [(first, paths[first]), (second, paths[second])]


def instances(region: Region) -> list[tuple[dict[str, int], set[int]]]:
    """Every iteration of a statement with the points it touches."""
    found = []
    for i in range(0, 4, region.loops[0].step):
        for j in range(0, min(5, 6 - i), 2) if len(region.loops) > 1 else [0]:
            values = {"i": i, "j": j}
            guards = [s for s in region.above if isinstance(s, Guard)]
            if all(_holds(g.condition, values) for g in guards):
                low = evaluate(region.dims[0][0], values)
                found.append((values, set(range(low, low + evaluate(region.dims[0][1], values)))))
    return found


@settings(max_examples=120, derandomize=True)
@given(expressions(), expressions(), sizes(), st.booleans(), st.integers(-1, 3), st.integers(1, 2))
def test_answers_are_those_of_walking_through_all_iterations(
    low: Expr, high: Expr, extent: Expr, guarded: bool, at: int, step: int
) -> None:
    outer, ((first, above), (second, below)) = nest(guarded, at, step)
    low = low.substituted({"j": Expr(1)})
    write = Region(first, above, 0, ((low, extent),))
    read = Region(second, below, 1, ((high, Expr(2)),))
    ours, theirs = instances(write), instances(read)
    pairs = [(a, b) for a, p in ours for b, q in theirs if p & q]
    assert meet(write, read) == bool(pairs)
    assert meet(write, read, (outer,)) == any(a["i"] == b["i"] for a, b in pairs)
    assert meet(write, read, (), outer) == any(a["i"] != b["i"] for a, b in pairs)
    written = {a["i"]: p for a, p in ours}
    assert uncovered(read, (write,), outer) == any(
        not q <= written.get(b["i"], set()) for b, q in theirs
    )


def test_a_read_after_the_inner_loop_sees_all_its_iterations() -> None:
    write, read = Command("write", ()), Command("read", ())
    inner = Loop("j", Expr(), Expr(64), 16, (write,))
    outer = Loop("i", Expr(), Expr(8), 1, (inner, read))
    written = Region(write, (outer, inner), 0, ((Y, Expr(16)),))
    used = Region(read, (outer,), 1, ((Expr(), Expr(64)),))
    beyond = Region(read, (outer,), 1, ((Expr(), Expr(65)),))
    before = Region(read, (outer,), -1, ((Expr(), Expr(64)),))
    assert not uncovered(used, (written,), outer)
    assert uncovered(beyond, (written,), outer)
    assert uncovered(before, (written,), outer)


def test_loops_over_one_variable_with_different_steps_are_not_counted_alike() -> None:
    first, second, k = Command("first", ()), Command("second", ()), var("k")
    inner = Loop("k", Expr(), Expr(256), 64, (first,))
    outer = Loop("k", Expr(), Expr(256), 16, (inner, second))
    once = Region(first, (outer, inner), 0, ((k, Expr(1)),))
    later = Region(second, (outer,), 1, ((k + 48, Expr(1)),))
    assert meet(once, later)
    assert not meet(once, later, (outer,))


def test_blocks_of_a_wide_move_lie_apart() -> None:
    wide, other = Command("wide", ()), Command("other", ())
    blocks = (("block'", Expr(), Expr(4)),)
    moved = Region(wide, (), 0, ((var("block'") * 58, Expr(16)),), blocks)
    assert meet(moved, Region(other, (), 1, ((Expr(58), Expr(1)),)))
    assert not meet(moved, Region(other, (), 1, ((Expr(16), Expr(42)),)))


def test_a_question_beyond_the_bound_is_answered_with_care() -> None:
    many = [var(f"v{n}") for n in range(9)]
    loops = [Loop(f"v{n}", Expr(), Expr(97 + n), 7, ()) for n in range(9)]
    total = Expr()
    for number, value in enumerate(many):
        total = total + quotient(remainder(value * (number + 3), 11 + number), 2 + number)
    region = Region(Command("x", ()), tuple(loops), 0, ((total, Expr(1)),))
    other = Region(Command("y", ()), tuple(loops), 1, ((total + 1, Expr(1)),))
    assert meet(region, other, (), loops[0])

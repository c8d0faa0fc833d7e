"""Search several parts of a loop at once for the largest or smallest value and its place.

Before::

    for (int i = 1; i < 1000; i++) {
      int holds = X[i] > best;
      best = holds ? X[i] : best;
      at = holds ? i : at;
    }

After (32 copies)::

    float best_1[32], best_2[32];
    int at_1[32], at_2[32];
    for (int n_1 = 0; n_1 < 32; n_1++) { best_1[n_1] = best; at_1[n_1] = at; }
    for (int i = 1; i < 961; i += 64) {
      for (int n_2 = 0; n_2 < 32; n_2++) {
        int holds_1 = X[i + n_2] > best_1[n_2];
        best_2[n_2] = holds_1 ? X[i + n_2] : best_1[n_2];
        at_2[n_2] = holds_1 ? i + n_2 : at_1[n_2];
      }
      for (int n_3 = 0; n_3 < 32; n_3++) { .. from best_2 to best_1, for X[i + n_3 + 32] .. }
    }
    for (int n_4 = 0; n_4 < 32; n_4++) {
      int holds_3 = best_1[n_4] > best || best_1[n_4] == best && at_1[n_4] < at;
      best = holds_3 ? best_1[n_4] : best;
      at = holds_3 ? at_1[n_4] : at;
    }
    for (int i = 961; i < 1000; i++) { .. as before .. }

Compilers turn the loops over copies into vectors. The values go from one array to the other one:
for a choice that is stored where its second value was read, compilers write stores under a
condition, which are slow. Of equal values the first one counts, as before. Where a copy still has
the value from before the loop and this value is the best one, all copies have it, because only
larger (or smaller) values replace it.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis.argmax_loops import Search, search_of
from tilewright.proposers.loops.analysis.changes import (
    NotApplicableError,
    fresh,
    names_in,
    visible_types,
)
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Number,
    Select,
    Statement,
    Var,
    changed,
    loops,
    with_loop,
)


def is_search(kernel: Kernel, number: int) -> bool:
    """Whether loop `number` searches for a value and its place."""
    try:
        search_of(loops(kernel)[number], visible_types(kernel, number), kernel)
    except NotApplicableError:
        return False
    return True


def searching(kernel: Kernel, number: int, copies: int) -> Kernel:
    """The kernel in which the search of loop `number` is replaced by `copies` searches, each over
    some of the elements.

    Raises `NotApplicableError`.
    """
    loop = loops(kernel)[number]
    found = search_of(loop, visible_types(kernel, number), kernel)
    if loop.trips < 2 * copies or loop.step != 1:
        raise NotApplicableError("the loop has too few iterations, or a step that is not 1")
    taken = names_in(kernel) | {found.best}
    base = found.best if found.first is None else "best"
    best = [fresh(base, taken) for _ in range(2)]
    at = [fresh(found.at, taken) for _ in range(2)]
    arrays = [Declare(found.best_type, name, (copies,)) for name in best]
    arrays += [Declare(found.at_type, name, (copies,)) for name in at]
    filling = fresh("n", taken)
    here = (Var(filling),)
    start = (
        Assign(Element(best[0], here), Var(found.best)),
        Assign(Element(at[0], here), Var(found.at)),
    )
    filled = For(filling, 0, copies, 1, start)
    kept = ((best[0], at[0]), (best[1], at[1]))
    parts = (
        _part(loop, found, kept[0], kept[1], 0, copies, taken),
        _part(loop, found, kept[1], kept[0], copies, copies, taken),
    )
    main = loop.first + loop.trips // (2 * copies) * 2 * copies
    new: list[Statement] = []
    if found.first is not None:
        new.append(Declare(found.best_type, found.best, (), found.first))
    new += [*arrays, filled, replace(loop, last=main, step=2 * copies, body=parts, threads=1)]
    new.append(_joined(found, best[0], at[0], copies, taken))
    if main < loop.last:
        new.append(replace(loop, first=main, threads=1))
    return with_loop(kernel, number, tuple(new))


def _part(
    loop: For,
    found: Search,
    before: tuple[str, str],
    after: tuple[str, str],
    offset: int,
    copies: int,
    taken: set[str],
) -> For:
    """Each copy compares its value with the best one in `before`, and stores the better one in
    `after`.

    The values are those of the iterations from `offset` on.
    """
    name = fresh("n", taken)
    place: Expr = Binary("+", Var(loop.variable), Var(name))
    if offset:
        place = Binary("+", place, Number(str(offset)))
    own = {s.name: Var(fresh(s.name, taken)) for s in found.declared}

    def later(expr: Expr) -> Expr:
        if isinstance(expr, Var):
            return place if expr.name == loop.variable else own.get(expr.name, expr)
        return expr

    declared = [
        replace(
            s, name=own[s.name].name, value=None if s.value is None else changed(s.value, later)
        )
        for s in found.declared
    ]
    best, at = (Element(array, (Var(name),)) for array in before)
    value = changed(found.value, later)
    holds = Var(fresh("holds", taken))
    better: Expr = Binary(found.operator, value, best)
    for condition in found.allowed:
        better = Binary("&", Binary("!=", changed(condition, later), Number("0")), better)
    body: tuple[Statement, ...] = (
        *declared,
        Declare("int", holds.name, (), better),
        Assign(Element(after[0], (Var(name),)), Select(holds, value, best)),
        Assign(Element(after[1], (Var(name),)), Select(holds, changed(found.place, later), at)),
    )
    return For(name, 0, copies, 1, body)


def _joined(found: Search, best: str, at: str, copies: int, taken: set[str]) -> For:
    """The best value of all copies. Of equal values, the one that the loop reached first."""
    name = fresh("n", taken)
    value, place = Element(best, (Var(name),)), Element(at, (Var(name),))
    earlier = Binary("<" if found.grows else ">", place, Var(found.at))
    equal = Binary("&&", Binary("==", value, Var(found.best)), earlier)
    holds = Var(fresh("holds", taken))
    better = Binary("||", Binary(found.operator, value, Var(found.best)), equal)
    body = (
        Declare("int", holds.name, (), better),
        Assign(Var(found.best), Select(holds, value, Var(found.best))),
        Assign(Var(found.at), Select(holds, place, Var(found.at))),
    )
    return For(name, 0, copies, 1, body)

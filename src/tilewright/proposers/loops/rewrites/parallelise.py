"""Share the iterations of a loop among threads.

Before::

    float scores[64];
    for (int i = 0; i < 64; i++) {
      for (int j = 0; j < 64; j++) scores[j] = Q[i] * K[j];
      for (int j = 0; j < 64; j++) O[i] = O[i] + scores[j];
    }

After (2 threads)::

    #pragma omp parallel for num_threads(2) schedule(static)
    for (int i = 0; i < 64; i++) {
      float scores[64];
      for (int j = 0; j < 64; j++) scores[j] = Q[i] * K[j];
      for (int j = 0; j < 64; j++) O[i] = O[i] + scores[j];
    }

A variable that an iteration writes before it reads it, and that nothing else uses, is moved into
the loop. A variable that is declared there is private to its thread.
"""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.sharing import (
    require_rewritten,
    require_shareable,
    uses_of,
)
from tilewright.proposers.loops.ir import (
    Assign,
    Declare,
    For,
    Kernel,
    Statement,
    around,
    statements,
)


def share(kernel: Kernel, number: int, threads: int) -> Kernel:
    """The kernel with loop `number` shared among threads. Raises `NotApplicableError`."""
    path = around(kernel, number)
    if any(loop.threads > 1 for loop in path):
        raise NotApplicableError("the loop is shared among threads, or is inside such a loop")
    loop, moved = path[-1], private(kernel, path)
    inside = tuple(replace(variable, value=None) for variable in moved)
    shared = replace(loop, body=(*inside, *loop.body), threads=threads)
    found = replace(kernel, body=_with(shared, kernel.body, path, moved))
    require_shareable(shared, found)
    return found


def private(kernel: Kernel, path: list[For]) -> list[Declare]:
    """Variables and arrays outside the last loop that can be private to its iterations.

    Nothing else uses them, and each iteration writes them before it reads them.
    """
    loop = path[-1]
    changed = {s.target_name for s in statements(loop.body) if isinstance(s, Assign)}
    found: list[Declare] = []
    for body in (kernel.body, *(outer.body for outer in path[:-1])):
        for statement in body:
            if not isinstance(statement, Declare) or statement.name not in changed:
                continue
            if uses_of(statement.name, body) > uses_of(statement.name, loop.body):
                continue
            try:
                require_rewritten(loop, statement, kernel.lanes)
            except NotApplicableError:
                continue  # it stays common to all iterations, which may still be correct
            found.append(statement)
    return found


def _with(
    shared: For, body: tuple[Statement, ...], path: list[For], moved: list[Declare]
) -> tuple[Statement, ...]:
    """The statements in which `shared` replaces the last loop of `path`, without the declarations
    that moved into it.

    Declarations outside the path are kept, because copies of a loop contain the same ones.
    """
    found: list[Statement] = []
    for statement in body:
        if statement is path[0]:
            inside = _with(shared, path[0].body, path[1:], moved) if path[1:] else ()
            found.append(replace(path[0], body=inside) if path[1:] else shared)
        elif all(statement is not other for other in moved):
            found.append(statement)
    return tuple(found)

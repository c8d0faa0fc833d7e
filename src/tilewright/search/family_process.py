"""`python -m tilewright.search.family_process DESCRIPTOR`: proposes for some of the parents.

DESCRIPTOR is one end of a socket that only the searching process and this one hold. It carries
pickled records: first a `SearchTask`, then a `Family` for each parent. Each is answered by messages
(`Message`) that end with None. The end of the socket ends the process.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection

from tilewright.core.errors import TilewrightError
from tilewright.core.records import History
from tilewright.search.events import Planned
from tilewright.search.family import Children, Family, Forms, Message
from tilewright.search.proposing import SearchTask, Steps

COLLECT_EVERY = 50_000
"""Objects made between two looks for cycles: what a proposer remembers is large and holds few."""


def main(arguments: list[str]) -> None:
    """Serve until the socket closes."""
    gc.set_threshold(COLLECT_EVERY)
    connection = Connection(int(arguments[0]))
    rank = 0

    def tell(message: Message) -> None:
        connection.send((rank, message))

    try:
        task: SearchTask = connection.recv()
        steps = Steps(task, tell)
        history = History()
        while True:
            family: Family = connection.recv()
            rank = family.rank
            history = History((*history[: family.known], *family.trials))
            try:
                _propose(steps, family, history, tell)
                tell(None)
            except TilewrightError as error:
                tell(_sendable(error))
    except (EOFError, ConnectionError):
        return


def _sendable(error: TilewrightError) -> TilewrightError:
    """The error, or the nearest kind of it: one whose constructor is its own cannot be pickled."""
    kinds = [k for k in type(error).__mro__ if issubclass(k, TilewrightError)]
    own = max((n for n, kind in enumerate(kinds, 1) if "__init__" in vars(kind)), default=0)
    return kinds[own](str(error)) if own else error


def _propose(
    steps: Steps, family: Family, history: History, tell: Callable[[Message], None]
) -> None:
    parent = history[family.parent]
    brief = steps.brief(family.iteration, family.rank, parent)
    plans = steps.plans(brief, parent, history)
    if family.unformed:
        tell(Forms({c.id: steps.form(c) for c in family.unformed}))
    tell(Planned(family.iteration, parent.candidate.id, len(plans)))
    for plan in plans:
        made = steps.implementations(brief, parent, plan)
        tell(Children(tuple((child, steps.form(child)) for child in made)))


if __name__ == "__main__":
    main(sys.argv[1:])

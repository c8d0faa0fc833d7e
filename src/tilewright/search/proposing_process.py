"""`python -m tilewright.search.proposing_process DESCRIPTOR`: proposes for some of the parents.

DESCRIPTOR is one end of a channel to which only the searching process and this process have access.
Messages are pickled records: first a `SearchTask`, then possibly the kernel that is `Coming` while
it is still measured, and an `Asked` for each parent. The answers are pairs of the expansion's rank
and a message; the last message is None or an error. After the message None, the process drops
everything that it was asked, answers with the rank None, and is ready for the `SearchTask` of
another search. If the target of this search is equal to that of the previous search, it is replaced
by the same object, because proposers store answers for each object. The process ends when the
channel is closed. A step that exceeds the task's limit of CPU time is cancelled.
"""

from __future__ import annotations

import gc
import pickle
import sys
from collections import deque
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic

from tilewright.core.errors import TilewrightError
from tilewright.core.records import History
from tilewright.sandbox.child import Channel, is_readable
from tilewright.search.processes import Asked, Coming
from tilewright.search.step_limit import StepTooLongError, limited
from tilewright.search.steps import Message, SearchTask, Steps

COLLECT_EVERY = 50_000
"""Number of new objects between two runs of the garbage collector. The data of a proposer are large
and contain few cycles.
"""


def main(arguments: list[str]) -> None:
    """Answer requests until the channel is closed."""
    gc.set_threshold(COLLECT_EVERY)
    channel = Channel(int(arguments[0]))

    asked = deque[SearchTask | Coming | Asked | None]()

    def take(timeout_s: float | None) -> bool:
        """Receive all messages; the first arrives in this time. Whether work must be dropped."""
        while timeout_s is None or is_readable(channel.fileno(), monotonic() + timeout_s):
            asked.append(pickle.loads(channel.receive()))
            timeout_s = 0.0
        return None in asked

    def tell(rank: int | None, message: Message | TilewrightError | None) -> None:
        channel.send(pickle.dumps((rank, message)))

    task, steps, history = None, None, History()
    try:
        while True:
            if not asked:
                take(None)
            given = asked.popleft()
            if given is None:
                tell(None, None)
            elif isinstance(given, SearchTask):
                if task is not None and given.target == task.target:
                    given = replace(given, target=task.target)
                task = given
                steps, history = Steps(task, partial(limited, task.step_limit_s)), History()
            elif isinstance(given, Coming):
                if task is not None:
                    _read_ahead(task, given)
            elif steps is not None and not take(0.0):
                history = (history if given.continues else History()).extended(given.trials)
                rank = given.expansion.rank
                try:
                    for message in steps.expand(given.expansion, history):
                        tell(rank, message)
                        if take(0.0):
                            break
                    else:
                        tell(rank, None)
                except TilewrightError as error:
                    tell(rank, _sendable(error))
    except (EOFError, ConnectionError):
        return


def _read_ahead(task: SearchTask, coming: Coming) -> None:
    """Let proposers read a kernel. Their modules then have stored what is asked for plans."""
    for reader in coming.readers:
        with suppress(Exception, StepTooLongError), limited(task.step_limit_s):
            reader.left_alone(task.target, coming.source, task.workload)


def _sendable(error: TilewrightError) -> TilewrightError:
    """The error, or a base class of it if its own class cannot be pickled."""
    kinds = [k for k in type(error).__mro__ if issubclass(k, TilewrightError)]
    own = max((n for n, kind in enumerate(kinds, 1) if "__init__" in vars(kind)), default=0)
    return kinds[own](str(error)) if own else error


if __name__ == "__main__":
    main(sys.argv[1:])

"""`python -m tilewright.search.proposing_process DESCRIPTOR`: proposes for some of the parents.

DESCRIPTOR is one end of a channel to which only the searching process and this process have access.
Messages are pickled records: first a `SearchTask`, then an `Asked` for each parent. The answers are
pairs of the expansion's rank and a message; the last message is None or an error. The process ends
when the channel is closed. A step that exceeds the task's limit of CPU time is cancelled.
"""

from __future__ import annotations

import gc
import pickle
import sys

from tilewright.core.errors import TilewrightError
from tilewright.core.records import History
from tilewright.sandbox.child import Channel
from tilewright.search.processes import Asked
from tilewright.search.step_limit import limited
from tilewright.search.steps import Message, SearchTask, Steps

COLLECT_EVERY = 50_000
"""Number of new objects between two runs of the garbage collector. The data of a proposer are large
and contain few cycles.
"""


def main(arguments: list[str]) -> None:
    """Answer requests until the channel is closed."""
    gc.set_threshold(COLLECT_EVERY)
    channel = Channel(int(arguments[0]))

    def tell(rank: int, message: Message | TilewrightError | None) -> None:
        channel.send(pickle.dumps((rank, message)))

    try:
        task: SearchTask = pickle.loads(channel.receive())
        steps = Steps(task, lambda: limited(task.step_limit_s))
        history = History()
        while True:
            asked: Asked = pickle.loads(channel.receive())
            history = (history if asked.continues else History()).extended(asked.trials)
            rank = asked.expansion.rank
            try:
                for message in steps.expand(asked.expansion, history):
                    tell(rank, message)
                tell(rank, None)
            except TilewrightError as error:
                tell(rank, _sendable(error))
    except (EOFError, ConnectionError):
        return


def _sendable(error: TilewrightError) -> TilewrightError:
    """The error, or a base class of it if its own class cannot be pickled."""
    kinds = [k for k in type(error).__mro__ if issubclass(k, TilewrightError)]
    own = max((n for n, kind in enumerate(kinds, 1) if "__init__" in vars(kind)), default=0)
    return kinds[own](str(error)) if own else error


if __name__ == "__main__":
    main(sys.argv[1:])

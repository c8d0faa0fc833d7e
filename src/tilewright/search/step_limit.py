"""A limit on the CPU time of one step of a proposer, for a process that only runs the proposer.

The limit is in CPU time instead of wall-clock time, so it does not depend on other programs of the
machine.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STEP_LIMIT_S = 30.0
"""CPU time in seconds after which a step is cancelled. Nearly all steps take less than two seconds.
Those that took minutes were questions about sets of integers that were not important.
"""


class StepTooLongError(BaseException):
    """A step was cancelled. It is not an `Exception`, so that a proposer which catches exceptions
    is ended too.
    """


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """A context manager that raises `StepTooLongError` in its block after `seconds` of CPU time.

    Use it only in the main thread, and do not nest it.
    """
    armed = True

    def give_up(*_: object) -> None:
        if armed:  # a signal that arrives at the end of a step must not affect the next one
            raise StepTooLongError

    before = signal.signal(signal.SIGPROF, give_up)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def place_of(error: BaseException) -> str:
    """The innermost function in which an error was raised, for instance "planner.draw".

    Functions of Python's standard library are skipped.
    """
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame
        module = str(code.f_globals.get("__name__", ""))
        if module != __name__ and module.partition(".")[0] not in sys.stdlib_module_names:
            place = f"{module.rpartition('.')[2]}.{code.f_code.co_qualname}"
        trace = trace.tb_next
    return place

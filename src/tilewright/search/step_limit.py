"""A limit on what one step of a proposer may compute, for a process that does nothing else.

The limit counts the process's computing time, not the time on the wall: a busy machine cuts
nothing off that a quiet one would let through.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

STEP_LIMIT_S = 30.0
"""Seconds of computing after which a step is given up. Nearly all steps take less than two; those
that took minutes were questions about sets of integers whose answer did not matter."""


class StepTooLongError(BaseException):
    """A step was given up. No `Exception`, so that a proposer that goes on after those ends too."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `StepTooLongError` in what is done within, once it has computed for `seconds`.

    Only for the main thread; not to be nested.
    """
    armed = True

    def give_up(*_: object) -> None:
        if armed:  # a signal that comes as the step ends is no concern of the next one
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
    """Where an error was raised: the innermost function, "planner.draw" say.

    Functions of Python's standard library are passed over: they do not say whose step it was.
    """
    trace, place = error.__traceback__, ""
    while trace is not None:
        code = trace.tb_frame
        module = str(code.f_globals.get("__name__", ""))
        if module != __name__ and module.partition(".")[0] not in sys.stdlib_module_names:
            place = f"{module.rpartition('.')[2]}.{code.f_code.co_qualname}"
        trace = trace.tb_next
    return place

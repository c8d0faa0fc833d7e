"""Makes `distributed` measure time with a clock that is never set.

Each stream of messages of `distributed` waits a few milliseconds between two batches, until a time
of day (`distributed.batched`, and the event loop of tornado). If the clock of the machine is set
back by hours during this wait, the stream sends nothing for these hours, and neither do the timers
with which workers report to their scheduler. Processes of tilewright therefore use the time of day
of their start plus the time that has passed since.
"""

from __future__ import annotations

import sys
import time
from types import ModuleType

_START_S = time.time() - time.monotonic()


def now_s() -> float:
    """The time of day, as if the clock had not been set since this process started."""
    return _START_S + time.monotonic()


def use_steady_clock() -> None:
    """Use `now_s` in all modules of `distributed` and in tornado. May be called again."""
    import distributed.metrics
    from tornado.ioloop import IOLoop

    wall = distributed.metrics.time
    if wall is now_s:
        return
    IOLoop.time = lambda self: now_s()  # type: ignore[method-assign]
    for module in _loaded("distributed"):
        if getattr(module, "time", None) is wall:
            module.time = now_s  # type: ignore[attr-defined]


def _loaded(package: str) -> list[ModuleType]:
    return [module for name, module in list(sys.modules.items()) if name.startswith(package + ".")]

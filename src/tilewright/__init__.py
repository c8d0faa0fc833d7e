"""tilewright: makes kernels for tensor accelerators faster, and verifies each result.

>>> import tilewright as tw
>>> run = tw.optimize("gemmini:gemm-16x16x16", budget="2 evaluations")
>>> run.best.latency <= run.history.baseline.latency
True

Names are loaded when they are used; docs/python.md introduces them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.api.results import OpenRun, Run, open_run
    from tilewright.api.searching import aoptimize, begin, evaluate, optimize
    from tilewright.api.task import Task
    from tilewright.core.config import Settings
    from tilewright.core.errors import TilewrightError
    from tilewright.core.records import Candidate, Failed, History, Measured, Tolerance, Trial
    from tilewright.evaluating import Evaluation
    from tilewright.search import events
    from tilewright.search.event_records import EventLines, event_record
    from tilewright.search.summary import Summary

__version__ = "0.1.0"

__all__ = [
    "Candidate",
    "Evaluation",
    "EventLines",
    "Failed",
    "History",
    "Measured",
    "OpenRun",
    "Run",
    "Settings",
    "Summary",
    "Task",
    "TilewrightError",
    "Tolerance",
    "Trial",
    "aoptimize",
    "begin",
    "evaluate",
    "event_record",
    "events",
    "open_run",
    "optimize",
]

_HOMES = {
    "tilewright.api.results": ("OpenRun", "Run", "open_run"),
    "tilewright.api.searching": ("aoptimize", "begin", "evaluate", "optimize"),
    "tilewright.api.task": ("Task",),
    "tilewright.core.config": ("Settings",),
    "tilewright.core.errors": ("TilewrightError",),
    "tilewright.core.records": (
        "Candidate",
        "Failed",
        "History",
        "Measured",
        "Tolerance",
        "Trial",
    ),
    "tilewright.evaluating": ("Evaluation",),
    "tilewright.search.event_records": ("EventLines", "event_record"),
    "tilewright.search.summary": ("Summary",),
}
"""The module of each public name, which is imported only when the name is used."""


def __getattr__(name: str) -> object:
    if name == "events":
        return import_module("tilewright.search.events")
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(home), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

"""What the command-line tests pass around."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Result:
    code: int
    out: str
    err: str


@dataclass
class World:
    """What a test may change: after how many evaluations the user presses Ctrl-C."""

    evaluated: list[str]
    interrupt_after: int | None = None
    executors: int = 0


Cli = Callable[..., Result]

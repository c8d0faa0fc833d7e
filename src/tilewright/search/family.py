"""What the searching process and those that propose for it say to one another (`apart.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tilewright.core.errors import TilewrightError
from tilewright.core.records import Candidate, Trial
from tilewright.search.events import Event


@dataclass(frozen=True, slots=True)
class Family:
    """One parent to propose for.

    The history is what is known here, cut to `known` trials, with `trials` appended; the parent is
    the trial at `parent`. `unformed` are earlier candidates whose normal forms are wanted too.
    """

    iteration: int
    rank: int
    parent: int
    known: int
    trials: tuple[Trial, ...]
    unformed: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Forms:
    """Hashes of normal forms by candidate."""

    forms: dict[str, str]


@dataclass(frozen=True, slots=True)
class Children:
    """What a plan gave, each with the hash of its normal form."""

    made: tuple[tuple[Candidate, str], ...]


Message: TypeAlias = Event | Forms | Children | TilewrightError | None
"""Sent with the rank of its family; None where that ends, `Forms` only where there are any."""

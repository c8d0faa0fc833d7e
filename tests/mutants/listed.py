"""The list of mutants: small changes to the product's code, each of which a test must notice."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_name("mutants.toml")


class CodeIsGone(Exception):
    """What a mutant replaces does not occur exactly once in its file."""


@dataclass(frozen=True)
class Mutant:
    """One change: in ``file``, ``before`` becomes ``after``, which breaks ``rule``.

    ``tests`` are the tests nearest to the rule. ``equivalent`` says why no test can notice the
    change, where none can.
    """

    id: str
    file: str
    rule: str
    before: str
    after: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def applied_to(self, text: str) -> str:
        """``text`` of the file with the change made; ``CodeIsGone`` unless it fits one place."""
        found = text.count(self.before)
        if found != 1:
            raise CodeIsGone(
                f"{self.id}: the code that it replaces occurs {found} times in {self.file}; "
                f"mend or replace the entry in {LIST.name}"
            )
        return text.replace(self.before, self.after)


def listed() -> tuple[Mutant, ...]:
    """Every mutant of the list, in its order."""
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutant"]
    return tuple(Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries)

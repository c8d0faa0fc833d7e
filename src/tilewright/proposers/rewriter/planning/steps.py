"""The steps of a plan: techniques at places.

A step is a technique with its arguments, written `technique argument argument`. Buffers are given
by name and loops by label, as in the kernel to which the step is applied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Kernel, same_kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE
from tilewright.proposers.rewriter.planning.sites import Arguments, SameBody
from tilewright.proposers.rewriter.rewrites.dependence import SettingsInside
from tilewright.proposers.rewriter.rewrites.place_settings import place_settings


@dataclass(frozen=True, slots=True)
class Step:
    """A technique at a place."""

    technique: str
    arguments: Arguments = ()

    def __str__(self) -> str:
        return " ".join((self.technique, *self.arguments))

    @classmethod
    def parse(cls, text: str) -> Step:
        """Inverse of `str`."""
        technique, *arguments = text.split()
        return cls(technique, tuple(arguments))

    @property
    def sentence(self) -> str:
        """A description of the step."""
        words = (_PLACES.get(argument, argument) for argument in self.arguments)
        return CATALOGUE[self.technique].described(*words)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        """The rewritten and simplified kernel; `NotApplicable` if the step is not possible."""
        if self.technique not in CATALOGUE:
            raise NotApplicable(f"there is no technique {self.technique}")
        result = _applied(self, SameBody(kernel), machine)
        if isinstance(result, str):
            raise NotApplicable(result)
        return result

    def carried_out(self, kernel: Kernel, machine: Machine) -> Kernel | None:
        """The kernel after the step; None if the step is not possible or changes nothing."""
        try:
            after = self.apply(kernel, machine)
        except NotApplicable:
            return None
        return None if same_kernel(after, kernel) else after


@lru_cache(maxsize=1 << 13)
def _applied(step: Step, body: SameBody, machine: Machine) -> Kernel | str:
    """The kernel after a step, or the reason why it is not possible. Cached, because plans and
    drafts ask again."""
    rewrite, kernel = CATALOGUE[step.technique].apply, body.kernel
    try:
        try:
            changed = rewrite(kernel, machine, *step.arguments)
        except SettingsInside:
            changed = rewrite(place_settings(kernel, machine), machine, *step.arguments)
    except NotApplicable as refusal:
        return str(refusal)
    return simplify(changed)


_PLACES = {
    "before": "before the loop",
    "at-first-use": "each part when it is first used",
    "inside": "after swapping that loop with the one inside it",
    "in-place": "not delayed",
    "delayed": "delayed by one iteration",
}
"""Where a resident buffer is loaded, and when buffers are stored, in words."""


def steps_for(kernel: Kernel, machine: Machine, technique: str) -> Iterator[Step]:
    """Every place at which a technique may be tried, in the order of the text."""
    if technique in CATALOGUE:
        yield from _steps(technique, SameBody(kernel), machine)


@lru_cache(maxsize=1 << 13)
def _steps(technique: str, body: SameBody, machine: Machine) -> tuple[Step, ...]:
    """The places of a technique, found once for each kernel, because many drafts start from the
    same kernel."""
    found = CATALOGUE[technique].sites(body.kernel, machine)
    return tuple(Step(technique, arguments) for arguments in found)

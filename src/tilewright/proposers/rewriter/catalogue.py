"""The techniques a menu may name: where each can be applied, and what it does in words.

A step is a technique with its arguments, written `technique argument argument`: buffers by name,
loops by label, as they are called in the kernel the step is applied to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.proposers.rewriter.analysis import labelled_loops, simplify
from tilewright.proposers.rewriter.buffers import NotApplicable, find_buffers
from tilewright.proposers.rewriter.ir import Kernel, Loop
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.placement import spread
from tilewright.proposers.rewriter.rewrites.overwrite import overwrite
from tilewright.proposers.rewriter.rewrites.promote import depends_on, promote
from tilewright.proposers.rewriter.rewrites.widen import widened_everywhere

Arguments: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Technique:
    """One entry: places worth trying, the rewrite, and a sentence with `{0}`, `{1}` for them."""

    sites: Callable[[Kernel, Machine], Iterator[Arguments]]
    apply: Callable[..., Kernel]
    sentence: str


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
        """What the step does, in words."""
        return CATALOGUE[self.technique].sentence.format(*self.arguments)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        """The rewritten, simplified kernel; `NotApplicable` where it does not fit."""
        if self.technique not in CATALOGUE:
            raise NotApplicable(f"there is no technique {self.technique}")
        return simplify(CATALOGUE[self.technique].apply(kernel, machine, *self.arguments))


def steps_for(kernel: Kernel, machine: Machine, technique: str) -> Iterator[Step]:
    """Every place where a technique may be tried, in textual order."""
    if technique in CATALOGUE:
        for arguments in CATALOGUE[technique].sites(kernel, machine):
            yield Step(technique, arguments)


def _loop(kernel: Kernel, label: str) -> Loop:
    for found, loop, _ in labelled_loops(kernel.body):
        if found == label:
            return loop
    raise NotApplicable(f"there is no loop {label}")


def _loads(varying: bool) -> Callable[[Kernel, Machine], Iterator[Arguments]]:
    """Loaded buffers with each loop around their loads that they do (not) depend on."""

    def sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
        for buffer in find_buffers(kernel, machine):
            for label, loop, _ in labelled_loops(kernel.body):
                try:
                    depends = depends_on(kernel, machine, buffer.name, loop)
                except NotApplicable:
                    continue
                if depends == varying:
                    yield buffer.name, label

    return sites


def _promote(kernel: Kernel, machine: Machine, buffer: str, label: str) -> Kernel:
    kernel = promote(kernel, machine, buffer, _loop(kernel, label))
    return widened_everywhere(simplify(kernel), machine)


def _once(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    yield ()


def _buffers(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    for buffer in find_buffers(kernel, machine):
        yield (buffer.name,)


CATALOGUE: Mapping[str, Technique] = {
    "resident": Technique(
        _loads(varying=False), _promote,
        "keep {0} resident: load all that loop {1} uses of it once, before that loop"),
    "block-load": Technique(
        _loads(varying=True), _promote,
        "load the whole block of {0} before loop {1} instead of piece by piece inside it"),
    "widen": Technique(
        _once, widened_everywhere, "merge neighbouring moves into moves as wide as allowed"),
    "banks": Technique(
        _once, spread, "place buffers that are used together in different banks"),
    "overwrite": Technique(
        _buffers, overwrite,
        "let the first product overwrite {0} instead of clearing it by a move of zeros"),
}

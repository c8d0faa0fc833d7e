"""Single steps: a technique at a loop, their text form, their description, and their
application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Self

from tilewright.proposers.loops.analysis.changes import NotApplicableError, set_by, used_by
from tilewright.proposers.loops.analysis.sharing import require_sharing
from tilewright.proposers.loops.ir import For, Kernel, around, loops, statements
from tilewright.proposers.loops.rewrites.angles import without_branches
from tilewright.proposers.loops.rewrites.bytes import unsigned_by_signed
from tilewright.proposers.loops.rewrites.interleave import interleave
from tilewright.proposers.loops.rewrites.lanes import lanes as in_lanes
from tilewright.proposers.loops.rewrites.neighbours import neighbours
from tilewright.proposers.loops.rewrites.order import block, exchange
from tilewright.proposers.loops.rewrites.pack import pack
from tilewright.proposers.loops.rewrites.parallelise import share
from tilewright.proposers.loops.rewrites.reciprocal import reciprocal
from tilewright.proposers.loops.rewrites.roll import roll
from tilewright.proposers.loops.rewrites.scalar_replacement import keep
from tilewright.proposers.loops.rewrites.split import split
from tilewright.proposers.loops.rewrites.stage import stage
from tilewright.proposers.loops.rewrites.tabulate import tabulate
from tilewright.proposers.loops.rewrites.unroll import unroll
from tilewright.proposers.loops.rewrites.unroll_and_jam import jam
from tilewright.proposers.loops.rewrites.vectorise import vectorise
from tilewright.proposers.loops.rewrites.weigh import weigh

_APPLY: Mapping[str, Callable[[Kernel, int, int], Kernel]] = {
    "vectorise": vectorise,
    "accumulators": unroll,
    "lanes": in_lanes,
    "jam": jam,
    "reciprocal": lambda kernel, loop, _: reciprocal(kernel, loop),
    "exchange": lambda kernel, loop, _: exchange(kernel, loop),
    "block": block,
    "keep": lambda kernel, loop, _: keep(kernel, loop),
    "split": lambda kernel, loop, _: split(kernel, loop),
    "interleave": lambda kernel, loop, _: interleave(kernel, loop),
    "stage": stage,
    "tabulate": lambda kernel, loop, _: tabulate(kernel, loop),
    "pack": lambda kernel, loop, _: pack(kernel, loop),
    "bytes": lambda kernel, loop, _: unsigned_by_signed(kernel, loop),
    "share": share,
    "roll": lambda kernel, loop, _: roll(kernel, loop),
    "weigh": lambda kernel, loop, _: weigh(kernel, loop),
    "angles": lambda kernel, loop, _: without_branches(kernel, loop),
    "neighbours": lambda kernel, loop, _: neighbours(kernel, loop),
}
_WITHOUT_FACTOR = (
    "reciprocal", "exchange", "keep", "split", "interleave", "tabulate", "pack", "bytes",
    "roll", "weigh", "angles", "neighbours",
)  # fmt: skip
TECHNIQUES = tuple(_APPLY)
_BESIDE_VARYING = ("vectorise", "accumulators", "lanes", "jam", "keep")
"""Techniques for nests that contain loops with a varying number of iterations."""
_FACTORS = {
    "accumulators": (2, 4, 8),
    "lanes": (8, 16, 32),
    "jam": (2, 3, 4, 6, 8),
    "block": (2, 4, 8, 16, 32),
    "stage": (0, 1, 2, 3),
    **dict.fromkeys(_WITHOUT_FACTOR, (0,)),
}
_SENTENCES = {
    "stage": "copy the data of load {factor} in the loop over {variable} into contiguous blocks",
    "vectorise": "vectorise the loop over {variable} with {factor} lanes",
    "accumulators": "unroll the loop over {variable} {factor} times, with {factor} accumulators",
    "lanes": "run {factor} iterations of the loop over {variable} in parallel lanes",
    "jam": "unroll the loop over {variable} {factor} times and jam the loops inside it",
    "reciprocal": "multiply by reciprocals instead of dividing in the loop over {variable}",
    "exchange": "exchange the loop over {variable} and the loop inside it",
    "block": "run the loop inside the loop over {variable} in blocks of {factor} iterations",
    "keep": "keep an array element in a variable while the loop over {variable} runs",
    "split": "split the loop over {variable} where its conditions change",
    "tabulate": "before the loop over {variable}, compute once the values that it does not change",
    "pack": "copy an input once, in the order in which the loop over {variable} reads it",
    "bytes": "sum products of unsigned and signed bytes in the loop over {variable}",
    "share": "divide the iterations of the loop over {variable} among {factor} threads",
    "roll": "roll the loop over {variable}, which repeats statements or keeps earlier values",
    "weigh": "compute the sum of a running sum in the loop over {variable} as a weighted sum",
    "angles": "compute sines and cosines in the loop over {variable} without a branch for large "
    "angles",
    "neighbours": "load each vector in the loop over {variable} once, and combine neighbours",
    "interleave": "move each load in the loop over {variable} to just before its use",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A technique at loop `loop`, counted in the order of the text. `factor` is the number of
    lanes, copies or threads."""

    technique: str
    loop: int
    factor: int = 0

    def __str__(self) -> str:
        return f"{self.technique} {self.loop} {self.factor}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Inverse of `str`. Raises `ValueError`."""
        technique, loop, factor = text.split()
        step = cls(technique, int(loop), int(factor))
        if (
            technique not in _APPLY
            or step.loop < 0
            or step.factor < 2 * (technique not in (*_WITHOUT_FACTOR, "stage"))
        ):
            raise ValueError(f"{text!r} is not a step")
        return step

    def apply(self, kernel: Kernel) -> Kernel:
        """The kernel after the step. Raises `NotApplicableError`."""
        if self.loop >= len(loops(kernel)):
            raise NotApplicableError("there is no such loop")
        _require_known_limits(kernel, self)
        after = _APPLY[self.technique](kernel, self.loop, self.factor)
        require_sharing(after)
        return after

    def applied(self, kernel: Kernel) -> Kernel | None:
        """The kernel after the step, or None if the step is not possible."""
        try:
            return self.apply(kernel)
        except NotApplicableError:
            return None

    def no_larger(self) -> Iterator[Step]:
        """The step, followed by the same step with smaller factors that its technique supports."""
        yield self
        if self.technique != "stage":  # its factor is the number of a load
            smaller = (f for f in _FACTORS.get(self.technique, ()) if 1 < f < self.factor)
            for factor in sorted(smaller, reverse=True):
                yield replace(self, factor=factor)

    def sentence(self, kernel: Kernel) -> str:
        """A description of the step for `kernel`."""
        variable = loops(kernel)[self.loop].variable
        text = _SENTENCES[self.technique].format(variable=variable, factor=self.factor)
        return f"{text} (loop {self.loop + 1})"


def _require_known_limits(kernel: Kernel, step: Step) -> None:
    """Raise if the number of iterations of a loop in the same nest varies, unless the step supports
    this."""
    path = around(kernel, step.loop)
    loop = path[-1]
    varying = [s for s in statements((path[0],)) if isinstance(s, For) and s.limits is not None]
    if not varying or (step.technique in ("accumulators", "lanes") and loop.limits is not None):
        return
    if not all(s.bounded for s in varying):
        raise NotApplicableError("the bounds of a loop in this nest depend on data")
    if step.technique not in _BESIDE_VARYING or (
        loop.limits is not None and step.technique != "keep"
    ):
        raise NotApplicableError("the number of iterations of a loop in this nest varies")
    inside = {s.variable for s in statements(loop.body) if isinstance(s, For)}
    changing = {loop.variable} | (set_by(loop.body) - inside)
    for inner in statements(loop.body):
        limits = inner.limits if isinstance(inner, For) else None
        if any(used_by(limit) & changing for limit in limits or ()):
            raise NotApplicableError("the number of iterations of an inner loop varies")


def steps_of(
    kernel: Kernel, technique: str, lanes: int, threads: int = 1
) -> Iterator[tuple[Step, Kernel]]:
    """Every place at which a technique applies, with the resulting kernel."""
    for step in possible(kernel, technique, lanes, threads):
        try:
            yield step, step.apply(kernel)
        except NotApplicableError:
            continue


def possible(kernel: Kernel, technique: str, lanes: int, threads: int = 1) -> list[Step]:
    """All steps of a technique, including those that do not apply to the kernel."""
    factors = _FACTORS.get(technique, (lanes,))
    if technique == "share":
        factors = (threads,) if threads > 1 else ()
    return [Step(technique, n, f) for n in range(len(loops(kernel))) for f in factors]

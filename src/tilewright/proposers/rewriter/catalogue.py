"""The techniques a menu may name: where each can be applied, and what it does in words.

A step is a technique with its arguments, written `technique argument argument`: buffers by name,
loops by label, as they are called in the kernel the step is applied to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from tilewright.proposers.rewriter.analysis import labelled_loops, simplify
from tilewright.proposers.rewriter.block import block_loops
from tilewright.proposers.rewriter.buffers import Buffer, NotApplicable, find_buffers
from tilewright.proposers.rewriter.cost import estimate
from tilewright.proposers.rewriter.ir import Body, Guard, Kernel, Loop, commands, walk
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.parameters import slot_counts, tile_factors, unroll_factors
from tilewright.proposers.rewriter.placement import spread
from tilewright.proposers.rewriter.rewrites.compact import roll_up
from tilewright.proposers.rewriter.rewrites.dead import remove_dead_loads
from tilewright.proposers.rewriter.rewrites.early import load_early
from tilewright.proposers.rewriter.rewrites.fences import spare_fences
from tilewright.proposers.rewriter.rewrites.forward import carry, forward, share
from tilewright.proposers.rewriter.rewrites.hoist import hoist_configuration
from tilewright.proposers.rewriter.rewrites.interleave import interleave
from tilewright.proposers.rewriter.rewrites.invariant import hoist_loads
from tilewright.proposers.rewriter.rewrites.loops import interchange, split_tail, tail_first, unroll
from tilewright.proposers.rewriter.rewrites.multibuffer import multibuffer
from tilewright.proposers.rewriter.rewrites.offload import offload
from tilewright.proposers.rewriter.rewrites.overwrite import overwrite
from tilewright.proposers.rewriter.rewrites.pipeline import delay_stores, prefetch
from tilewright.proposers.rewriter.rewrites.promote import depends_on, promote
from tilewright.proposers.rewriter.rewrites.remove import remove_settings
from tilewright.proposers.rewriter.rewrites.retile import retile
from tilewright.proposers.rewriter.rewrites.reuse import reuse_latched
from tilewright.proposers.rewriter.rewrites.strength import count_iterations, divided_by
from tilewright.proposers.rewriter.rewrites.structure import fuse, peel, split
from tilewright.proposers.rewriter.rewrites.widen import widened_everywhere

Arguments: TypeAlias = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Technique:
    """One entry: places worth trying, the rewrite, and a sentence with `{0}`, `{1}` for them.

    `relieves` are words in the names of a measurement's causes of lost cycles.
    """

    sites: Callable[[Kernel, Machine], Iterator[Arguments]]
    apply: Callable[..., Kernel]
    sentence: str
    relieves: frozenset[str] = frozenset()


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
        words = (_PLACES.get(argument, argument) for argument in self.arguments)
        return CATALOGUE[self.technique].sentence.format(*words)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        """The rewritten, simplified kernel; `NotApplicable` where it does not fit."""
        if self.technique not in CATALOGUE:
            raise NotApplicable(f"there is no technique {self.technique}")
        result = _applied(self, _Body(kernel), machine)
        if isinstance(result, str):
            raise NotApplicable(result)
        return result


class _Body:
    """A kernel that is recognised by the statements of its body, which compare by identity."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def __hash__(self) -> int:
        return hash(self.kernel.body)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Body) and self.kernel.body == other.kernel.body


@lru_cache(maxsize=2048)
def _applied(step: Step, body: _Body, machine: Machine) -> Kernel | str:
    """What a step makes of a kernel, or why it does not fit: asked again by plans and drafts."""
    try:
        changed = CATALOGUE[step.technique].apply(body.kernel, machine, *step.arguments)
    except NotApplicable as refusal:
        return str(refusal)
    return simplify(changed)


_PLACES = {
    "before": "before the loop",
    "at-first-use": "each part when first used",
    "inside": "inside it, with the loop moved in",
}
"""Where a resident buffer is loaded, in words."""


def steps_for(kernel: Kernel, machine: Machine, technique: str) -> Iterator[Step]:
    """Every place where a technique may be tried, in textual order."""
    if technique in CATALOGUE:
        yield from _steps(technique, _Body(kernel), machine)


@lru_cache(maxsize=1024)
def _steps(technique: str, body: _Body, machine: Machine) -> tuple[Step, ...]:
    """The places of a technique, found once per kernel: many drafts start from the same one."""
    found = CATALOGUE[technique].sites(body.kernel, machine)
    return tuple(Step(technique, arguments) for arguments in found)


def _loop(kernel: Kernel, label: str) -> Loop:
    for found, loop, _ in labelled_loops(kernel.body):
        if found == label:
            return loop
    known = ", ".join(found for found, _, _ in labelled_loops(kernel.body)) or "none"
    raise NotApplicable(f"there is no loop {label} (loops: {known})")


def _loads(varying: bool) -> Callable[[Kernel, Machine], Iterator[Arguments]]:
    """Loaded buffers with each loop around their loads that they do (not) depend on."""

    def sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
        for buffer, label, depends in _dependences(_Body(kernel), machine):
            if depends == varying:
                yield buffer, label

    return sites


@lru_cache(maxsize=256)
def _dependences(body: _Body, machine: Machine) -> tuple[tuple[str, str, bool], ...]:
    """Loaded buffers, the loops around their loads, and whether the loads depend on them."""
    found: list[tuple[str, str, bool]] = []
    for buffer in find_buffers(body.kernel, machine):
        inside = {s for a in buffer.accesses for s in a.above}
        for label, loop, _ in labelled_loops(body.kernel.body):
            if loop not in inside:
                continue
            try:
                depends = depends_on(body.kernel, machine, buffer.name, loop)
            except NotApplicable:
                continue
            found.append((buffer.name, label, depends))
    return tuple(found)


def _resident_sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    for buffer, label in _loads(varying=False)(kernel, machine):
        for how in ("before", "at-first-use", "inside"):
            yield buffer, label, how


def _resident(kernel: Kernel, machine: Machine, buffer: str, label: str, how: str) -> Kernel:
    loop = _loop(kernel, label)
    if how == "inside":
        kernel = interchange(kernel, machine, loop)
        work = set(walk(loop.body))
        loop = next(
            found
            for _, found, _ in labelled_loops(kernel.body)
            if found.var == loop.var and found.body[-1] in work
        )
    kernel = promote(kernel, machine, buffer, loop, at_first_use=how == "at-first-use")
    return widened_everywhere(simplify(kernel), machine)


def _block_load(kernel: Kernel, machine: Machine, buffer: str, label: str) -> Kernel:
    kernel = promote(kernel, machine, buffer, _loop(kernel, label))
    return widened_everywhere(simplify(kernel), machine)


def _once(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    yield ()


def _buffers(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    for buffer in find_buffers(kernel, machine):
        yield (buffer.name,)


def _loops(*variants: str) -> Callable[[Kernel, Machine], Iterator[Arguments]]:
    """Every loop, once for each variant if there are any."""

    def sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
        for label, _, _ in labelled_loops(kernel.body):
            if not variants:
                yield (label,)
            for variant in variants:
                yield label, variant

    return sites


def _product_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops around nothing but products: where the core's instructions per command matter."""
    for label, loop, above in labelled_loops(kernel.body):
        if all(machine.unit(c.name) == "execute" for c in commands(loop.body)):
            for factor in unroll_factors(loop, above):
                yield label, str(factor)


def _tiled_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    for label, loop, above in labelled_loops(kernel.body):
        for factor in tile_factors(kernel, machine, loop, above):
            yield label, str(factor)


def _blocks(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    for label in block_loops(kernel, machine):
        yield (label,)


def _filled_in_loops(
    kernel: Kernel, machine: Machine, unit: str
) -> Iterator[tuple[Buffer, str, Loop, Body]]:
    """Buffers that are filled by this unit, with each loop around all their uses."""
    for buffer in find_buffers(kernel, machine):
        if {machine.unit(a.command.name) for a in buffer.writers} >= {unit}:
            for label, loop, above in labelled_loops(kernel.body):
                if all(loop in a.above for a in buffer.accesses):
                    yield buffer, label, loop, above


def _loaded_in_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    cost = estimate(kernel, machine)
    for buffer, label, loop, above in _filled_in_loops(kernel, machine, "load"):
        for slots in slot_counts(buffer, loop, above, cost):
            yield buffer.name, label, str(slots)


def _on_loop(rewrite: Callable[[Kernel, Machine, Loop], Kernel]) -> Callable[..., Kernel]:
    def apply(kernel: Kernel, machine: Machine, label: str) -> Kernel:
        return rewrite(kernel, machine, _loop(kernel, label))

    return apply


def _on_loop_by(rewrite: Callable[[Kernel, Machine, Loop, int], Kernel]) -> Callable[..., Kernel]:
    def apply(kernel: Kernel, machine: Machine, label: str, number: str) -> Kernel:
        return rewrite(kernel, machine, _loop(kernel, label), int(number))

    return apply


def _accumulator_sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    for buffer, label, _, _ in _filled_in_loops(kernel, machine, "execute"):
        for slots in sorted({2, max(2, machine.spaces[buffer.space].banks)}):
            for how in ("in-place", "delayed"):
                yield buffer.name, label, str(slots), how


def _accumulator(
    kernel: Kernel, machine: Machine, buffer: str, label: str, slots: str, how: str
) -> Kernel:
    rewrite = delay_stores if how == "delayed" else multibuffer
    return rewrite(kernel, machine, buffer, _loop(kernel, label), int(slots))


def _on_slots(
    rewrite: Callable[[Kernel, Machine, str, Loop, int], Kernel],
) -> Callable[..., Kernel]:
    def apply(kernel: Kernel, machine: Machine, buffer: str, label: str, slots: str) -> Kernel:
        return rewrite(kernel, machine, buffer, _loop(kernel, label), int(slots))

    return apply


def _split_sites(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops whose variable is divided by a multiple of their step: groups of so many iterations."""
    for label, loop, _ in labelled_loops(kernel.body):
        divisors = {d // loop.step for d in divided_by(loop) if d % loop.step == 0}
        for factor in sorted(divisors - {1}):
            yield label, str(factor)


def _products_alone(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops around nothing but products."""
    for label, loop, _ in labelled_loops(kernel.body):
        if all(machine.unit(c.name) == "execute" for c in commands(loop.body)):
            yield (label,)


def _tested_loops(kernel: Kernel, machine: Machine) -> Iterator[Arguments]:
    """Loops whose variable is tested inside, at the end that the test tells apart."""
    for label, loop, _ in labelled_loops(kernel.body):
        tests = [c for s in walk(loop.body) if isinstance(s, Guard) for c in s.condition]
        found = {c.op for c in tests if loop.var in c.left.names() | c.right.names()}
        if found & {"==", "!=", ">", ">="}:
            yield label, "first"
        if found & {"<", "<="}:
            yield label, "last"


def _peeled(kernel: Kernel, machine: Machine, label: str, which: str) -> Kernel:
    return peel(kernel, machine, _loop(kernel, label), which)


_LOADS = frozenset(("dma", "load"))
_BANKS = frozenset(("bank", "steal"))
_STORES = frozenset(("store", "accumulator", "dependency"))
_CORE = frozenset(("cpu", "command"))

CATALOGUE: Mapping[str, Technique] = {
    "resident": Technique(
        _resident_sites,
        _resident,
        "keep {0} resident: load all that loop {1} uses of it once ({2})",
        _LOADS | _CORE,
    ),
    "block-load": Technique(
        _loads(varying=True),
        _block_load,
        "load the whole block of {0} before loop {1} instead of piece by piece inside it",
        _LOADS,
    ),
    "widen": Technique(
        _once,
        widened_everywhere,
        "merge neighbouring moves into moves as wide as allowed",
        _LOADS | _CORE,
    ),
    "banks": Technique(
        _once, spread, "place buffers that are used together in different banks", _BANKS
    ),
    "overwrite": Technique(
        _buffers,
        overwrite,
        "let the first product overwrite {0} instead of clearing it by a move of zeros",
        _LOADS | _CORE,
    ),
    "double-buffer": Technique(
        _loaded_in_loops,
        _on_slots(multibuffer),
        "give {0} {2} slots, used in turn by the iterations of loop {1}",
        _LOADS | {"dependency"},
    ),
    "double-accumulator": Technique(
        _accumulator_sites,
        _accumulator,
        "give {0} {2} slots in different banks, used in turn by the iterations of loop {1} "
        "(stores {3})",
        _STORES,
    ),
    "pipeline": Technique(
        _loaded_in_loops,
        _on_slots(prefetch),
        "issue the loads of {0} for the next iteration of loop {1} before the work of this one, "
        "into one of {2} slots",
        _LOADS | _BANKS | {"dependency"},
    ),
    "interleave": Technique(
        _loops(),
        _on_loop(interleave),
        "spread the loads at the head of loop {0} over the work behind them",
        _LOADS,
    ),
    "reorder": Technique(
        _loops(), _on_loop(interchange), "swap loop {0} with the loop inside it", _LOADS
    ),
    "unroll": Technique(
        _product_loops, _on_loop_by(unroll), "unroll loop {0} (factor {1}, 0 for whole)", _CORE
    ),
    "roll": Technique(
        _once, roll_up, "write commands that repeat with evenly growing operands as loops", _CORE
    ),
    "retile": Technique(
        _tiled_loops,
        _on_loop_by(retile),
        "work on {1} neighbouring tiles of loop {0} at once, sharing what they load",
        _LOADS | _CORE,
    ),
    "simplify": Technique(
        _loops(),
        _on_loop(split_tail),
        "split the ragged last iteration of loop {0} off, so that the others have fixed sizes",
        _CORE,
    ),
    "tail-first": Technique(
        _products_alone,
        _on_loop(tail_first),
        "split the ragged last iteration of loop {0} off and run it before the others",
        _CORE,
    ),
    "hoist": Technique(
        _loops(),
        _on_loop(hoist_configuration),
        "move settings that never change out of loop {0}",
        _CORE | {"fence"},
    ),
    "reuse": Technique(
        _once,
        reuse_latched,
        "let products use the operand that the one before left in the array",
        _BANKS,
    ),
    "settings": Technique(
        _once,
        remove_settings,
        "remove settings that are already in force or that nothing uses",
        _CORE,
    ),
    "offload": Technique(
        _blocks,
        _on_loop(offload),
        "let the accumulator add and negate what the core computes in loop {0}",
        _CORE | {"fence"},
    ),
    "share": Technique(
        _blocks,
        _on_loop(share),
        "load what several products of an iteration of loop {0} use once",
        _LOADS | _CORE,
    ),
    "forward": Technique(
        _blocks,
        _on_loop(forward),
        "hand results to the products of loop {0} that use them through the array, not memory",
        _LOADS | {"fence"},
    ),
    "carry": Technique(
        _blocks,
        _on_loop(carry),
        "keep what an iteration of loop {0} stores for the next one in local memory",
        _LOADS | {"fence"},
    ),
    "hoist-loads": Technique(
        _blocks,
        _on_loop(hoist_loads),
        "load what every iteration of loop {0} uses before it, by wide moves",
        _LOADS | _CORE,
    ),
    "early-loads": Technique(
        _blocks,
        _on_loop(load_early),
        "issue the loads of an iteration of loop {0} before its products",
        _LOADS,
    ),
    "fences": Technique(
        _once,
        spare_fences,
        "remove the fences that order nothing",
        frozenset(("fence", "drain")),
    ),
    "split": Technique(
        _split_sites,
        _on_loop_by(split),
        "make two loops of loop {0}: one over groups of {1} iterations, one within a group",
        _CORE,
    ),
    "fuse": Technique(
        _loops(),
        _on_loop(fuse),
        "run the iterations of loop {0} together with those of the loop behind it",
        _CORE | {"dependency"},
    ),
    "peel": Technique(
        _tested_loops,
        _peeled,
        "take the {1} iteration out of loop {0}, and with it the tests for it",
        _CORE,
    ),
    "strength": Technique(
        _loops(),
        _on_loop(count_iterations),
        "let loop {0} count its iterations, so that addresses need no division",
        _CORE,
    ),
    "dead-code": Technique(
        _once, remove_dead_loads, "remove loads that nothing uses", _LOADS | _CORE
    ),
}

"""Single steps: a technique at a place, their text form, their description, and their
application."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from tilewright.proposers.nki.analysis.dependence import NotApplicableError, allocated
from tilewright.proposers.nki.analysis.partition_starts import startable
from tilewright.proposers.nki.ir import Kernel, Loop, Op, Path, at, ops
from tilewright.proposers.nki.rewrites.accumulate import accumulate
from tilewright.proposers.nki.rewrites.adjacent_rows import adjacent
from tilewright.proposers.nki.rewrites.bands import bands
from tilewright.proposers.nki.rewrites.broadcast_rows import spread
from tilewright.proposers.nki.rewrites.chains import early, stay
from tilewright.proposers.nki.rewrites.cleaning import cleaned
from tilewright.proposers.nki.rewrites.contiguous_loads import runs, weave
from tilewright.proposers.nki.rewrites.copies import forward, land, replace_original, skip_copy
from tilewright.proposers.nki.rewrites.defer_scaling import defer
from tilewright.proposers.nki.rewrites.engines import ENGINES, move
from tilewright.proposers.nki.rewrites.fused_reduction import along, folded
from tilewright.proposers.nki.rewrites.hoist import hoist
from tilewright.proposers.nki.rewrites.join_windows import join
from tilewright.proposers.nki.rewrites.load_types import stored_type
from tilewright.proposers.nki.rewrites.loosen import loosen
from tilewright.proposers.nki.rewrites.masked import skip_masked
from tilewright.proposers.nki.rewrites.memory import place
from tilewright.proposers.nki.rewrites.merging import merge
from tilewright.proposers.nki.rewrites.order import exchange, fuse
from tilewright.proposers.nki.rewrites.pe_transpose import turn
from tilewright.proposers.nki.rewrites.precision import narrow
from tilewright.proposers.nki.rewrites.refold import refold
from tilewright.proposers.nki.rewrites.regroup import regroup, regrouped
from tilewright.proposers.nki.rewrites.reuse import reuse
from tilewright.proposers.nki.rewrites.roll import roll
from tilewright.proposers.nki.rewrites.separable_windows import separate
from tilewright.proposers.nki.rewrites.split_transfers import pieces
from tilewright.proposers.nki.rewrites.stack_partitions import fold, stack
from tilewright.proposers.nki.rewrites.strips import strip
from tilewright.proposers.nki.rewrites.tiles_inside import inside
from tilewright.proposers.nki.rewrites.unfold_reduction import unfold
from tilewright.proposers.nki.rewrites.unroll_and_jam import jam
from tilewright.proposers.nki.rewrites.whole_scans import whole_scan
from tilewright.proposers.nki.rewrites.window import window
from tilewright.proposers.nki.rewrites.window_pairs import pairs

FACTORS = (2, 4, 8, 16, 0)
_COUNTED: Mapping[str, tuple[int, ...]] = {"bands": (3, 4, 8, 16), "stack": (2, 4)}
"""Numbers of iterations of a loop for techniques."""
_WIDTHS = (512, 1024, 2048)
_PIECES, LEAST_ROWS = (4, 8, 16), 4
"""Numbers of transfers into which a large one is split, and minimum number of rows of each."""
_PARTS = (4, 8, 0)
"""Numbers of parts of the loop on which a mask depends, each without its hidden columns."""


def _at_loop(kernel: Kernel, change: Callable[[Kernel, Path], Kernel], name: str) -> Kernel:
    return change(kernel, _loop(kernel, name))


def _loop(kernel: Kernel, name: str) -> Path:
    for path, statement in kernel.statements():
        if isinstance(statement, Loop) and statement.variable == name:
            return path
    raise NotApplicableError(f"there is no loop over {name}")


def _at_op(kernel: Kernel, change: Callable[[Kernel, Path], Kernel], number: str) -> Kernel:
    return change(kernel, _op(kernel, number))


def _op(kernel: Kernel, number: str) -> Path:
    """The instruction with a number, counted from 1 in the text."""
    found = [path for path, statement in kernel.statements() if isinstance(statement, Op)]
    if not 1 <= _count(number) <= len(found):
        raise NotApplicableError(f"there is no instruction {number}")
    return found[_count(number) - 1]


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise NotApplicableError(f"{text!r} is not an integer") from None


_APPLY: Mapping[str, Callable[..., Kernel]] = {
    "jam": lambda k, loop, factor: regrouped(folded(jam(k, _loop(k, loop), _count(factor)))),
    "hoist": lambda k, tile, loop: hoist(k, _loop(k, loop), tile),
    "exchange": lambda k, loop: _at_loop(k, exchange, loop),
    "fuse": lambda k, loop: _at_loop(k, fuse, loop),
    "forward": lambda k, number: _at_op(k, forward, number),
    "skip-copy": lambda k, number: _at_op(k, skip_copy, number),
    "land": lambda k, number: _at_op(k, land, number),
    "merge": lambda k, number: _at_op(k, merge, number),
    "accumulate": lambda k, number: _at_op(k, accumulate, number),
    "engine": lambda k, number, engine: move(k, _op(k, number), engine),
    "narrow": narrow,
    "stay": lambda k, loop: _at_loop(k, stay, loop),
    "take-over": lambda k, number: _at_op(k, replace_original, number),
    "defer": lambda k, number: _at_op(k, defer, number),
    "reuse": lambda k, number: _at_op(k, reuse, number),
    "window": lambda k, number: _at_op(k, window, number),
    "join": lambda k, number: _at_op(k, join, number),
    "bands": lambda k, loop, height: bands(k, _loop(k, loop), _count(height)),
    "stack": lambda k, loop, count: stack(k, _loop(k, loop), _count(count)),
    "fold": lambda k, number: _at_op(k, fold, number),
    "pairs": lambda k, number: _at_op(k, pairs, number),
    "separate": lambda k, number: _at_op(k, separate, number),
    "runs": lambda k, number: _at_op(k, runs, number),
    "weave": lambda k, number: _at_op(k, weave, number),
    "stored-type": lambda k, number: _at_op(k, stored_type, number),
    "pieces": lambda k, number, count: pieces(k, _op(k, number), _count(count)),
    "regroup": lambda k, number: _at_op(k, regroup, number),
    "adjacent": lambda k, number: _at_op(k, adjacent, number),
    "turn": lambda k, number: _at_op(k, turn, number),
    "unfold": lambda k, number: _at_op(k, unfold, number),
    "along": lambda k, number: _at_op(k, along, number),
    "spread": lambda k, number: _at_op(k, spread, number),
    "strip": lambda k, number, width: strip(k, _op(k, number), _count(width)),
    "skip-masked": lambda k, number, parts: skip_masked(k, _op(k, number), _count(parts)),
    "psum": lambda k, tile: place(k, tile, "psum"),
    "early": lambda k, number, loop: early(k, _op(k, number), _loop(k, loop)),
    "inside": lambda k, name: _at_loop(k, inside, name),
    "roll": roll,
    "loosen": loosen,
    "refold": lambda k, number: _at_op(k, refold, number),
    "whole-scan": lambda k, loop: _at_loop(k, whole_scan, loop),
}
TECHNIQUES = tuple(_APPLY)
_SENTENCES = {
    "jam": "run {1} iterations of the loop over `{0}` together",
    "hoist": "compute `{0}` before the loop over `{1}`",
    "exchange": "exchange the loop over `{0}` and the loop inside it",
    "fuse": "fuse the loop over `{0}` and the next loop",
    "forward": "use the stored tile instead of loading it again with instruction {0}",
    "skip-copy": "read the source of the copy in instruction {0} directly, without the copy",
    "land": "compute directly into the destination of the copy in instruction {0}",
    "merge": "merge instruction {0} with the instruction that computes its operand",
    "accumulate": "accumulate in PSUM the products that instruction {0} adds",
    "engine": "move instruction {0} to the engine {1}",
    "narrow": "keep `{0}`, and the operand it is multiplied with, in bfloat16",
    "stay": "keep on the chip the data that the loop over `{0}` stores and a later loop loads",
    "take-over": "use the tile that instruction {0} copies, and remove the copy",
    "defer": "apply the scaling of instruction {0} to the product's result instead of its operand",
    "reuse": "use the result of an earlier instruction that computes the same as instruction {0}",
    "window": "load a row once, instead of its windows in the loop around instruction {0}",
    "join": "merge the load of instruction {0} with loads that overlap or adjoin it",
    "bands": "give each partition {1} neighbouring rows of the loop over `{0}`",
    "stack": "run {1} iterations of the loop over `{0}` together, each on its own partitions",
    "fold": "divide instruction {0} and the next ones into strips on separate partitions",
    "pairs": "reduce only once the elements that two neighbouring windows of instruction {0} share",
    "separate": "reduce the windows of instruction {0} along one axis, then along the other",
    "stored-type": "load the data of instruction {0} in the type that they have in HBM",
    "pieces": "split the large transfer of instruction {0} into {1} transfers",
    "regroup": "reorder the columns of the tile of instruction {0} for longer runs in HBM",
    "adjacent": "give each partition adjacent rows of HBM in the transfer of instruction {0}",
    "runs": "load contiguous runs instead of evenly spaced elements with instruction {0}",
    "weave": "store contiguous runs after the loop instead of elements with instruction {0}",
    "turn": "transpose on PE, instead of during the transfer of instruction {0}",
    "unfold": "replace the reduction of windows by instruction {0} with operations on whole tiles",
    "along": "reduce the operand of instruction {0} in parts, as they are computed",
    "spread": "broadcast the row of instruction {0} to all partitions by products with ones",
    "strip": "divide instruction {0} and the following ones into strips of {1} columns",
    "skip-masked": "skip what the mask of instruction {0} hides, in {1} parts of its loop",
    "psum": "keep `{0}` in PSUM",
    "early": "compute instruction {0} into a tile of its own before the loop over `{1}`",
    "inside": "create tiles within the loop over `{0}`, so that they have several buffers",
    "roll": "turn instructions that differ only in their places into loops",
    "whole-scan": "run the scans of all iterations of the loop over `{0}` as one scan",
    "refold": "replace instruction {0} and those before it by one reduction of windows",
    "loosen": "let only products use PSUM, and let instructions run on any engine",
}


@dataclass(frozen=True, slots=True)
class Step:
    """A technique and its arguments: names of loops and tiles, and numbers of instructions."""

    technique: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join((self.technique, *self.arguments))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Inverse of `str`; raises `ValueError`."""
        technique, *arguments = text.split()
        if technique not in _APPLY or len(arguments) != _SENTENCES[technique].count("{"):
            raise ValueError(f"{text!r} is not a step")
        return cls(technique, tuple(arguments))

    def apply(self, kernel: Kernel) -> Kernel:
        """The kernel after the step; raises `NotApplicableError`."""
        try:
            return startable(cleaned(_APPLY[self.technique](kernel, *self.arguments)))
        except ValueError as error:
            raise NotApplicableError(str(error)) from None

    @property
    def sentence(self) -> str:
        """A description of the step."""
        text = _SENTENCES[self.technique].format(*self.arguments)
        text = text.replace("run 0 iterations", "run all iterations")
        return text.replace("in 0 parts", "in parts")


def possible(kernel: Kernel, technique: str) -> list[Step]:
    """All steps of a technique, including those that do not apply to the kernel."""
    if technique in ("jam", "exchange", "fuse", "stay", "inside", "whole-scan"):
        loops = [s for _, s in kernel.statements() if isinstance(s, Loop)]
        if technique == "jam":
            return [
                Step("jam", (loop.variable, str(factor)))
                for loop in loops
                for factor in FACTORS
                if not factor or (factor < loop.trips and loop.trips % factor == 0)
            ]
        return [Step(technique, (loop.variable,)) for loop in loops]
    if technique in _COUNTED:
        return [
            Step(technique, (loop.variable, str(count)))
            for _, loop in kernel.statements()
            if isinstance(loop, Loop)
            for count in _COUNTED[technique]
            if count <= loop.trips
        ]
    if technique == "hoist":
        return [
            Step("hoist", (name, loop.variable))
            for _, loop in kernel.statements()
            if isinstance(loop, Loop)
            for name in allocated(loop.body)
        ]
    if technique == "narrow":
        operands = {
            region.tensor: None
            for op in ops(kernel.body)
            if op.name in ("nc_matmul", "nc_transpose")
            for region in op.reads
        }
        tiles = kernel.tensors()
        return [Step("narrow", (n,)) for n in operands if tiles[n].memory == "sbuf"]
    if technique == "psum":
        return [
            Step("psum", (name,))
            for name, tensor in allocated(kernel.body).items()
            if tensor.memory == "sbuf" and tensor.dtype == "float32"
        ]
    if technique == "early":
        return list(_early(kernel))
    if technique in ("roll", "loosen"):
        return [Step(technique, ())]
    numbered = enumerate((s for _, s in kernel.statements() if isinstance(s, Op)), start=1)
    if technique == "engine":
        return [Step("engine", (str(n), engine)) for n, _ in numbered for engine in ENGINES]
    if technique == "strip":
        return [
            Step("strip", (str(n), str(width)))
            for n, op in numbered
            for width in _WIDTHS
            if max(region.columns for _, region in op.regions) > width
        ]
    if technique == "pieces":
        return [
            Step("pieces", (str(n), str(count)))
            for n, op in numbered
            if op.name == "dma_copy"
            for count in _PIECES
            if count * LEAST_ROWS <= (op.region("dst").shape[1:2] or (0,))[0]
        ]
    if technique == "skip-masked":
        return [
            Step("skip-masked", (str(n), str(parts)))
            for n, op in numbered
            if op.name == "affine_select"
            for parts in _PARTS
        ]
    return [
        Step(technique, (str(n),)) for n, op in numbered if op.name in _AT.get(technique, op.name)
    ]


def _early(kernel: Kernel) -> Iterator[Step]:
    """Instructions that overwrite data that their iteration used, and the enclosing loops."""
    number = 0
    for path, op in kernel.statements():
        if not isinstance(op, Op):
            continue
        number += 1
        if any(one.tensor == other.tensor for one in op.reads for other in op.writes):
            for depth in range(1, len(path)):
                loop = at(kernel.body, path[:depth])
                assert isinstance(loop, Loop)
                yield Step("early", (str(number), loop.variable))


_AT = {
    "forward": ("dma_copy",), "skip-copy": ("tensor_copy", "dma_copy"), "land": ("tensor_copy",),
    "accumulate": ("tensor_tensor",), "take-over": ("tensor_copy",), "defer": ("tensor_scalar",),
    "unfold": ("tensor_reduce",), "along": ("tensor_reduce",), "spread": ("dma_copy",),
    "window": ("dma_copy",), "join": ("dma_copy",), "runs": ("dma_copy",),
    "weave": ("dma_copy",),
    "regroup": ("dma_copy",), "adjacent": ("dma_copy",), "stored-type": ("dma_copy",),
    "turn": ("dma_copy", "dma_transpose"), "separate": ("tensor_reduce",),
    "pairs": ("tensor_reduce",), "refold": ("tensor_tensor",),
}  # fmt: skip


def steps_of(kernel: Kernel, technique: str) -> Iterator[tuple[Step, Kernel]]:
    """Every place at which a technique applies, with the resulting kernel."""
    for step in possible(kernel, technique):
        try:
            after = step.apply(kernel)
        except NotApplicableError:
            continue
        if after != kernel:
            yield step, after

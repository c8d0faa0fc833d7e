"""The techniques that a menu may name: where each can be applied, and its description."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.placement import spread
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.sites import (
    Arguments,
    accumulator_sites,
    blocks,
    each_buffer,
    each_loop,
    loaded_in_inner_loops,
    loaded_in_loops,
    loads,
    loops_of_loads,
    nowhere,
    once,
    product_loops,
    products_alone,
    resident_sites,
    split_sites,
    summing_loops,
    sums_in_array,
    tested_loops,
    tiled_loops,
)
from tilewright.proposers.rewriter.planning.text_arguments import (
    alternate_parts,
    chain_products,
    discard_schedule,
    keep_operand,
    keep_resident,
    load_block,
    loop_at,
    on_loop,
    on_loop_by,
    on_slots,
    peel_iteration,
    use_accumulators,
)
from tilewright.proposers.rewriter.rewrites.alternate_banks import parts_in_loops
from tilewright.proposers.rewriter.rewrites.coalesce import coalesce
from tilewright.proposers.rewriter.rewrites.compact import roll_up
from tilewright.proposers.rewriter.rewrites.dataflow import sum_in_memory
from tilewright.proposers.rewriter.rewrites.dead_moves import remove_dead_moves
from tilewright.proposers.rewriter.rewrites.early_loads import load_early
from tilewright.proposers.rewriter.rewrites.fences import spare_fences
from tilewright.proposers.rewriter.rewrites.finish_tiles import finish_tiles
from tilewright.proposers.rewriter.rewrites.hoist import hoist_configuration
from tilewright.proposers.rewriter.rewrites.interleave import interleave, load_midway
from tilewright.proposers.rewriter.rewrites.invariant import hoist_loads
from tilewright.proposers.rewriter.rewrites.loops import interchange, split_tail, tail_first, unroll
from tilewright.proposers.rewriter.rewrites.multibuffer import multibuffer
from tilewright.proposers.rewriter.rewrites.offload import offload
from tilewright.proposers.rewriter.rewrites.one_nest import in_nest
from tilewright.proposers.rewriter.rewrites.overwrite import overwrite
from tilewright.proposers.rewriter.rewrites.packing import pack_blocks
from tilewright.proposers.rewriter.rewrites.pipeline import prefetch, prefetch_in_nest
from tilewright.proposers.rewriter.rewrites.private_rows import give_own_rows
from tilewright.proposers.rewriter.rewrites.redundant_commands import remove_settings
from tilewright.proposers.rewriter.rewrites.retile import retile
from tilewright.proposers.rewriter.rewrites.reuse import reuse_latched
from tilewright.proposers.rewriter.rewrites.small_loads_first import small_loads_first
from tilewright.proposers.rewriter.rewrites.stagger import stagger
from tilewright.proposers.rewriter.rewrites.store_forwarding import carry, forward, share
from tilewright.proposers.rewriter.rewrites.strength_reduction import count_iterations
from tilewright.proposers.rewriter.rewrites.structure import fuse, split
from tilewright.proposers.rewriter.rewrites.transpose import transpose
from tilewright.proposers.rewriter.rewrites.unrolled_moves import write_moves_out
from tilewright.proposers.rewriter.rewrites.widen import widened_everywhere

RAISE = "raise"
"""The technique that discards the schedule. Plans that return to the computation use it."""
CHAIN = "chain"
"""The technique that discards the schedule, too, and lets products read results in local memory."""
IN_NEST = "in-product"
"""The technique that applies another one to one of several products."""
ALONE = frozenset(
    (
        *("keep-operand", "retile", "overwrite", "coalesce", "resident", "block-load", "unroll"),
        *("double-buffer", "double-accumulator", "pipeline", "pipeline-nest", "interleave"),
        *("split", "peel", "reorder", "stagger", "write-moves-out", "widen", "reuse", "simplify"),
        *("alternate-banks", "finish-tiles", "load-midway"),
    )
)
"""The techniques that may be applied to a product alone. Others, such as `fences` and `dead-code`,
depend on what later products use."""


@dataclass(frozen=True, slots=True)
class Technique:
    """One technique: places worth trying, the rewrite, and a sentence with `{0}`, `{1}` for the
    arguments.

    The sentence may depend on the arguments; a function then creates it. `relieves` are words in
    the names of causes of lost cycles in a measurement.
    """

    sites: Callable[[Kernel, Machine], Iterator[Arguments]]
    apply: Callable[..., Kernel]
    sentence: str | Callable[..., str]
    relieves: frozenset[str] = frozenset()

    def described(self, *words: str) -> str:
        """The sentence for these arguments, of which some may be in words."""
        given = self.sentence
        return given.format(*words) if isinstance(given, str) else given(*words)


def _unrolling(label: str, factor: str) -> str:
    return f"unroll loop {label} " + ("completely" if factor == "0" else f"by a factor of {factor}")


def _in_product(
    kernel: Kernel, machine: Machine, number: str, technique: str, *arguments: str
) -> Kernel:
    """Applies a technique to product `#1`, `#2`, .. of the kernel alone."""
    position = number.removeprefix("#")
    if technique not in ALONE or not position.isdecimal():
        raise NotApplicable(f"{technique} cannot be applied to product {number} alone")

    def rewrite(part: Kernel) -> Kernel:
        return simplify(CATALOGUE[technique].apply(part, machine, *arguments))

    return in_nest(kernel, machine, int(position), rewrite)


def _sentence_in_product(number: str, technique: str, *arguments: str) -> str:
    return f"in product {number.removeprefix('#')}, {CATALOGUE[technique].described(*arguments)}"


_LOADS = frozenset(("dma", "load"))
_BANKS = frozenset(("bank", "steal"))
_STORES = frozenset(("store", "accumulator", "dependency"))
_CORE = frozenset(("cpu", "command"))


CATALOGUE: Mapping[str, Technique] = {
    RAISE: Technique(
        once,
        discard_schedule,
        "discard the schedule: derive what the kernel computes and write it as the naive loop nest",
    ),
    CHAIN: Technique(
        once,
        chain_products,
        "discard the schedule, and let each product read the results of the product before it in "
        "local memory instead of storing and loading them",
        _STORES | _LOADS,
    ),
    "resident": Technique(
        resident_sites,
        keep_resident,
        "keep {0} in local memory, so that loop {1} loads each part once and not in every "
        "iteration ({2})",
        _LOADS | _CORE,
    ),
    "block-load": Technique(
        loads(varying=True),
        load_block,
        "load the whole block of {0} before loop {1} instead of piece by piece inside it",
        _LOADS,
    ),
    "widen": Technique(
        once,
        widened_everywhere,
        "merge neighbouring moves into wider ones",
        _LOADS | _CORE,
    ),
    "banks": Technique(
        once, spread, "place buffers that are used together in different banks", _BANKS
    ),
    "dataflow": Technique(
        sums_in_array,
        sum_in_memory,
        "keep second factors in the array and accumulate the sums in local memory",
        _LOADS | _CORE | _BANKS,
    ),
    "overwrite": Technique(
        each_buffer,
        overwrite,
        "let the first product overwrite {0} instead of adding to zeros that were moved there",
        _LOADS | _CORE,
    ),
    "double-buffer": Technique(
        loaded_in_loops,
        on_slots(multibuffer),
        "give {0} {2} buffers that the iterations of loop {1} use in turn",
        _LOADS | {"dependency"},
    ),
    "double-accumulator": Technique(
        accumulator_sites,
        use_accumulators,
        "give {0} {2} buffers in different banks that the iterations of loop {1} use in turn "
        "(stores {3})",
        _STORES,
    ),
    "pipeline": Technique(
        loaded_in_loops,
        on_slots(prefetch),
        "prefetch {0}: issue its loads for the next iteration of loop {1} before the products of "
        "the current one, into one of {2} buffers",
        _LOADS | _BANKS | {"dependency"},
    ),
    "pipeline-nest": Technique(
        loaded_in_inner_loops,
        on_slots(prefetch_in_nest),
        "prefetch {0}: issue its loads for the next iteration of loop {1}, or for the first one in "
        "the next iteration of the loops around it, before the products of the current one, into "
        "one of {2} buffers",
        _LOADS | _BANKS | {"dependency"},
    ),
    "interleave": Technique(
        each_loop(),
        on_loop(interleave),
        "distribute the loads of later tiles, or delayed stores, among the products of loop {0}",
        _LOADS | _STORES,
    ),
    "load-midway": Technique(
        each_loop(),
        on_loop(load_midway),
        "issue a single load for a later iteration of loop {0} in the middle of its products",
        _BANKS,
    ),
    "stagger": Technique(
        loops_of_loads,
        on_loop(stagger),
        "issue the loads of loop {0} in small portions inside the loop that uses them, one "
        "iteration ahead",
        _LOADS,
    ),
    "alternate-banks": Technique(
        parts_in_loops,
        alternate_parts,
        "place the parts of {0} that the iterations of loop {1} write in different banks in turn",
        _BANKS | _STORES,
    ),
    IN_NEST: Technique(nowhere, _in_product, _sentence_in_product, _LOADS | _STORES),
    "reorder": Technique(
        each_loop(), on_loop(interchange), "swap loop {0} with the loop inside it", _LOADS
    ),
    "coalesce": Technique(
        each_loop(),
        lambda kernel, machine, label: coalesce(kernel, loop_at(kernel, label)),
        "run loop {0} and the loop inside it as one loop",
        _LOADS,
    ),
    "unroll": Technique(product_loops, on_loop_by(unroll), _unrolling, _CORE),
    "roll": Technique(
        once, roll_up, "write commands that repeat with evenly growing operands as a loop", _CORE
    ),
    "retile": Technique(
        tiled_loops,
        on_loop_by(retile),
        "process {1} neighbouring tiles of loop {0} at once, so that they share loaded data",
        _LOADS | _CORE,
    ),
    "simplify": Technique(
        each_loop(),
        on_loop(split_tail),
        "peel off the partial last iteration of loop {0}, so that the others have fixed sizes",
        _CORE,
    ),
    "tail-first": Technique(
        products_alone,
        on_loop(tail_first),
        "peel off the partial last iteration of loop {0} and run it before the others",
        _CORE,
    ),
    "hoist": Technique(
        each_loop(),
        on_loop(hoist_configuration),
        "move commands that set the same values in every iteration out of loop {0}",
        _CORE | {"fence"},
    ),
    "reuse": Technique(
        once,
        reuse_latched,
        "let products reuse the operand that the previous product left in the array",
        _BANKS,
    ),
    "keep-operand": Technique(
        tiled_loops,
        keep_operand,
        "process {1} neighbouring tiles of loop {0} at once, so that each operand in the array "
        "serves all of them",
        _BANKS,
    ),
    "settings": Technique(
        once,
        remove_settings,
        "remove commands whose values are already set or never used",
        _CORE,
    ),
    "transpose": Technique(
        once,
        transpose,
        "keep vectors as rows and let the array transpose the matrices it multiplies them with",
        _LOADS | _CORE | _STORES,
    ),
    "offload": Technique(
        blocks,
        on_loop(offload),
        "let the accelerator compute the sums and sign changes of loop {0} instead of the core",
        _CORE | {"fence"},
    ),
    "share": Technique(
        blocks,
        on_loop(share),
        "load data only once if several products of an iteration of loop {0} use them",
        _LOADS | _CORE,
    ),
    "forward": Technique(
        blocks,
        on_loop(forward),
        "pass results through the array instead of memory to the products of loop {0} that use "
        "them",
        _LOADS | {"fence"},
    ),
    "carry": Technique(
        blocks,
        on_loop(carry),
        "keep data in local memory if an iteration of loop {0} stores them for the next one",
        _LOADS | {"fence"},
    ),
    "own-rows": Technique(
        blocks,
        on_loop(give_own_rows),
        "give each iteration of loop {0} its own local rows for the values that it passes on",
        _STORES | _CORE,
    ),
    "hoist-loads": Technique(
        blocks,
        on_loop(hoist_loads),
        "before loop {0}, load the data that all its iterations use, with wide moves",
        _LOADS | _CORE,
    ),
    "early-loads": Technique(
        blocks,
        on_loop(load_early),
        "issue all loads of an iteration of loop {0} before its products",
        _LOADS,
    ),
    "fences": Technique(
        once,
        spare_fences,
        "remove fences that are not needed for correct results",
        frozenset(("fence", "drain")),
    ),
    "split": Technique(
        split_sites,
        on_loop_by(split),
        "split loop {0} into two: one over groups of {1} iterations, one within a group",
        _CORE,
    ),
    "fuse": Technique(
        each_loop(),
        on_loop(fuse),
        "fuse loop {0} with the loop after it",
        _CORE | {"dependency"},
    ),
    "finish-tiles": Technique(
        summing_loops,
        on_loop_by(finish_tiles),
        "complete one tile of results after the other in the last {1} iterations of loop {0}, and "
        "store each tile while the next one is computed",
        _STORES | {"fence"},
    ),
    "peel": Technique(
        tested_loops,
        peel_iteration,
        "peel off the {1} iteration of loop {0}, so that the others need no test for it",
        _CORE,
    ),
    "strength": Technique(
        each_loop(),
        on_loop(count_iterations),
        "let loop {0} count its iterations, so that addresses need no division",
        _CORE,
    ),
    "write-moves-out": Technique(
        once,
        write_moves_out,
        "write out the short loops of loads and stores among products, so that the core computes "
        "their addresses once",
        _CORE,
    ),
    "small-loads-first": Technique(
        once,
        small_loads_first,
        "issue small loads before large ones, where no other command is between them, so that the "
        "first products begin earlier",
        _LOADS,
    ),
    "pack": Technique(
        once,
        pack_blocks,
        "keep the operand words of commands (address, columns and rows of a block) in registers",
        _CORE,
    ),
    "dead-code": Technique(
        once, remove_dead_moves, "remove loads and stores whose data are never used", _LOADS | _CORE
    ),
}

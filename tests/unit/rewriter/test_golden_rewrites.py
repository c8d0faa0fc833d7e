"""Every rewrite on small kernels, compared with stored results (`--update-golden` renews them)."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from kernel_model import gemm_is_right
from test_block_rewrites import CASES as RECURRENCE
from test_chained import GOLDEN_CASES as CHAINED
from test_one_nest import GOLDEN_CASES as PRODUCTS

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning import catalogue, text_arguments
from tilewright.proposers.rewriter.planning.catalogue import CATALOGUE
from tilewright.proposers.rewriter.planning.steps import Step

GOLDEN = Path(__file__).parents[2] / "golden" / "rewriter"
EXPERT = (
    "hoist r; resident W r inside; block-load X d#2; overwrite Y; pipeline X r 3; "
    "double-accumulator Y r 2 in-place"
)
CASES = {
    "lifted": "",
    "hoist": "hoist r",
    "resident": "hoist r; resident W r before",
    "resident_at_first_use": "resident W r at-first-use",
    "resident_inside": "hoist r; resident W r inside",
    "block_load": "block-load X d",
    "widen": "block-load X d; widen",
    "banks": "banks",
    "overwrite": "overwrite Y",
    "double_buffer": "double-buffer W d 2",
    "double_accumulator": "double-accumulator Y c 2 in-place",
    "delayed_stores": "double-accumulator Y c 2 delayed",
    "pipeline": "pipeline W d 2",
    "pipeline_nest": "pipeline-nest W d 2",
    "pipeline_cleared": "hoist r; pipeline Y c 2",
    "interleave": "hoist r; resident W r inside; block-load X d#2; pipeline X r 3; interleave r",
    "interleave_stores": "hoist r; retile r 2; double-accumulator Y c 2 delayed; interleave c",
    "coalesce": "hoist r; coalesce r; pipeline Y rc 2",
    "stagger": "hoist r; block-load W d; stagger d",
    "load_midway": "hoist r; resident X c before; pipeline W d#2 2; load-midway d#2",
    "alternate_banks": "hoist r; block-load W d; alternate-banks W d; stagger d",
    "finish_tiles": (
        "hoist r; retile r 2; resident X c before; block-load W d#2; finish-tiles d#3 3"
    ),
    "reorder_sums": "hoist r; block-load W d; block-load X d#2; reorder d#3",
    "undo_pipeline": "pipeline X d 2; block-load X d",
    "reorder": "hoist r; reorder r",
    "unroll": "unroll p 0",
    "unroll_by_two": "unroll p 2",
    "roll": "unroll p 0; roll",
    "retile": "hoist r; retile r 2",
    "reuse_in_a_loop": "hoist r; retile r 2; reuse",
    "reuse_unrolled": "hoist r; retile r 2; unroll rr#3 0; reuse",
    "settings": "overwrite Y; settings",
    "pack": "overwrite Y; unroll p 0; pack",
    "write_moves_out": "hoist r; retile r 2; write-moves-out",
    "expert": EXPERT,
    "raise": f"{EXPERT}; raise",
}
FENCED = {"fences": "fences", "settings_in_force": "settings"}
APART = {
    "split": "split d 2",
    "fuse": "fuse d",
    "fuse_all": "dead-code; fuse d; fuse d",
    "peel_first": "overwrite Y; peel d#3 first",
    "peel_last": "peel r last",
    "strength": "strength d#2; strength d#3",
    "dead_code": "dead-code",
}
ONE_FORM = {
    "settings_apart": "resident B i before; block-load A j",
    "small_loads_first": ("resident B i before; block-load A j; pipeline A i 2; small-loads-first"),
}
STATIONARY = {"dataflow": "dataflow"}
RAGGED = {
    "ragged_lifted": "",
    "ragged_split_tail": "simplify c",
    "ragged_tail_first": "tail-first c",
    "ragged_block_load": "block-load X d; overwrite Y",
    "ragged_retile": "retile r 2",
    "ragged_keep_operand": "keep-operand r 3",
    "ragged_resident": "resident W r before; pipeline X d#2 2",
}
KERNELS = CASES | RAGGED | FENCED | APART | ONE_FORM | STATIONARY


@pytest.mark.parametrize(("name", "steps"), [*KERNELS.items()])
def test_result_is_the_stored_one(
    machine: Machine, name: str, steps: str, update_golden: bool
) -> None:
    starts = {
        "ragged.c": RAGGED,
        "fenced.c": FENCED,
        "apart.c": APART,
        "one_form.c": ONE_FORM,
        "stationary.c": STATIONARY,
        "start.c": CASES,
    }
    start = next(file for file, cases in starts.items() if name in cases)
    source = (GOLDEN / start).read_text()
    kernel = simplify(lift(source, machine))
    for step in filter(None, steps.split("; ")):
        kernel = Step.parse(step).apply(kernel, machine)
    text = emit(kernel)
    path = GOLDEN / "expected" / f"{name}.c"
    if update_golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()
    m, k = kernel.arrays[0].shape
    assert gemm_is_right(kernel, m, kernel.arrays[1].shape[1], k)


def test_every_technique_has_a_golden_case() -> None:
    shown = {
        Step.parse(s).technique
        for c in (KERNELS | RECURRENCE | PRODUCTS | CHAINED).values()
        for s in c.split("; ")
        if s
    }
    assert shown == set(CATALOGUE)


def test_every_rewrite_shows_what_it_does() -> None:
    modules = (catalogue, text_arguments)
    rewrites = {
        f
        for module in modules
        for f in vars(module).values()
        if inspect.isfunction(f)
        and list(inspect.signature(f).parameters)[:2] == ["kernel", "machine"]
        and f.__module__ not in {m.__name__ for m in modules}
        and inspect.signature(f).return_annotation == "Kernel"
    }
    assert len(rewrites) > 20
    for rewrite in rewrites:
        text = inspect.getdoc(rewrite) or ""
        assert {"Before:", "After:"} <= set(text.split()), rewrite.__name__


def test_the_technique_of_every_menu_option_exists(target) -> None:  # type: ignore[no-untyped-def]
    assert {o.technique for o in target.menu if o.technique} <= set(CATALOGUE)

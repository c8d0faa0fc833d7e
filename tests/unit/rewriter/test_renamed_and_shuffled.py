"""Other names, and statements in another legal order: the same rewrites, worth the same."""

from __future__ import annotations

import random
import re

import pytest
from kernel_model import gemm, gemm_is_right
from test_proposer import RENAMED, renamed

from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning import by_hand
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

SHAPES = [(64, 128, 64), (40, 100, 72)]
BACK = {new: old for old, new in RENAMED.items()}
SCRIPT = "overwrite C; retile i 2; block-load A k; pipeline A 2; double-accumulator C in-place"
"""Where arguments are left out, the place with the lowest estimate is taken."""


def shuffled(source: str, seed: int, *, loads: bool) -> str:
    """The settings in another order, and perhaps the two loads of a step the other way round."""
    lines = source.splitlines()
    settings = [n for n, line in enumerate(lines) if line.startswith("  config_")]
    order = random.Random(seed).sample(settings, len(settings))
    moved = [lines[order[settings.index(n)]] if n in settings else s for n, s in enumerate(lines)]
    first = next(n for n, line in enumerate(moved) if " mvin(" in line)
    if loads:
        moved[first], moved[first + 1] = moved[first + 1], moved[first]
    return "\n".join(moved)


def other(source: str, seed: int, *, loads: bool = False) -> str:
    """The kernel with all names and the order of statements changed, where that changes nothing."""
    changed = renamed(shuffled(source, seed, loads=loads))
    assert changed != renamed(source) != source
    return changed


def named_back(step: Step) -> str:
    """A step on the renamed kernel as it is called on the original one."""
    return re.sub(r"[A-Za-z]+", lambda m: BACK.get(m[0], m[0]), str(step))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_same_rewrites_apply_and_are_worth_the_same(
    machine: Machine, shape: tuple[int, int, int]
) -> None:
    source = gemm(*shape)
    here = by_hand.applicable(read(source, machine), machine)
    there = by_hand.applicable(read(other(source, 1), machine), machine)
    expected = {str(found.step): found.time for found in here}
    assert len(expected) > 20
    assert {named_back(found.step): found.time for found in there} == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_the_order_of_loads_decides_about_no_rewrite(
    machine: Machine, shape: tuple[int, int, int]
) -> None:
    """What they are worth may differ: the estimate follows the queues."""
    source = gemm(*shape)
    here, there = (
        [found.step for found in by_hand.applicable(read(s, machine), machine)]
        for s in (source, other(source, 1, loads=True))
    )
    assert {named_back(step) for step in there} == {str(step) for step in here}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_script_of_rewrites_reaches_the_same_result(
    machine: Machine, shape: tuple[int, int, int]
) -> None:
    source = gemm(*shape)
    here, there = (read(s, machine) for s in (source, other(source, 2)))
    start = estimate(here, machine).total
    for text in SCRIPT.split("; "):
        here, (step,) = by_hand.carried_out(here, machine, text)
        there, (same,) = by_hand.carried_out(there, machine, renamed(text))
        assert named_back(same) == str(step)
        assert estimate(there, machine) == estimate(here, machine), text
    assert estimate(there, machine).total < 0.9 * start
    assert gemm_is_right(there, *shape)

"""Moves for a next tile of another size are distributed according to that size."""

from __future__ import annotations

from pathlib import Path

import pytest
from byte_model import same

from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.overlapped.sequences import (
    LATE,
    TECHNIQUES,
    overlapped_sequences,
)
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.reading import read

FOLDERS = Path(__file__).parents[2] / "fixtures" / "foreign_folders"


def test_a_shorter_last_tile_loads_only_its_own_rows(machine: Machine) -> None:
    source = (FOLDERS / "bias_relu_tiles" / "kernel.c").read_text()
    kernel = before = Step("raise").apply(read(source, machine), machine)
    for text in (
        "keep-operand i 8", "coalesce i", "block-load A p", "block-load B p#2", "coalesce p#3",
        "pipeline A ij 2", "interleave ij",
    ):  # fmt: skip
        kernel = Step.parse(text).apply(kernel, machine)
    assert same(before, kernel)


@pytest.mark.parametrize("name", ["transposed_second", "bias_residual"])
def test_first_plans_keep_kernels_whose_tiles_are_partial_in_all_sizes(
    machine: Machine, name: str
) -> None:
    """Two of the first plans for `transposed_second` loaded the wrong parts ahead."""
    source = (FOLDERS / name / "kernel.c").read_text()
    kernel = Step("raise").apply(read(source, machine), machine)
    for steps, result in overlapped_sequences(kernel, machine, TECHNIQUES | LATE):
        assert same(kernel, result), steps

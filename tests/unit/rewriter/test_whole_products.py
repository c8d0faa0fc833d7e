"""The first plans for tiled products: sequences of the best steps by the estimate."""

from __future__ import annotations

import pytest

from tilewright.core.tasks import open_task
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning import full_sequences
from tilewright.proposers.rewriter.reading import read

GROUPS = [group for order in full_sequences.TILED for group in order]
OFFERED = {*full_sequences.TILES, *(t for group in GROUPS for t in group)} - {"stagger", "banks"}


def start(machine: Machine, workload: str) -> Kernel:
    return read(open_task(workload, {}).task.start, machine)


def test_each_step_saves_time_and_leads_to_the_next(machine: Machine) -> None:
    kernel, shares = start(machine, "gemmini:gemm-64x128x64"), []
    for steps, after in full_sequences.tiled_sequences(kernel, machine, OFFERED):
        again, times = kernel, [estimate(kernel, machine).total]
        for step, more in zip(steps, (*steps[1:], None), strict=True):
            again = step.apply(again, machine)
            if more is None or more.technique != "interleave":  # a burst is spread in one go
                times.append(estimate(again, machine).total)
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times)
        shares.append(times[-1] / times[0])
        assert emit(again) == emit(after)
    assert max(shares) < 0.6
    assert min(shares) < 0.5


def test_moves_ahead_of_a_tile_go_on_in_the_next_row_of_tiles(machine: Machine) -> None:
    """The first sequence for a product of many tiles: the loops around them are one loop."""
    kernel = start(machine, "gemmini:gemm-512x512x512")
    _, after = next(full_sequences.tiled_sequences(kernel, machine, OFFERED))
    cost = estimate(after, machine)
    assert cost.total < 1.02 * cost.array
    assert cost.array == 512 * 512 * 512 / 256


def test_only_what_is_offered_is_used(machine: Machine) -> None:
    kernel = start(machine, "gemmini:gemm-64x128x64")
    offered = {"retile", "overwrite"}
    found = list(full_sequences.tiled_sequences(kernel, machine, offered))
    assert {s.technique for steps, _ in found for s in steps} == offered


def test_a_sequence_ends_when_enough_was_tried(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_sequences, "MOST_TRIED", 1)
    kernel = start(machine, "gemmini:gemm-64x128x64")
    assert all(
        len(steps) == 1 for steps, _ in full_sequences.tiled_sequences(kernel, machine, OFFERED)
    )

"""The first plans for tiled products: sequences of the best steps by the estimate."""

from __future__ import annotations

import pytest

from tilewright.core.tasks import open_task
from tilewright.proposers.rewriter import whole
from tilewright.proposers.rewriter.cost import estimate
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.reading import read

OFFERED = {*whole.TILES, *(t for group in whole.TILED for t in group)} - {"stagger", "banks"}


def start(machine: Machine, workload: str) -> Kernel:
    return read(open_task(workload, {}).task.start, machine)


def test_each_step_saves_time_and_leads_to_the_next(machine: Machine) -> None:
    kernel = start(machine, "gemmini:gemm-64x128x64")
    for steps, after in whole.tiled_sequences(kernel, machine, OFFERED):
        again, times = kernel, [estimate(kernel, machine).total]
        for step in steps:
            again = step.apply(again, machine)
            times.append(estimate(again, machine).total)
        assert times == sorted(times, reverse=True)
        assert len(set(times)) == len(times)
        assert times[-1] < 0.5 * times[0]
        assert emit(again) == emit(after)


def test_only_what_is_offered_is_used(machine: Machine) -> None:
    kernel = start(machine, "gemmini:gemm-64x128x64")
    offered = {"retile", "overwrite"}
    found = list(whole.tiled_sequences(kernel, machine, offered))
    assert {s.technique for steps, _ in found for s in steps} == offered


def test_a_sequence_ends_when_enough_was_tried(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole, "MOST_TRIED", 1)
    kernel = start(machine, "gemmini:gemm-64x128x64")
    assert all(len(steps) == 1 for steps, _ in whole.tiled_sequences(kernel, machine, OFFERED))

"""Kernels are built where nobody measures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tilewright.core.errors import DeviceBusyError
from tilewright.native import machine

USABLE = frozenset(os.sched_getaffinity(0))


@pytest.mark.parametrize("measured_on", [False, True])
def test_builders_use_measuring_cores_only_while_nobody_measures(
    measured_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[str] = []

    @contextmanager
    def exclusive(device: str, wait_s: float | None = None) -> Iterator[None]:
        assert wait_s == 0, "a build must not wait for a measurement"
        if measured_on:
            raise DeviceBusyError("measured on")
        held.append(device)
        yield
        held.remove(device)

    monkeypatch.setattr(machine, "exclusive", exclusive)
    measuring = set(machine.measuring_cores())
    with machine.on_building_cores():
        expected = (USABLE - measuring or USABLE) if measured_on else measuring
        assert os.sched_getaffinity(0) == expected
        assert len(held) == (not measured_on)
    assert held == []
    assert frozenset(os.sched_getaffinity(0)) == USABLE

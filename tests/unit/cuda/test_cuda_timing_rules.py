"""How batches are timed, on a process that stands for a GPU and keeps its own clock."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from tilewright.native.calls import CallFailedError
from tilewright.parts.case import Case
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device import kernel as device_kernel
from tilewright.targets.cuda.device.kernel import CACHES, DeviceKernel
from tilewright.targets.cuda.device.process import DeviceFacts
from tilewright.targets.cuda.device.values import drawn_floats, hash_of

STEADY_S = 2e-5
"""Seconds of a call at full clock rate."""
CACHE = 1 << 20


class RampingGpu:
    """A GPU whose clock rate is low at first, and approaches its full rate while it calls kernels.

    Attributes:
        batches: the first copy and the number of calls of each batch.
        said: the names of all requests in order.
    """

    stage = "measure"

    def __init__(self, ramp_s: float, slower: float = 1.0) -> None:
        self.facts = DeviceFacts(64, 1500000, CACHE, 2000000, 4096, 1 << 30)
        self.batches: list[tuple[int, int]] = []
        self.said: list[str] = []
        self._ramp_s, self._call_s, self._busy_s = ramp_s, slower * STEADY_S, 0.0

    def make_room(self, copies: int) -> None:
        self.copies = copies

    def batch(self, first: int, count: int) -> tuple[float, float]:
        self.said.append("batch")
        self.batches.append((first, count))
        idle = 2 * math.exp(-self._busy_s / self._ramp_s) if self._ramp_s else 0
        seconds = count * self._call_s * (1 + idle)
        self._busy_s += seconds
        return seconds, seconds

    def hash(self, index: int, copy: int) -> int:
        return 0

    def free_bytes(self) -> int:
        return self.facts.free_bytes

    def __getattr__(self, name: str) -> object:
        return lambda *_, **__: self.said.append(name)


@cache
def case() -> Case:
    task = create_target().open("rowsum-8x64", {"input_seed": 1, "simulation_timeout_s": 60.0})
    cases = task._evaluation.cases
    return cases[cases.first]


def kernel_on(gpu: RampingGpu) -> DeviceKernel:
    return DeviceKernel(gpu, case())  # type: ignore[arg-type]


@pytest.mark.parametrize("ramp_s", [0.0, 0.02, 0.1])
def test_the_first_sample_is_taken_at_a_steady_clock(ramp_s: float) -> None:
    kernel = kernel_on(RampingGpu(ramp_s))
    samples = [kernel.call(checked=0.0) for _ in range(20)]
    assert max(samples) < 1.02 * STEADY_S
    assert samples[0] < 1.02 * samples[-1]


class EverFasterGpu(RampingGpu):
    """Each batch takes 3 % less time than the one before it."""

    def batch(self, first: int, count: int) -> tuple[float, float]:
        self.batches.append((first, count))
        seconds = 0.05 * 0.97 ** len(self.batches)
        self._busy_s += seconds
        return seconds, seconds


def test_a_clock_that_never_becomes_steady_ends_the_untimed_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(device_kernel, "WARM_S", 0.5)
    gpu = EverFasterGpu(0.0)
    kernel_on(gpu).call(checked=0.0)
    assert 0.5 < gpu._busy_s < 0.7


def test_work_that_goes_on_after_the_batch_is_found() -> None:
    """An output has another hash when the batch has ended than when it is compared."""

    class Unfinished(RampingGpu):
        def draw(self, index: int, copies: int, key: int, scale: float) -> None:
            self.drawn = key, scale

        def hash(self, index: int, copy: int) -> int:
            key, scale = self.drawn
            given = drawn_floats((8, 64), key, copy, scale)
            return hash_of(given.tobytes()) if index == 0 else 12345

        def outputs(self, copy: int) -> dict[str, bytes]:
            return {"Y": bytes(32)}

    gpu = Unfinished(0.0)
    kernel = kernel_on(gpu)
    with pytest.raises(CallFailedError) as found:
        kernel.call(checked=1.0)
    assert found.value.failed.kind == "unfinished"


def test_a_timed_batch_never_sees_the_values_of_the_untimed_ones() -> None:
    gpu = RampingGpu(0.02)
    kernel = kernel_on(gpu)
    for _ in range(3):
        kernel.call(checked=0.0)
        last = len(gpu.said) - 1 - gpu.said[::-1].index("batch")
        assert gpu.said[last - 2 : last] == ["draw", "poison"]


def test_the_copies_of_a_batch_exceed_the_cache_and_are_all_different() -> None:
    gpu = RampingGpu(0.0)
    kernel = kernel_on(gpu)
    for _ in range(5):
        kernel.call(checked=0.0)
    given = 8 * 64 * 4 + 256
    for first, count in gpu.batches:
        assert first == 0
        assert count <= gpu.copies
        assert count * given > CACHES * CACHE


def test_a_batch_of_few_calls_begins_when_other_arrays_are_in_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The task draws the values of each call, and there is time for one."""
    gpu = RampingGpu(0.0)
    kernel = kernel_on(gpu)
    monkeypatch.setattr(kernel._values, "most", 1)
    kernel.call(checked=0.0)
    assert gpu.batches[-1] == (0, 1)
    last = len(gpu.said) - 1 - gpu.said[::-1].index("batch")
    assert gpu.said[last - 1] == "spread"


def test_short_batches_also_raise_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = kernel_on(RampingGpu(0.05))
    monkeypatch.setattr(kernel._values, "most", 1)
    assert kernel.call(checked=0.0) < 1.02 * STEADY_S


def test_the_ratio_of_a_pair_is_the_same_in_every_process() -> None:
    """Clocks ramp up differently in each process; one kernel takes 1.5 times as long."""
    ratios = []
    for ramp_s in (0.0, 0.02, 0.1):
        pair = [kernel_on(RampingGpu(ramp_s, slower)) for slower in (1.5, 1.0)]
        samples = np.array([[one.call(checked=0.0) for one in pair] for _ in range(10)])
        ratios.append(float(np.median(samples[:, 0] / samples[:, 1])))
    assert np.allclose(ratios, 1.5, rtol=0.01)

"""Invented times for candidates, to test the scripts of a comparison without a GPU.

The times come from an analytical model with noise and say nothing about any device. Everything that
is printed or written from them is labelled "mock".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tilewright.tuner.candidates import Candidates
from tilewright.tuner.tvm.builder import Builder, Built
from tilewright.tuner.tvm.cuda import CudaSpace, cuda_space
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.runner import Measurement, MeasuringRules, Rounds, Runner
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuning.instruments import Instruments

LABEL = "mock (analytical time model with noise, nothing was measured)"

_QUIRK = 0.10
_NOISE = 0.01
_SHARED_BYTES_PER_CYCLE = 128.0


def mock_seconds(space: CudaSpace, points: Candidates) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Made-up seconds of each candidate, (n,), the same every time.

    The slowest of arithmetic (throttled by too few warps times accumulators to hide latency),
    shared memory (with bank conflicts) and global memory, plus a part of the others, stretched by
    the tail of the last wave and by a quirk of up to some tenths that no feature explains.
    """
    features, device = space.features, space.features.device
    terms = features.terms(points)
    values = dict(zip(features.names, features(points).T, strict=True))
    peak_macs = device.peak_gflops * 1e9 / 2
    macs = features.workload.macs
    hidden = values["wlp"] / 4 * np.minimum(terms.reg, 32)
    arithmetic = macs / peak_macs / (1 - np.exp(-hidden / 40.0))
    bytes_per_s = peak_macs / 128 * _SHARED_BYTES_PER_CYCLE
    shared = macs / values["oi_shared"] * 4 / bytes_per_s
    memory = macs / values["oi_global"] * 4 / (device.bandwidth_gb_s * 1e9) / 4
    parts = np.sort(np.stack([arithmetic, shared, memory]), axis=0)
    seconds = (parts[2] + 0.3 * parts[1] + 0.1 * parts[0]) / np.maximum(values["wave"], 0.05)
    quirks = [np.random.default_rng(_digest(key)).normal(0, _QUIRK) for key in points.row_keys()]
    return np.asarray(seconds * np.exp(quirks) + 3e-6)


def hashed_seconds(space: CudaSpace, trace: str) -> float:
    """Made-up seconds of a schedule outside the template's spaces, the same every time: those of a
    candidate of `space` that a hash of the schedule draws."""
    point = space.space.random(1, np.random.default_rng(_digest(trace.encode())))
    return float(mock_seconds(space, point)[0])


class MockBuilder(Builder):
    """Builds nothing: a candidate's made-up time is the name of its library, an empty file."""

    def __init__(self, target: Any, spaces: Sequence[CudaSpace], folder: Path) -> None:
        super().__init__(target)
        self._spaces, self._libraries = spaces, folder

    def submit(self, schedule: Any) -> Future[Built]:
        """The made-up time of a schedule."""
        made: Future[Built] = Future()
        library = self._libraries / repr(self._seconds(schedule))
        library.touch()
        made.set_result(Built(library))
        return made

    def _seconds(self, schedule: Any) -> float:
        for space in self._spaces:
            try:
                point = space.template.points([schedule.trace])
                return float(mock_seconds(space, point)[0])
            except Exception:  # a schedule of another space, with other decisions
                continue
        return hashed_seconds(self._spaces[0], str(schedule.trace))


class MockRunner(Runner):
    """Reads the made-up time back and adds noise, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._noise = np.random.default_rng(seed)

    def measure(self, library: Path, best_s: float | None) -> Measurement:
        """Three made-up samples."""
        return Measurement(self._samples(library, 3), calls=1)

    def interleave(
        self,
        libraries: Sequence[Path],
        rounds: int,
        seed: int,
        reference: str | None = None,
        slowest_s: float = 0.0,
    ) -> Rounds:
        """Made-up samples of each; no library is timed beside them."""
        return Rounds({n: self._samples(path, rounds) for n, path in enumerate(libraries)})

    def _samples(self, library: Path, count: int) -> tuple[float, ...]:
        samples = float(library.name) * self._noise.normal(1.0, _NOISE, size=count)
        return tuple(float(s) for s in samples)

    def close(self) -> None:
        """There is no process to end."""


@contextmanager
def mock_instruments(
    program: Program, target: TuningTarget, seed: int, rules: MeasuringRules
) -> Iterator[Instruments]:
    """Stand in for compilers and a device; nothing is timed, so no rule of timing applies."""
    spaces = [cuda_space(program, target, restricted=restricted) for restricted in (True, False)]
    with TemporaryDirectory(prefix="tilewright-mock-") as name:
        folder = Path(name)
        runner, builder = MockRunner(seed), partial(MockBuilder, target.target, spaces, folder)
        yield Instruments(runner, builder, LABEL)


def _digest(key: bytes) -> int:
    return int.from_bytes(hashlib.sha256(key).digest()[:8], "little")

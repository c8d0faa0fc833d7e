"""New values for every call of a batch, which are drawn on the device if possible, and otherwise on
the host and uploaded.

Floats without constraints are drawn on the device in microseconds. Values that depend on one
another, are not float32, or follow rules of the task are drawn by the task. A batch then has only
as many calls as can get separate values within `DRAWING_S`.
"""

from __future__ import annotations

import math
import secrets
import time
from dataclasses import replace

import numpy as np

from tilewright.parts.case import Case
from tilewright.parts.inputs import Array, bytes_of
from tilewright.parts.problem import DrawsInputs, NamesIndependentInputs
from tilewright.targets.cuda.device.process import DeviceProcess
from tilewright.targets.cuda.device.values import UNIT, drawn_floats

DRAWING_S = 0.25
"""Wall-clock seconds that drawing and uploading the values of a batch may take, after the first
call.
"""
MOST_BYTES = 256 << 20
"""Maximum number of bytes of a batch's values that are kept for comparisons."""


class BatchValues:
    """The values in the copies of a batch, which differ between all copies of all batches.

    `most` is the number of copies that can get values; None if the device draws all values.
    `repeats` is true if the task draws the same values every time.
    """

    def __init__(self, process: DeviceProcess, case: Case) -> None:
        self._process, self._case = process, case
        self._scales = _scales(case)
        self._keys: dict[int, int] = {}
        self._rng = np.random.default_rng(secrets.randbits(128))
        given = {i: a for i, a in enumerate(case.workload.arguments) if a.is_given}
        self._from_task = {a.name: i for i, a in given.items() if i not in self._scales}
        self._drawn: list[dict[str, Array]] = []
        self.most: int | None = None
        self.repeats = not given
        if self._from_task:
            started = time.perf_counter()
            self._upload(0)
            seconds = time.perf_counter() - started
            size = bytes_of(a for a in given.values() if a.name in self._from_task)
            self.most = max(1, min(int(DRAWING_S / max(seconds, 1e-9)), MOST_BYTES // size))
            again = case.redrawn(self._rng, self._from_task).initial
            self.repeats = not self._scales and all(
                np.array_equal(values, again[name], equal_nan=values.dtype.kind == "f")
                for name, values in self._drawn[0].items()
            )

    def draw(self, count: int) -> None:
        """Draw new values for the first copies."""
        self._keys = {index: secrets.randbits(63) for index in self._scales}
        for index, key in self._keys.items():
            self._process.draw(index, count, key, self._scales[index])
        self._drawn.clear()
        if self._from_task:
            for copy in range(count):
                self._upload(copy)

    def case(self, copy: int) -> Case:
        """The case of one copy of the last batch."""
        values = dict(self._drawn[copy]) if self._from_task else {}
        for index, key in self._keys.items():
            argument = self._case.workload.arguments[index]
            values[argument.name] = drawn_floats(argument.shape, key, copy, self._scales[index])
        initial = {**self._case.initial, **values}
        return replace(self._case, initial=initial, alike=self._case.alike or self._case)

    def _upload(self, copy: int) -> None:
        found = self._case.redrawn(self._rng, self._from_task).initial
        self._drawn.append({name: found[name] for name in self._from_task})
        for name, index in self._from_task.items():
            self._process.upload(index, copy, found[name])


def _scales(case: Case) -> dict[int, float]:
    """The scale of the floats that the device draws for an argument, by the index of the argument.

    An argument is included only if its values may be any float32 numbers, independently of the
    other arguments.
    """
    given = {i: a for i, a in enumerate(case.workload.arguments) if a.is_given}
    independent = {a.name for a in given.values()}
    if isinstance(case.problem, DrawsInputs):
        known = isinstance(case.problem, NamesIndependentInputs)
        independent = set(case.problem.independent) if known else set()  # type: ignore[attr-defined]
    found = {}
    for index, argument in given.items():
        if argument.dtype != "float32" or argument.name not in independent:
            continue
        values = case.initial[argument.name].astype(np.float64)
        deviation = float(np.sqrt(np.mean(values * values)))
        if math.isfinite(deviation) and deviation > 0:
            found[index] = float(np.float32(UNIT * deviation))
    return found

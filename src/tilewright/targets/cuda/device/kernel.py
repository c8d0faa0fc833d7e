"""Checks and times a kernel on the GPU, with different values in each call of each batch."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Mapping

from tilewright.core.records import Failed
from tilewright.native.calls import CallFailedError, is_checked
from tilewright.parts.case import Case
from tilewright.parts.inputs import bytes_of
from tilewright.targets.cuda.device.drawing import BatchValues
from tilewright.targets.cuda.device.process import DeviceFailedError, DeviceProcess
from tilewright.targets.cuda.device.values import hash_of

BATCH_S = 5e-3
"""Target duration of a batch in seconds. The communication with the process, about 20 us, is then
half a percent of the measurement, for both kernels of a pair.
"""
MOST_CALLS = 2000
"""Maximum number of calls of a batch."""
SHARE = 0.3
"""Share of the device's free memory for the copies of one kernel. A pair has two processes."""
CACHES = 2.0
"""Minimum size of the copies of a batch as a multiple of the second-level cache, if memory
allows.
"""
MOST_COMPARED = 16
"""Maximum number of copies of a batch that are compared. If a kernel skips one call in four, all 16
compared copies are correct in one of a hundred batches, and about ten batches are compared.
"""
COMPARED_S = 0.1
"""Seconds after which no further copy of a batch is compared. At least one is compared."""
WARM_S = 2.0
"""Maximum number of seconds of the untimed batches before the first sample."""
WINDOW_S = 20e-3
"""Minimum number of seconds of untimed batches, the fastest of which is compared with that of as
many seconds before."""
STEADY = 0.005
"""If batches become faster by a smaller share than this, the GPU's clocks are steady."""
LEAK_BYTES = 64 << 20
"""Number of bytes by which free memory may decrease in a session, because the driver itself uses
memory.
"""


def checked_call(process: DeviceProcess, case: Case) -> Failed | None:
    """Call a kernel once on a case, and compare all memory that it may or must not write."""
    try:
        process.place(case.initial)
        process.batch(0, 1)
        return _compared(process, case, 0)
    except DeviceFailedError as error:
        return error.failed


class DeviceKernel:
    """A kernel for timed calls. One batch is one sample, which is the duration of the batch divided
    by the number of its calls.

    Every call of a batch has its own copies of the arrays with different values, and all values are
    drawn again for the next batch. A kernel can therefore not use results of earlier calls. Before
    each call, outputs contain NaN. Before the first sample, untimed batches raise the clocks of the
    GPU, which are low while it is idle.
    """

    def __init__(self, process: DeviceProcess, case: Case) -> None:
        self._process, self._case = process, case
        self._arguments = case.workload.arguments
        self._count = 1
        self._free: int | None = None
        self.event_s = 0.0
        """Seconds of a call by the device's own clock, of the last batch."""
        self._open()

    @property
    def repeats_values(self) -> bool:
        """Whether the task draws the same values for every call."""
        return self._values.repeats

    def call(self, *, checked: float) -> float:
        """The seconds per call of one batch. With this probability, random copies of the batch are
        compared. Raises `CallFailedError`.
        """
        try:
            return self._batch(is_checked(checked))
        except DeviceFailedError as error:
            raise CallFailedError(error.failed) from error

    def account(self) -> None:
        """Does nothing, because a batch ends when the whole device is idle, and host code cannot
        start threads.
        """

    def counts(self) -> dict[str, float]:
        """Raises `OSError`, because only Nsight Compute reads the counters of a GPU."""
        raise OSError("counters of a GPU are not read while kernels are timed")

    def _open(self) -> None:
        try:
            facts = self._process.facts
            one = sum(-(-bytes_of([a]) // 256) * 256 for a in self._arguments)
            most = max(1, int(SHARE * facts.free_bytes / max(1, one)))
            self._copies = min(most, MOST_CALLS)
            self._process.make_room(self._copies)
            self._least = min(self._copies, math.ceil(CACHES * facts.cache_bytes / max(1, one)) + 1)
            self._process.place(self._case.initial)
            self._values = BatchValues(self._process, self._case)
        except DeviceFailedError as error:
            raise CallFailedError(error.failed) from error

    def _batch(self, check: bool) -> float:
        process, values = self._process, self._values
        count = max(self._count, self._least)
        if values.most is not None:
            count = min(count, values.most)
        if self._free is None:
            self._free = process.free_bytes()
            self._fill(count)
            self._warm(count)
        self._fill(count)
        seconds, on_device = self._timed(count)
        written = [i for i, a in enumerate(self._arguments) if a.is_written]
        copies = secrets.SystemRandom().sample(range(count), min(count, MOST_COMPARED))
        hashes = {copy: {i: process.hash(i, copy) for i in written} for copy in copies}
        if self._free - process.free_bytes() > LEAK_BYTES:
            log = "the kernel keeps memory of the device from one call to the next."
            raise DeviceFailedError(Failed("measure", "keeps_memory", log))
        if check:
            self._compare(hashes)
        self._count = min(self._copies, max(1, round(BATCH_S * count / seconds)))
        self.event_s = on_device / count
        return seconds / count

    def _fill(self, count: int) -> None:
        """New values for the first copies, and NaN in their outputs."""
        self._values.draw(count)
        self._process.poison(count)
        if count < self._least:  # the caches contain the array that was written last
            self._process.spread(count, min(self._copies, count + self._least))

    def _warm(self, count: int) -> None:
        """Call the kernel until its batches no longer become faster."""
        total, before = 0.0, math.inf
        while total < WARM_S:
            taken = list[float]()
            while sum(taken) < WINDOW_S:
                taken.append(self._timed(count)[0])
            if min(taken) > (1 - STEADY) * before:
                return
            total, before = total + sum(taken), min(taken)

    def _timed(self, count: int) -> tuple[float, float]:
        """The seconds of the first calls, by the host's clock and by that of the device."""
        seconds, on_device = self._process.batch(0, count)
        if not seconds > 0:
            raise DeviceFailedError(Failed("measure", "invalid", f"a batch took {seconds:g} s."))
        return seconds, on_device

    def _compare(self, hashes: Mapping[int, Mapping[int, int]]) -> None:
        """Compare these copies of the last batch in order, until the time is used up."""
        end = time.perf_counter() + COMPARED_S
        for copy, of_outputs in hashes.items():
            failed = _compared(self._process, self._values.case(copy), copy, of_outputs)
            if failed is not None:
                raise DeviceFailedError(failed)
            if time.perf_counter() > end:
                return


def _compared(
    process: DeviceProcess, case: Case, copy: int, hashes: Mapping[int, int] | None = None
) -> Failed | None:
    """How a copy differs from the result of a correct kernel, or None.

    `hashes` are the hashes of its outputs right after the calls. The outputs must not have changed
    since.
    """
    stage = process.stage
    outputs = process.outputs(copy)
    for index, argument in enumerate(case.workload.arguments):
        if argument.is_written:
            if hashes is not None and hash_of(outputs[argument.name]) != hashes[index]:
                log = f"{argument.name} changed after the kernel had returned and the GPU was idle."
                return Failed(stage, "unfinished", log)
        elif process.hash(index, copy) != hash_of(case.initial[argument.name].tobytes()):
            log = f"the kernel writes to an input ({argument.name})."
            return Failed(stage, "input_modified", log)
    mismatch = case.mismatch(outputs)
    return None if mismatch is None else Failed(stage, "wrong_result", f"{mismatch}.")

"""Reads counters of a kernel on the GPU with Nsight Compute's `ncu`, and describes them in
words.
"""

from __future__ import annotations

import csv
import math
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.parts.case import Case
from tilewright.sandbox import open_folder, read_output
from tilewright.targets.cuda.device.process import DeviceFailedError, DeviceProcess
from tilewright.timing import exclusive

PROGRAM = "ncu"
MOST_LAUNCHES = 32
"""Maximum number of launches of one call that are measured, because each is repeated several
times.
"""
_DURATION = "gpu__time_duration.sum"
_SHARES = {
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "memory": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "cache": "lts__t_sector_hit_rate.pct",
    "multiprocessors": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor_cores": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
}
"""Names of metrics that are percentages, with our names for them."""
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
_WAITS = {
    "long_scoreboard": "for data from global or local memory",
    "short_scoreboard": "for data from shared memory or for a slow function",
    "barrier": "at barriers for other warps of the block",
    "membar": "for memory fences",
    "lg_throttle": "for room in the queue of global and local memory accesses",
    "mio_throttle": "for room in the queue of shared memory accesses",
    "tex_throttle": "for room in the queue of texture accesses",
    "math_pipe_throttle": "for a busy arithmetic unit",
    "wait": "for the fixed latency of an instruction",
    "no_instruction": "for instructions to be fetched",
    "sleeping": "in calls of __nanosleep",
}
"""Reasons why a warp issues nothing, in words."""
_SAID_WAITS = 3
_MOST_BYTES = 8 << 20
"""Maximum number of characters of ncu's output that are read."""
END_S = 60.0
"""Seconds for `ncu` to write its table after the program has ended."""
_NOT_ALLOWED = "ERR_NVGPUCTRPERM"
_ERROR = re.compile(r"^==ERROR==\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Counters:
    """Means over the launches of a call, weighted by their times.

    `shares` are percentages by the names of `_SHARES`; `waits` are the cycles that a warp waits per
    instruction, by the names of `_WAITS`.
    """

    launches: int
    shares: Mapping[str, float]
    waits: Mapping[str, float]

    @property
    def words(self) -> str:
        """The counters in words, for feedback."""
        texts = {
            "occupancy": "{:.0f} % of the warps that a multiprocessor can hold are resident",
            "memory": "the memory is at {:.0f} % of its peak rate",
            "cache": "{:.0f} % of the accesses to the second-level cache are hits",
            "multiprocessors": "the multiprocessors are at {:.0f} % of their peak throughput",
            "tensor_cores": "the tensor cores are busy {:.0f} % of the time",
        }
        said = [text.format(self.shares[n]) for n, text in texts.items() if n in self.shares]
        longest = sorted(self.waits, key=lambda name: -self.waits[name])[:_SAID_WAITS]
        waits = [f"{self.waits[n]:.1f} {_WAITS[n]}" for n in longest if self.waits[n] >= 0.05]
        if waits:
            said.append(f"cycles that a warp waits for each instruction: {', '.join(waits)}")
        many = "launch" if self.launches == 1 else "launches"
        return f"Counters (Nsight Compute, {self.launches} {many}): {'; '.join(said)}."

    @property
    def numbers(self) -> dict[str, float]:
        """The counters as numbers, for the details of a result."""
        shares = {f"counter_{name}_percent": value for name, value in self.shares.items()}
        return {**shares, **{f"counter_waits_{name}": v for name, v in self.waits.items()}}


@dataclass(frozen=True, slots=True)
class NoCounters:
    """The reason why there are no counters, as a sentence; `final` is true if other kernels will
    have none either.
    """

    words: str
    final: bool = False


@cache
def find_ncu() -> str | None:
    """The program `ncu`, if it is on PATH."""
    return shutil.which(PROGRAM)


def count(
    opened: Callable[[Sequence[str]], DeviceProcess], case: Case, lock: str
) -> Counters | NoCounters | None:
    """The counters of one call on a case, or the reason why there are none; None if ncu is not
    installed.

    `opened` starts a kernel's process with the given command prefix. A failure here does not change
    the result of the kernel.
    """
    ncu = find_ncu()
    if ncu is None:
        return None
    reason, printed = "", b""
    with open_folder("tilewright-ncu-") as name:
        log = Path(name) / "counters.csv"
        try:
            with exclusive(lock), opened(command(ncu, log)) as process:
                process.make_room(1)
                process.place(case.initial)
                process.batch(0, 1)
                process.finish(END_S)
        except (DeviceFailedError, ToolchainMissingError, OSError) as error:
            reason = str(error)
        with suppress(OSError):
            printed = read_output(log, _MOST_BYTES)
    return read_counters(printed.decode(errors="replace"), reason)


def command(ncu: str, log: Path) -> tuple[str, ...]:
    """The command prefix with which a program is started, so that `log` contains its counters when
    it has ended.
    """
    metrics = [_DURATION, *_SHARES.values(), *(_STALL.format(name) for name in _WAITS)]
    return (
        ncu, "--csv", "--print-units", "base", "--metrics", ",".join(metrics), "--log-file",
        str(log), "--launch-count", str(MOST_LAUNCHES),
    )  # fmt: skip


def read_counters(printed: str, otherwise: str = "") -> Counters | NoCounters:
    """Parse the output of ncu, which is a CSV table with a row for each launch and metric.

    If it contains neither counters nor an error, `otherwise` is the reason.
    """
    if _NOT_ALLOWED in printed:
        return NoCounters(
            "The driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM): an "
            "administrator can allow it with the option NVreg_RestrictProfilingToAdminUsers=0 of "
            "the kernel module nvidia.",
            final=True,
        )
    values = _by_launch(printed)
    found = {
        metric: mean
        for metric in {name for one in values for name in one} - {_DURATION}
        if (mean := _mean(values, metric)) is not None
    }
    shares = {name: found[metric] for name, metric in _SHARES.items() if metric in found}
    waits = {n: found[_STALL.format(n)] for n in _WAITS if _STALL.format(n) in found}
    if not shares and not waits:
        error = _ERROR.search(printed)
        said = error[1].strip() if error else otherwise or "it printed none"
        said = said.rstrip(".")[:200]
        return NoCounters(f"Nsight Compute read no counters of this kernel: {said}.")
    return Counters(len(values), shares, waits)


def _by_launch(printed: str) -> list[dict[str, float]]:
    """The metrics of each launch, by name."""
    lines = printed.splitlines()
    begin = next((i for i, line in enumerate(lines) if '"Metric Name"' in line), len(lines))
    launches = dict[str, dict[str, float]]()
    for row in csv.DictReader(lines[begin:], restkey="more", restval=""):
        value = _number(row.get("Metric Value") or "")
        if value is not None:
            launches.setdefault(row.get("ID") or "", {})[row.get("Metric Name") or ""] = value
    return list(launches.values())


def _number(text: str) -> float | None:
    """A number as ncu prints it, with commas between thousands; None for `n/a` and similar
    texts."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _mean(launches: Sequence[Mapping[str, float]], metric: str) -> float | None:
    having = [one for one in launches if metric in one]
    weights = [one.get(_DURATION, 0.0) for one in having]
    if not having:
        return None
    if not sum(weights):
        weights = [1.0] * len(having)
    return sum(one[metric] * w for one, w in zip(having, weights, strict=True)) / sum(weights)

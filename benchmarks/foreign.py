"""Searches from Gemmini kernels in the styles of other authors, compared with the naive start.

Each kernel of tests/fixtures/foreign is searched as a kernel folder, and so is the naive kernel of
the same shape, with the same seeds and budget. Cycles are simulated. `first` is the time until a
kernel was 1 % faster than the start. `as good` is the time until a kernel was within 2 % of the
best kernel of the search from the naive start with the same seed. On a busy machine, use a budget
of evaluations instead of seconds.

    python benchmarks/foreign.py [--runs 5] [--seconds 120 | --evaluations N] [--results FILE]
        [KERNEL ...]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from native_runs import Kept, Record, check_effort, exit_code, parser_of

from tilewright.core.config import Settings
from tilewright.core.errors import UnknownNameError
from tilewright.core.tasks import open_task
from tilewright.run import optimize
from tilewright.search.events import Evaluated, Event

SOURCES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "foreign"
KERNELS = {
    "hand_tuned": "gemmini:gemm-12544x64x256",
    "exported": "gemmini:gemm-512x512x512",
    "winner": "gemmini:gemm-784x256x1024",
    "conv_public": "gemmini:conv-4x28x28x128x128-k3s1",
    "conv_rows": "gemmini:conv-4x14x14x256x256-k3s1",
    "fp32_strips": "gemmini-fp32-4x4:gemm-256x256x256",
    "exo_malloc_512": "gemmini:gemm-512x512x512",
    "exo_windows_784": "gemmini:gemm-784x1024x256",
    "exo_conv_56": "gemmini:conv-4x56x56x64x64-k3s1",
    "tuned_pingpong_12544": "gemmini:gemm-12544x64x256",
    "tuned_interleaved_3136": "gemmini:gemm-3136x512x128",
    "llm_arrays_512": "gemmini:gemm-512x512x512",
    "llm_tails_784": "gemmini:gemm-784x1024x256",
    "llm_conv_14": "gemmini:conv-4x14x14x256x256-k3s1",
    "llm_triple_12544": "gemmini:gemm-12544x256x64",
    "rocc_conv_28": "gemmini:conv-4x28x28x128x128-k3s1",
    "rocc_auto_512": "gemmini:gemm-512x512x512",
    "rocc_os_784": "gemmini:gemm-784x1024x256",
    "exo_instr_12544": "gemmini:gemm-12544x64x256",
    "pingpong_512": "gemmini:gemm-512x512x512",
    "conv_rows_7": "gemmini:conv-4x7x7x512x512-k3s1",
    "exo_blocks_512": "gemmini:gemm-512x512x512",
    "exo_subwindows_784": "gemmini:gemm-784x1024x256",
    "exo_macros_3136": "gemmini:gemm-3136x512x128",
    "exo_conv_windows_28": "gemmini:conv-4x28x28x128x128-k3s1",
    "exo_windows_fp32": "gemmini-fp32-4x4:gemm-256x256x256",
    "exo_pointers_12544": "gemmini:gemm-12544x256x64",
    "exo_ld_blocks_512": "gemmini:gemm-512x512x512",
    "rocc_ws_tiles_784": "gemmini:gemm-784x1024x256",
    "rocc_os_512": "gemmini:gemm-512x512x512",
    "tuned_conv_14": "gemmini:conv-4x14x14x256x256-k3s1",
    "exo_list_512": "gemmini:gemm-512x512x512",
    "exo_edges_784": "gemmini:gemm-784x1024x256",
    "exo_context_3136": "gemmini:gemm-3136x512x128",
    "hand_rob_12544": "gemmini:gemm-12544x64x256",
    "rocc_padded_500": "gemmini:gemm-500x520x270",
    "llm_k_outer_784": "gemmini:gemm-784x1024x256",
    "llm_pointers_3136": "gemmini:gemm-3136x512x128",
    "hand_switch_512": "gemmini:gemm-512x512x512",
    "llm_ragged_250": "gemmini:gemm-250x330x200",
    "rocc_conv_ragged": "gemmini:conv-2x18x18x40x72-k3s1",
    "llm_taps_28": "gemmini:conv-4x28x28x128x128-k3s1",
    "implicit_gemm_14": "gemmini:conv-4x14x14x256x256-k3s1",
}
"""The workload that has the shape of each."""
FASTER = 0.99
"""Latency of the first improvement, as a share of that of the start."""
GEMM = """
    return A.astype(np.float64) @ B.astype(np.float64)"""
CONVOLUTION = """
    height, width = input.shape[1] - 2, input.shape[2] - 2
    total = np.zeros((len(input), height, width, len(bias))) + bias
    for r in range(3):
        for t in range(3):
            pixels = input[:, r : r + height, t : t + width].astype(np.float64)
            total += pixels @ weights[r, t].astype(np.float64)
    return total"""


def written(name: str, source: str, folder: Path) -> Path:
    """A kernel of a workload's shape as a folder of a user's own."""
    spec = KERNELS[name]
    workload = open_task(spec, {}).task.workload
    target = spec.partition(":")[0]
    lines = [f'target = "{target}"\nname = "{name}"\noperations = {workload.operations}\n']
    for argument in workload.arguments:
        lines.append(
            f'[[argument]]\nname = "{argument.name}"\nshape = {list(argument.shape)}\n'
            f'dtype = "{argument.dtype}"\nrole = "{argument.role}"\n'
        )
    given = ", ".join(a.name for a in workload.arguments if a.role == "input")
    formula = CONVOLUTION if ":conv" in spec else GEMM
    saturated = "np.clip(exact({0}), -128, 127).astype(np.int8)"
    result = "exact({0}).astype(np.float32)" if "fp32" in target else saturated
    (folder / "workload.toml").write_text("\n".join(lines))
    (folder / "kernel.c").write_text(source)
    (folder / "reference.py").write_text(
        f"import numpy as np\n\n\ndef exact({given}):{formula}\n\n\n"
        f"def reference({given}):\n    return {result.format(given)}\n"
    )
    return folder


def searched(name: str, source: str, settings: Settings) -> Record:
    """One search: latency of the start, share of the array's peak, (when, latency) of bests.

    When is in what the budget counts: evaluations or seconds.
    """
    with tempfile.TemporaryDirectory(prefix="foreign-") as temporary:
        folder = Path(temporary)
        found = found_by(str(written(name, source, folder)), settings, folder / "project")
    counted = settings.max_evaluations is not None
    found["bests"] = [(index if counted else s, cycles) for s, index, cycles in found["bests"]]
    return found


def found_by(task: str, settings: Settings, project: Path, *, only_first: bool = False) -> Record:
    """One search of a task: latency of the start, the best, the array's share of its peak.

    `bests` holds the seconds since the search was called, the number of evaluations and the latency
    of each kernel that was faster than all before. With `only_first`, the search ends as soon as a
    kernel is 1 % faster than the start, and `cpu_s` holds the CPU seconds until then.
    """
    began, bests = time.monotonic(), list[tuple[float, int, float]]()
    used_before, cpu_s = cpu_seconds(), float("inf")

    def hear(event: Event) -> None:
        nonlocal cpu_s
        if isinstance(event, Evaluated) and event.trial.latency is not None:
            latency = event.trial.latency
            if not bests or latency < bests[-1][2]:
                bests.append((time.monotonic() - began, event.trial.index, latency))
            if only_first and latency <= FASTER * bests[0][2]:
                cpu_s = cpu_seconds() - used_before
                raise KeyboardInterrupt  # the search ends, and keeps its kernels

    found = optimize(task, settings, project=project, on_event=hear)
    return {
        "start": found.baseline_latency,
        "best": found.best_latency,
        "share": found.best_utilization,
        "bests": bests,
        "evaluations": found.evaluations,
        "cpu_s": cpu_s,
    }


def cpu_seconds() -> float:
    """CPU seconds so far of this process and of all processes that descend from it.

    Processes that ended are included if their parents waited for them.
    """
    used, children = dict[int, float](), defaultdict[int, list[int]](list)
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended
            name, _, rest = file.read_text().rpartition(") ")
            fields = rest.split()
            children[int(fields[1])].append(int(name.split()[0]))
            used[int(name.split()[0])] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    total, left = 0.0, [os.getpid()]
    while left:
        process = left.pop()
        total += used.get(process, 0.0)
        left += children[process]
    return total


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError`."""
    check_effort(options)
    for name in options.workloads:
        if name not in KERNELS:
            raise UnknownNameError("foreign kernel", name, KERNELS)
    kept = Kept(options.results)
    budget: dict[str, Any] = {"max_wall_s": options.seconds}
    effort, unit = f"{options.seconds:g} s", "s"
    if options.evaluations is not None:
        budget = {"max_evaluations": options.evaluations, "patience": 99, "iterations": 99}
        effort, unit = f"{options.evaluations} evaluations", "evaluations"
    print(f"simulated cycles; {effort} each; load {os.getloadavg()[0]:.1f}")
    print("| kernel | naive start | its own start | over naive's best | first | as good |")
    print("|---|---|---|---|---|---|")
    for name in options.workloads:
        own, naive = (SOURCES / f"{name}.c").read_text(), open_task(KERNELS[name], {}).task.start
        rows = []
        for seed in range(1, options.runs + 1):
            pair = []
            for kind, source in (("naive", naive), ("own", own)):
                key = ("foreign", name, kind, seed, effort)
                settings = Settings(seed=seed, **budget)
                pair.append(kept.get(key, partial(searched, name, source, settings)))
            rows.append(pair)
        plain, foreign = ([pair[n] for pair in rows] for n in range(2))
        firsts = [_when(f, FASTER * f["start"]) for f in foreign]
        equals = [_when(f, 1.02 * p["best"]) for p, f in rows]
        over = statistics.median(p["best"] / f["best"] for p, f in rows)
        print(
            f"| `{name}` | {_percent(plain)} | {_percent(foreign)} | {over:.3f}x "
            f"| {statistics.median(firsts):.0f} {unit} | {statistics.median(equals):.0f} {unit} |",
            flush=True,
        )
    return 0


def _percent(runs: list[Record]) -> str:
    """Median of the shares of the array's peak, in percent, least to most."""
    shares = sorted(100 * run["share"] for run in runs)
    return f"{statistics.median(shares):.1f} % ({shares[0]:.1f} to {shares[-1]:.1f})"


def _when(run: Record, latency: float) -> float:
    """When a kernel was as fast as that."""
    return next((when for when, found in run["bests"] if found <= latency), float("inf"))


def main() -> int:
    parser = parser_of(__doc__ or "", tuple(KERNELS), seconds=120.0)
    parser.add_argument("--evaluations", type=int, help="of each search, instead of seconds")
    parser.set_defaults(runs=5)
    return exit_code(measure, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

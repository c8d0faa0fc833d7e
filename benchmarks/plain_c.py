"""What keyless searches reach over -O3 on plain C kernels of many styles, measured on this machine.

    python benchmarks/plain_c.py [--runs 5] [--seconds 60] [--results FILE] [KERNEL ...]

The kernels are those of tests/fixtures/plain_c, as folders of a user's own. A factor is over the
kernel as it is written, compiled with -O3: the median over interleaved pairs in three fresh
sessions, with its bootstrap interval. Beside it, the seconds until a kernel was measured that is
at least 3 % faster than the start, and what bounds the best kernel.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from native_runs import Kept, Record, check_effort, exit_code, parser_of

from tilewright.core.config import Settings
from tilewright.core.errors import UnknownNameError
from tilewright.core.records import Measured
from tilewright.native.machine import processor
from tilewright.native.toolchain import find_toolchain
from tilewright.run import optimize
from tilewright.search.events import Evaluated, Event, RunStarted
from tilewright.storage.project import open_project

SOURCES = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "plain_c"
_ROOT = "0.7978845608"
_TANH = f"0.5 * z * (1 + np.tanh({_ROOT} * (z + 0.044715 * z * z * z)))"
_LAYER = "[X in 96 256] [W in 256 192] [b in 192] [Y out 96 192]"
KERNELS: dict[str, tuple[str, int, str]] = {
    "gelu_tanh": ("[x in 65536] [y out 65536]", 65536, f"z = x\n    return {_TANH}"),
    "gelu_exp": ("[x in 65536] [y out 65536]", 65536, "return x / (1 + np.exp(-1.702 * x))"),
    "mlp_tanh": (_LAYER, 96 * 192 * 256, f"z = X @ W + b\n    return {_TANH}"),
    "mlp_exp": (_LAYER, 96 * 192 * 256, "z = X @ W + b\n    return z / (1 + np.exp(-1.702 * z))"),
    "int8_dots": (
        "[A in 96 1024 int8] [B in 96 1024 int8] [C out 96 96 int32]", 96 * 96 * 1024,
        "return A.astype(np.int32) @ B.astype(np.int32).T",
    ),
    "histogram": (
        "[data in 65536 uint8] [bins out 256 int32]", 65536,
        "return np.bincount(data, minlength=256).astype(np.int32)",
    ),
    "prefix_sum": ("[x in 32768] [y out 32768]", 32768, "return np.cumsum(x)"),
    "stencil": (
        "[grid in 512 512] [next out 512 512]", 5 * 510 * 510,
        "inner = 0.5 * grid[1:-1, 1:-1] + 0.125 * ("
        "grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2] + grid[1:-1, 2:])\n"
        "    side, top = 0 * inner[:, :1], 0 * grid[:1]\n"
        "    return np.concatenate([top, np.concatenate([side, inner, side], axis=1), top])",
    ),
    "softmax_walk": (
        "[x in 256 512] [y out 256 512]", 3 * 256 * 512,
        "e = np.exp(x - x.max(axis=1, keepdims=True))\n    return e / e.sum(axis=1, keepdims=True)",
    ),
    "leaky_norm": (
        "[x in 128 384] [gain in 384] [y out 128 384]", 2 * 128 * 384,
        "v = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)\n"
        "    return np.where(v < 0, 0.01 * v, v) * gain",
    ),
}  # fmt: skip
KERNELS |= {
    "gelu_while": KERNELS["gelu_tanh"],
    "mlp_rows": KERNELS["mlp_exp"],
    "histogram_memset": KERNELS["histogram"],
    "stencil_border": (
        "[grid in 512 512] [next out 512 512]",
        5 * 510 * 510,
        "inner = 0.2 * (grid[1:-1, 1:-1] + grid[:-2, 1:-1] + grid[2:, 1:-1] + grid[1:-1, :-2]"
        " + grid[1:-1, 2:])\n"
        "    rows = np.concatenate([grid[1:-1, :1], inner, grid[1:-1, -1:]], axis=1)\n"
        "    return np.concatenate([grid[:1], rows, grid[-1:]])",
    ),
    "mlp_flat": (
        "[x in 96 256] [w in 192 256] [bias in 192] [y out 96 192]",
        96 * 192 * 256,
        f"z = x @ w.T + bias\n    return {_TANH}",
    ),
    "prefix_recurrent": KERNELS["prefix_sum"],
    "dot_i8_unroll8": (
        "[a in 64 1024 int8] [b in 64 1024 int8] [c out 64 64 int32]",
        64 * 64 * 1024,
        "return a.astype(np.int32) @ b.astype(np.int32).T",
    ),
}
"""Arguments, useful operations and reference of each."""


def written(name: str, folder: Path) -> Path:
    """The kernel as a folder of a user's own."""
    arguments, operations, formula = KERNELS[name]
    lines = [f'target = "host-c"\nname = "{name}"\noperations = {operations}\n']
    names, described = [], ""
    if "cumsum" in formula:  # which cannot be followed: docs/tolerance.md
        lines.append("[tolerance]\nabsolute = 1e-2\nrelative = 1e-3\n")
        described = "inputs = { range = [-1, 1] }\n"
    for text in arguments[1:-1].split("] ["):
        argument, role, *shape = text.split()
        dtype = "float32" if shape[-1].isdigit() else shape.pop()
        if role == "in":
            names.append(argument)
        lines.append(
            f'[[argument]]\nname = "{argument}"\nshape = [{", ".join(shape)}]\n'
            f'dtype = "{dtype}"\nrole = "{role}put"\n' + described * (role == "in")
        )
    made = folder / name
    made.mkdir()
    (made / "workload.toml").write_text("\n".join(lines))
    (made / "kernel.c").write_text((SOURCES / f"{name}.c").read_text())
    (made / "reference.py").write_text(
        f"import numpy as np\n\n\ndef reference({', '.join(names)}):\n    {formula}\n"
    )
    return made


def searched(name: str, seed: int, seconds: float) -> Record:
    """One search of the kernel."""
    began, first, start = 0.0, 0.0, 0.0
    settings = Settings(seed=seed, max_wall_s=seconds, patience=99, iterations=99)

    def hear(event: Event) -> None:
        nonlocal began, first, start
        if isinstance(event, RunStarted):
            began = time.monotonic()
        if isinstance(event, Evaluated) and isinstance(event.trial.outcome, Measured):
            share = event.trial.outcome.details.get("percent_of_baseline", 100.0)
            if not first and share < 97.0:
                first = time.monotonic() - began

    with tempfile.TemporaryDirectory(prefix="plain-c-") as temporary:
        folder = Path(temporary)
        task = written(name, folder)
        summary = optimize(str(task), settings, project=folder, on_event=hear)
        best = open_project(folder).history(summary.run_id).best
        alone = [f"line {a.line}: {a.reason}" for a in summary.left_alone]
    assert best is not None
    found = best.outcome
    assert isinstance(found, Measured)
    share = found.details["percent_of_baseline"]
    return {
        "factor": 100 / share,
        "low": 100 / found.details["percent_of_baseline_high"],
        "high": 100 / found.details["percent_of_baseline_low"],
        "first_s": first,
        "latency_ns": found.latency,
        "feedback": found.feedback.strip().splitlines()[-1],
        "left_alone": "; ".join(alone),
        "source": best.candidate.source,
    }


def measure(options: argparse.Namespace) -> int:
    """The whole table. Raises `TilewrightError`."""
    check_effort(options)
    for name in options.workloads:
        if name not in KERNELS:
            raise UnknownNameError("plain C kernel", name, KERNELS)
    kept = Kept(options.results)
    print(f"measured on {processor().name} ({find_toolchain().id}); load {os.getloadavg()[0]:.1f}")
    print("| kernel | over -O3 | first improvement | what bounds it |\n|---|---|---|---|")
    for name in options.workloads:
        runs = []
        for seed in range(1, options.runs + 1):
            key = ("plain_c", name, seed, options.seconds)
            runs.append(kept.get(key, lambda: searched(name, seed, options.seconds)))  # noqa: B023
        middle = statistics.median_low(r["factor"] for r in runs)
        run = next(r for r in runs if r["factor"] == middle)
        spread = f"{middle:.2f}x ({run['low']:.2f}..{run['high']:.2f})"
        says = run["left_alone"] or run["feedback"]
        print(f"| `{name}` | {spread} | {run['first_s']:.1f} s | {says} |", flush=True)
    return 0


def main() -> int:
    parser = parser_of(__doc__ or "", tuple(KERNELS), seconds=60.0)
    parser.set_defaults(runs=5)
    return exit_code(measure, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())

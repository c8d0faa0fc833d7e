"""All numbers of the target `cuda` that need a GPU, in one command that goes on where it stopped.

    python benchmarks/cuda_device.py --project gpu-results [--budget '40 s']

Run it on a machine with an NVIDIA GPU. For each of the eight KernelBench problems: a search without
a key within the budget, then PyTorch eager and torch.compile, with TF32 off and on, beside the best
kernel. Then one kernel is evaluated `--repeats` times in processes of their own: its latency must
stay within 4 %. Each part is written to the project's folder when it is done; the same command
skips it. No part begins after `--within` seconds: run it again.

Every number is measured on the GPU that the last line names. Without one it ends with one sentence.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.targets.cuda.device.baselines import WAYS
from tilewright.targets.cuda.device.gpus import HOW_TO_GET, find_gpu
from tilewright.targets.cuda.shapes import REGISTERED

PROBLEMS = [name for name, text in REGISTERED.items() if "KernelBench" in text]
REPEATED = "softmax-4096x4096"


def parts(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each part by its name, in the order in which they are run."""
    project = ["--project", str(arguments.project)]
    found = {
        name: ["optimize", f"cuda:{name}", "--budget", arguments.budget, "--seed", "1", *project]
        for name in arguments.workloads
    }
    kernel = arguments.project / "start.cu"
    for number in range(arguments.repeats):
        found[f"repeat-{number}"] = [
            "evaluate", str(kernel), "--workload", f"cuda:{arguments.repeated}",
        ]  # fmt: skip
    return found


def run(name: str, command: Sequence[str], project: Path) -> str | None:
    """Do one part; what went wrong, or None."""
    file = project / f"{name}.json"
    held = file.with_suffix(".part")
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.cli", *command, "--json", str(held)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if done.returncode not in (0, 1) or not held.exists():
        said = done.stderr.strip().splitlines()
        return said[-1] if said else f"it ended with {done.returncode}"
    held.replace(file)
    return None


def report(project: Path, workloads: Sequence[str]) -> list[str]:
    """A line for each problem, and one for the repeats, of all parts that are done."""
    lines = ["| workload | start | best | precision | " + " | ".join(WAYS) + " |",
             "|---|---|---|---|" + "---|" * len(WAYS)]  # fmt: skip
    for name in workloads:
        file = project / f"{name}.json"
        if file.exists():
            found = json.loads(file.read_text())
            cells = [_ms(found["baseline_latency"]), _ms(found["best_latency"]),
                     str(found["best_precision"] or "-")]  # fmt: skip
            lines.append(f"| {name} | " + " | ".join([*cells, *_beside(found)]) + " |")
    repeats = [json.loads(file.read_text()) for file in sorted(project.glob("repeat-*.json"))]
    times = [r["latency"] for r in repeats if r.get("latency")]
    if len(times) > 1:
        off = max(times) / min(times) - 1
        lines.append(f"\n{len(times)} evaluations of one kernel: latencies within {off:.1%}.")
    return lines


def _beside(found: Mapping[str, Any]) -> list[str]:
    """Milliseconds of each baseline, and how many times as fast the best kernel is."""
    cells = []
    for name in WAYS:
        one = found["baselines"].get(name) or {}
        latency, best = one.get("latency"), found["best_latency"]
        cells.append(f"{_ms(latency)} ({latency / best:.2f}x)" if latency and best else "-")
    return cells


def _ms(latency_ns: float | None) -> str:
    return "-" if latency_ns is None else f"{latency_ns * 1e-6:.3f} ms"


def main(words: Sequence[str] | None = None) -> int:
    """Do what is not done yet, and print what is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--budget", default="40 s", help="of each search")
    parser.add_argument("--within", type=float, default=600.0, help="seconds of this call")
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--repeated", default=REPEATED, help="workload of the repeats")
    parser.add_argument("workloads", nargs="*", default=PROBLEMS)
    arguments = parser.parse_args(words)
    gpu, begun = find_gpu(), time.monotonic()
    if gpu is None:
        print(f"no NVIDIA GPU is here: {HOW_TO_GET}.", file=sys.stderr)
        return 2
    arguments.project.mkdir(parents=True, exist_ok=True)
    from tilewright.targets.cuda import create_target

    start = create_target().open(arguments.repeated, {}).start
    (arguments.project / "start.cu").write_text(start)
    failed = 0
    for name, command in parts(arguments).items():
        if (arguments.project / f"{name}.json").exists():
            continue
        if time.monotonic() - begun > arguments.within:
            print(f"{name} and what follows is left: run the same command again.", file=sys.stderr)
            break
        problem = run(name, command, arguments.project)
        if problem is not None:
            failed += 1
            print(f"{name}: {problem}", file=sys.stderr)
    print("\n".join(report(arguments.project, arguments.workloads)))
    print(f"\nMeasured on {gpu.id}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

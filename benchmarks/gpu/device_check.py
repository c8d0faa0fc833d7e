"""Checks on a GPU machine whether TVM compiles, launches and times kernels with correct results.

`smoke` compiles and runs one small matrix product and prints versions. `correctness` measures one
random valid candidate of every workload of the benchmark set, in the restricted space, and compares
the outputs with numpy in double precision. Both write FOLDER/NAME.json, and exit with 1 after a
failure.

    python benchmarks/gpu/device_check.py smoke FOLDER
    python benchmarks/gpu/device_check.py correctness FOLDER [--seconds 150] [--workloads M0 ...]
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from importlib.metadata import version
from pathlib import Path

import numpy as np

from tilewright.core.errors import TilewrightError
from tilewright.tuner.benchmark_set import IDENTIFIERS
from tilewright.tuner.tvm.builder import open_builder
from tilewright.tuner.tvm.cuda import cuda_space
from tilewright.tuner.tvm.programs import Program, benchmark_program, matmul
from tilewright.tuner.tvm.runner import Measurement, MeasuringRules, Runner
from tilewright.tuner.tvm.targets import TuningTarget, parse_target
from tilewright.tuner.tvm.task_files import task_files

RULES = MeasuringRules(repeats=3, sample_s=0.002, timeout_s=60.0)


def measure_one(program: Program, target: TuningTarget, seed: int) -> Measurement:
    """Build, run, check and time one random valid candidate."""
    drawn = cuda_space(program, target, restricted=True)
    schedule = drawn.template.schedule(drawn.space.random(1, np.random.default_rng(seed)))
    if schedule is None:
        return Measurement(failure="rejected", log="TVM rejects the schedule")
    with (
        open_builder(target) as builder,
        task_files(program, seed) as task,
        Runner(task, "cuda", 1, RULES) as runner,
    ):
        (built,) = builder.build([schedule])
        if built.library is None:
            return Measurement(failure="build", log=built.log)
        return runner.measure(built.library, None)


def smoke(target: TuningTarget) -> dict[str, object]:
    """One small kernel, from schedule to time."""
    found = measure_one(matmul(64, 64, 64), target, seed=0)
    return {
        "device": vars(target.device),
        "python": platform.python_version(),
        "tvm": version("apache-tvm"),
        "ok": found.failure is None,
        "seconds": found.seconds,
        "log": found.log,
    }


def correctness(target: TuningTarget, workloads: list[str], seconds: float) -> dict[str, object]:
    """One candidate of each workload; a kernel that ptxas calls a misfit is no failure."""
    end = time.monotonic() + seconds
    rows: dict[str, object] = {}
    wrong = 0
    for identifier in workloads:
        if time.monotonic() > end:
            break
        program = benchmark_program(identifier)
        for seed in range(4):
            found = measure_one(program, target, seed)
            if not (found.failure == "build" and "spilled" in found.log):
                break
        wrong += found.failure is not None
        rows[identifier] = {"failure": found.failure, "seconds": found.seconds, "log": found.log}
        print(f"{identifier:<4} {found.failure or 'correct'} {found.log[-200:]}", flush=True)
    return {
        "device": target.device.name,
        "ok": wrong == 0,
        "checked": len(rows),
        "asked": len(workloads),
        "log": f"{wrong} of {len(rows)} checked",
        "rows": rows,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=["smoke", "correctness"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--workloads", nargs="+", default=list(IDENTIFIERS))
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--target", default="cuda")
    arguments = parser.parse_args()
    try:
        target = parse_target(arguments.target)
    except TilewrightError as error:
        parser.error(str(error))
    found = (
        smoke(target)
        if arguments.step == "smoke"
        else correctness(target, arguments.workloads, arguments.seconds)
    )
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / f"{arguments.step}.json").write_text(json.dumps(found, indent=1))
    amount = f" on {found['checked']} of {found['asked']} workloads" if "checked" in found else ""
    verdict = "ok" if found["ok"] else f"FAILED: {found['log']}"
    print(f"{arguments.step} {verdict}{amount}")
    return 0 if found["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())

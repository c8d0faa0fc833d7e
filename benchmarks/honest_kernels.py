"""Counts how often the check rejects correct kernels: the baselines and a winner of each workload.

python benchmarks/honest_kernels.py [WORKLOAD...] [--processes 20] [--jobs 2] [--targets host-c ...]
    [--results FILE]
python benchmarks/honest_kernels.py --find 30 [WORKLOAD...]

Each kernel is built and compared on inputs of every distribution, in as many fresh processes, each
with its own private seed. `rejected` is the number of processes that rejected the kernel (goal: 0).
`closest` is the largest error of any comparison divided by the allowed error; values above 1 are
rejected. Winners are kernels that a short search with the built-in proposer found, in
`benchmarks/winners/TARGET/WORKLOAD.c`. `--find N` searches for missing winners with N evaluations
and writes them. With `--results`, the results of each process are appended to a file, and the same
command continues after an interruption. Exits with status 1 if a kernel was rejected.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tilewright.core.plugins import load_target, target_names
from tilewright.core.records import Candidate, Failed
from tilewright.core.tasks import open_task
from tilewright.parts.case import Case, Only
from tilewright.run import open_project

WINNERS = Path(__file__).parent / "winners"
FLOAT_TARGETS = ("host-c", "gemmini-fp32-4x4", "amx-bf16")
Found = Mapping[str, tuple[str, float, str]]
"""By kernel: why it was rejected, or nothing; the largest excess, and where that was."""
NO_LIMITS = {"compile_timeout_s": 3600.0, "simulation_timeout_s": 3600.0}
"""A busy machine is no reason to call a correct kernel wrong."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("workloads", nargs="*")
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--targets", nargs="*", default=FLOAT_TARGETS)
    parser.add_argument("--find", type=int, metavar="EVALUATIONS")
    parser.add_argument("--results", type=Path, metavar="FILE")
    parser.add_argument("--one", type=int, metavar="SEED", help=argparse.SUPPRESS)
    given = parser.parse_args()
    names = given.workloads or registered(given.targets)
    if given.find:
        for name in names:
            find(name, given.find)
        return 0
    if given.one is not None:
        print(json.dumps(checked(names[0], given.one)))
        return 0
    print("| workload | kernel | rejected | closest | on | why |\n|---|---|---|---|---|---|")
    rejected = compared = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for name in names:
            found = stored_results(given.results, name)
            seeds = [secrets.randbits(62) for _ in range(given.processes - len(found))]
            running = [pool.submit(in_a_process, name, seed) for seed in seeds]
            for one in as_completed(running):
                found.append(one.result())
                store_result(given.results, name, one.result())
            for kernel in found[0]:
                results = [each[kernel] for each in found]
                wrong = [text for text, _, _ in results if text]
                excess, where = max((excess, where) for _, excess, where in results)
                rejected, compared = rejected + len(wrong), compared + len(results)
                why = wrong[0] if wrong else ""
                share = f"{len(wrong)}/{len(results)} | {excess:.2f} | {where}"
                print(f"| {name} | {kernel} | {share} | {why} |", flush=True)
    print(f"\n{rejected} of {compared} checks rejected a correct kernel")
    return 1 if rejected else 0


def stored_results(file: Path | None, name: str) -> list[Found]:
    """What the processes of a workload found that are in a file of results."""
    if file is None or not file.exists():
        return []
    read = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return [one["found"] for one in read if one["workload"] == name]


def store_result(file: Path | None, name: str, found: Found) -> None:
    """Append what a process found to a file of results."""
    if file is not None:
        with file.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"workload": name, "found": found}) + "\n")


def registered(targets: list[str]) -> list[str]:
    """Workloads of the given targets, without the patterns."""
    unknown = set(targets) - set(target_names())
    if unknown:
        raise SystemExit(f"no such target: {', '.join(unknown)}")
    named = [(target, name) for target in targets for name in load_target(target).workloads()]
    return [f"{t}:{name}" for t, name in named if not any(c.isupper() for c in name)]


def kernels(name: str) -> Mapping[str, str]:
    """Sources by what they are: the baselines of a workload and the winner."""
    found = dict(open_task(name, {}).task.baselines)
    if stored(name).exists():
        found["winner"] = stored(name).read_text(encoding="utf-8")
    return found


def stored(name: str) -> Path:
    """Where a workload's winner lies."""
    target, _, spec = name.partition(":")
    return WINNERS / target / f"{spec}.c"


def in_a_process(name: str, seed: int) -> Found:
    """What a fresh process finds about the kernels of a workload."""
    command = [sys.executable, __file__, name, "--one", str(seed)]
    finished = subprocess.run(command, check=True, capture_output=True, text=True)
    found: Found = json.loads(finished.stdout)
    return found


def checked(name: str, seed: int) -> Found:
    """What `in_a_process` returns, computed in this one."""
    worst: list[tuple[float, str]] = []
    mismatch = Case.mismatch

    def noted(case: Case, outputs: Mapping[str, bytes], only: Only | None = None) -> str | None:
        worst.append((case.excess(outputs, only), case.check.distribution))
        return mismatch(case, outputs, only)

    Case.mismatch = noted  # type: ignore[method-assign, assignment]
    task = open_task(name, {"input_seed": seed, **NO_LIMITS}).task
    builder, checker, _ = task.evaluator
    found = {}
    for kernel, source in kernels(name).items():
        worst.clear()
        built = builder.build(Candidate(source))
        verdict = built if isinstance(built, Failed) else checker.check(built)
        why = f"{verdict.kind}: {verdict.log}" if isinstance(verdict, Failed) else ""
        excess, where = max(worst, default=(0.0, ""))
        found[kernel] = (why, excess, where)
    return found


def find(name: str, evaluations: int) -> None:
    """Search for a faster kernel of a workload and store it."""
    if stored(name).exists():
        return
    with tempfile.TemporaryDirectory() as project:
        command = [str(Path(sys.executable).with_name("tilewright")), "optimize", name]
        command += ["--project", project, "--budget", f"{evaluations} evaluations", "--no-color"]
        finished = subprocess.run(command, check=False, capture_output=True, text=True)
        for source in winners(Path(project)) if finished.returncode == 0 else ():
            stored(name).parent.mkdir(parents=True, exist_ok=True)
            stored(name).write_text(source, encoding="utf-8")
            print(f"{name}: stored", flush=True)
            return
    lines = (finished.stdout + finished.stderr).strip().splitlines() or ["nothing was printed"]
    print(f"{name}: no winner ({lines[-1]})", flush=True)


def winners(project: Path) -> Iterator[str]:
    """Source of the best kernel of a project's only run, where it is not the start."""
    storage = open_project(project)
    try:
        for run in storage.runs():
            best = storage.history(run.id).best
            if best is not None and best.index > 0:
                yield best.candidate.source
    finally:
        storage.close()


if __name__ == "__main__":
    sys.exit(main())

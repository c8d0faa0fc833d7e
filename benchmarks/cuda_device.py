"""Measures all numbers of the target `cuda` that need a GPU, in one command that can be continued.

    python benchmarks/cuda_device.py --project gpu-results [--table docs/results/cuda-device.md]

Run it on a machine with an NVIDIA GPU. It performs these steps in order:

1. One pair of kernels is timed five times, each time in new processes.
2. For each of the eight KernelBench problems, a search without a key runs within `--budget`. Then
   PyTorch eager and torch.compile are timed with the best kernel, with TF32 off and on, and the
   best kernel is evaluated again, which also applies KernelBench's own rule to its results.
3. The same searches run within `--tf32-budget` with `--set precision=tf32`.
4. The pair is timed until there are `--repeats` times. The ratio of the two must stay within 1 %
   and the latency within 4 %.
5. `tilewright tune` tunes each problem that it can tune, with `--tune` trials of the default search
   (AF-DS). The best kernels are baselines of all later searches.
6. The searches of step 2 run within `--longer`.
7. `tilewright tune` tunes the same problems with `--metaschedule` trials of MetaSchedule. The best
   kernels of step 6 are then evaluated again, beside all baselines.

Steps 5 and 7 need the extra `tune` (TVM); without it, they are left out, and a sentence says so.

Each result is written to the project's folder immediately, and the table is updated after each
step. The same command skips finished parts, also after `kill -9`. No part begins after `--within`
seconds, and tuning ends then, so that one call takes at most about ten minutes; call it again to
continue. The last line names the GPU. On a machine without a GPU, the script ends with one
sentence.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from tilewright.core.records import Candidate, Failed
from tilewright.core.templates import parse_template
from tilewright.parts.languages import CUDA
from tilewright.targets.cuda import create_target
from tilewright.targets.cuda.device.baselines import WAYS
from tilewright.targets.cuda.device.gpus import HOW_TO_GET, find_gpu
from tilewright.targets.cuda.device.tuned import NAMED, tunable
from tilewright.targets.cuda.shapes import REGISTERED, parse_shape

Outcome = TypeVar("Outcome")
PROBLEMS = [name for name, text in REGISTERED.items() if "KernelBench" in text]
PAIR = "softmax-4096x4096"
PUBLISHED = 2.05
"""Geometric mean of the speedups over PyTorch eager on the eight problems that the Autocomp paper
reports, for an L40S and KernelBench's tolerance of 1e-2."""
TF32 = ["--set", "precision=tf32"]
FEW = 5
"""Number of times that the pair is timed before anything else."""


def searches(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """The command of each search by its name, in the order in which they are run."""
    project = ["--project", str(arguments.project)]
    passes = {
        arguments.budget: (arguments.budget, []),
        f"tf32, {arguments.tf32_budget}": (arguments.tf32_budget, TF32),
        arguments.longer: (arguments.longer, []),
    }
    return {
        f"{name}, {words}": [
            "optimize", f"cuda:{name}", "--budget", budget, "--seed", "1", *project, *settings,
        ]
        for words, (budget, settings) in passes.items()
        for name in arguments.workloads
    }  # fmt: skip


@dataclass(frozen=True)
class Part:
    """One command, whose result is in `file` when it is complete. `limited` is true if the command
    may be killed when the time is over, because it continues when it is repeated."""

    name: str
    command: Sequence[str]
    file: Path
    limited: bool = False


TUNERS = {"AF-DS": [], "MetaSchedule": ["--search", "evolutionary", "--features", "tvm164"]}
"""The methods of `tilewright tune` by their names in the names of baselines, with their options."""
COLUMNS = (*WAYS, *(f"{NAMED}{method}" for method in TUNERS))


def tunings(arguments: argparse.Namespace, method: str, trials: int) -> list[Part]:
    """The commands that tune the workloads with one method."""
    gpu, found = find_gpu(), []
    for name in arguments.workloads if find_spec("tvm") is not None else ():
        wanted = tunable(parse_shape(name), gpu) if gpu else None
        if wanted is not None:
            title = f"{name}, tune {method}"
            file = arguments.project / f"{title}.json"
            options = ["--budget", f"{trials} evaluations", "--project", str(arguments.project),
                       "-o", str(file.with_suffix("")), *TUNERS[method]]  # fmt: skip
            found.append(Part(title, [*wanted.command[1:], *options], file, limited=True))
    return found


def comparisons(arguments: argparse.Namespace) -> list[Part]:
    """The commands that evaluate the best kernels of the last searches beside all baselines."""
    found = []
    for tuning in tunings(arguments, "MetaSchedule", arguments.metaschedule):
        workload = tuning.name.partition(",")[0]
        search = arguments.project / f"{workload}, {arguments.longer}.json"
        command = ["evaluate", str(search.with_suffix(".cu")), "--workload", f"cuda:{workload}",
                   "--baselines", "--project", str(arguments.project)]  # fmt: skip
        found.append(Part(f"{workload}, compared", command, search.with_suffix(".compared")))
    return found


class Pair:
    """The starting kernel of a workload, and the first instance of tilewright's own template."""

    def __init__(self, workload: str) -> None:
        task = create_target().open(workload, {})
        builder, checker, self._runner = task.evaluator
        template = parse_template(next(iter(task.templates().values())), CUDA.templates)
        assert template is not None
        self._artifact = _correct(builder.build(Candidate(template.instance(template.first))))
        self._verdict = _correct(checker.check_first(self._artifact))

    def timed(self) -> dict[str, float]:
        """Nanoseconds of the instance, and its share of the time of the starting kernel."""
        found = _correct(self._runner.measure(self._artifact, self._verdict, None))
        return {"latency": found.latency, "ratio": found.details["percent_of_baseline"] / 100}


def _correct(found: Outcome | Failed) -> Outcome:
    if isinstance(found, Failed):
        raise RuntimeError(f"the pair of kernels cannot be timed ({found.kind}): {found.log}")
    return found


def parts(arguments: argparse.Namespace) -> list[tuple[str, int | list[str] | Part]]:
    """What is run, in order: how often the pair has to be timed by then, the command of a search,
    or another command, each with its name."""
    all_searches = list(searches(arguments).items())
    count = 2 * len(arguments.workloads)
    name = f"pair-{arguments.pair}"
    few = min(FEW, arguments.repeats)
    quick = [(part.name, part) for part in tunings(arguments, "AF-DS", arguments.tune)]
    long = tunings(arguments, "MetaSchedule", arguments.metaschedule) + comparisons(arguments)
    return [
        (name, few), *all_searches[:count], (name, arguments.repeats), *quick,
        *all_searches[count:], *((part.name, part) for part in long),
    ]  # fmt: skip


def repeat(arguments: argparse.Namespace, count: int, end: float) -> bool:
    """Time the pair until its file has `count` lines; False if the time is over before."""
    file = arguments.project / f"pair-{arguments.pair}.jsonl"
    pair = None
    while _lines(file) < count:
        if time.monotonic() > end:
            return False
        pair = pair or Pair(arguments.pair)
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(pair.timed()) + "\n")
    return True


def _lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def run(name: str, command: Sequence[str], project: Path) -> str | None:
    """Do one search and evaluate its best kernel; what went wrong, or None."""
    file = project / f"{name}.json"
    held, kernel, winner = (file.with_suffix(end) for end in (".part", ".cu", ".winner"))
    problem = tilewright([*command, "--json", str(held)])
    if problem is not None or not held.exists():
        return problem or "it wrote no result"
    run_id = json.loads(held.read_text())["run"]
    again = ["evaluate", str(kernel), "--workload", command[1], "--json", str(winner)]
    problem = tilewright(["best", run_id, "-o", str(kernel), *command[6:8]])
    problem = problem or tilewright(again + TF32 * (TF32[1] in command))
    held.replace(file)
    return problem


def complete(part: Part, end: float) -> str | None:
    """Run a part, whose result is in its file afterwards unless the time was over before; what went
    wrong, or None."""
    held = part.file.with_suffix(f"{part.file.suffix}.part")
    limit_s = max(end - time.monotonic(), 1.0) if part.limited else None
    try:
        problem = tilewright([*part.command, "--json", str(held)], limit_s)
    except subprocess.TimeoutExpired:
        return None
    if problem is None and held.exists():
        held.replace(part.file)
        return None
    return problem or "it wrote no result"


def tilewright(command: Sequence[str], limit_s: float | None = None) -> str | None:
    """Run the command `tilewright`; the last line of its error, or None. After `limit_s` seconds,
    it is killed, and `subprocess.TimeoutExpired` is raised."""
    done = subprocess.run(
        [sys.executable, "-m", "tilewright.cli", *command], timeout=limit_s,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    if done.returncode in (0, 1):
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"it ended with {done.returncode}"


def report(arguments: argparse.Namespace) -> list[str]:
    """A line for each search that is done, and one for the repeats of the pair."""
    head = ("search", "start", "best", "precision", "KernelBench's rule at 1e-2 and 1e-4", *COLUMNS)
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for name in searches(arguments):
        file = arguments.project / f"{name}.json"
        if file.exists():
            found = _found(file)
            cells = [_ms(found["baseline_latency"]), _ms(found["best_latency"]),
                     str(found["best_precision"] or "-"),
                     _by_kernelbench(file.with_suffix(".winner"))]  # fmt: skip
            lines.append(f"| {name} | " + " | ".join([*cells, *_beside(found)]) + " |")
    lines += means(arguments)
    file = arguments.project / f"pair-{arguments.pair}.jsonl"
    pairs = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    if len(pairs) > 1:
        off = {k: max(p[k] for p in pairs) / min(p[k] for p in pairs) - 1 for k in pairs[0]}
        lines.append(
            f"\n{len(pairs)} times in new processes, {arguments.pair}: the ratio of a pair of "
            f"kernels is within {off['ratio']:.1%}, and the latency within {off['latency']:.1%}."
        )
    return lines


def means(arguments: argparse.Namespace) -> list[str]:
    """For each pass that is complete, the geometric mean of the speedups over each baseline."""
    names, count = list(searches(arguments)), len(arguments.workloads)
    lines = []
    for first in range(0, len(names), count):
        files = [arguments.project / f"{name}.json" for name in names[first : first + count]]
        found = [_found(file) for file in files if file.exists()]
        told = []
        for way in COLUMNS:
            ratios = [ratio for one in found if (ratio := _speedup(one, way))]
            if len(found) < count or len(ratios) < (1 if way.startswith(NAMED) else count):
                continue
            some = "" if len(ratios) == count else f" on {len(ratios)} of {count} workloads"
            told.append(f"{math.prod(ratios) ** (1 / len(ratios)):.2f}x over {way}{some}")
        if told:
            words = names[first].partition(", ")[2]
            lines.append(f"\nGeometric mean of the searches of {words}: {', '.join(told)}.")
    published = f"\nThe Autocomp paper reports {PUBLISHED}x over PyTorch eager on an L40S."
    return [*lines, *[published] * bool(lines and arguments.workloads == PROBLEMS)]


def _by_kernelbench(file: Path) -> str:
    """Whether KernelBench's own rule accepts the results of a search's best kernel."""
    details = json.loads(file.read_text()).get("details") or {} if file.exists() else {}
    accepted = [details.get(f"kernelbench_{words}") for words in ("1e-2", "1e-4")]
    return ", ".join("-" if a is None else "accepts" if a else "refuses" for a in accepted)


def _found(file: Path) -> dict[str, Any]:
    """The result of a search. If its best kernel was evaluated again beside all baselines, their
    latencies are those of this evaluation."""
    found: dict[str, Any] = json.loads(file.read_text())
    again = file.with_suffix(".compared")
    if again.exists():
        compared = json.loads(again.read_text())
        if compared["latency"]:
            both = {"baselines": compared["baselines"], "best_latency": compared["latency"]}
            found |= both
    return found


def _baseline(found: Mapping[str, Any], column: str) -> Mapping[str, Any]:
    """The fields of the baseline in a column. The name of one of the tuner ends with its number of
    trials."""
    named = [name for name in found["baselines"] if name == column or
             (column.startswith(NAMED) and name.startswith(f"{column}, "))]  # fmt: skip
    return found["baselines"][named[0]] if named else {}


def _speedup(found: Mapping[str, Any], column: str) -> float | None:
    latency, best = _baseline(found, column).get("latency"), found["best_latency"]
    return latency / best if latency and best else None


def _beside(found: Mapping[str, Any]) -> list[str]:
    """Milliseconds of each baseline, how many times as fast the best kernel is, and the class of
    precision of the baseline."""
    cells = []
    for column in COLUMNS:
        ratio, baseline = _speedup(found, column), _baseline(found, column)
        precision = f", {baseline['precision']}" if baseline.get("precision") else ""
        cells.append(f"{_ms(baseline['latency'])} ({ratio:.2f}x{precision})" if ratio else "-")
    return cells


def _ms(latency_ns: float | None) -> str:
    return "-" if latency_ns is None else f"{latency_ns * 1e-6:.3f} ms"


def main(words: Sequence[str] | None = None) -> int:
    """Do what is not done yet, and print what is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--project", type=Path, required=True)
    parser.add_argument("--budget", default="40 s", help="of each search of the first pass")
    parser.add_argument("--tf32-budget", default="20 s", help="of each search with precision tf32")
    parser.add_argument("--longer", default="2 min", help="of each search of the second pass")
    parser.add_argument("--tune", type=int, default=100, help="trials of AF-DS")
    parser.add_argument("--metaschedule", type=int, default=1000, help="trials of MetaSchedule")
    parser.add_argument("--within", type=float, default=480.0, help="seconds of this call")
    parser.add_argument("--repeats", type=int, default=50, help="of the pair of kernels")
    parser.add_argument("--pair", default=PAIR, help="workload of the pair of kernels")
    parser.add_argument("--table", type=Path, help="also write the table to this file")
    parser.add_argument("workloads", nargs="*", default=PROBLEMS)
    arguments = parser.parse_args(words)
    gpu, end = find_gpu(), time.monotonic() + arguments.within
    if gpu is None:
        print(f"no NVIDIA GPU is here: {HOW_TO_GET}.", file=sys.stderr)
        return 2
    arguments.project.mkdir(parents=True, exist_ok=True)
    failed, text = 0, ""
    if find_spec("tvm") is None:
        print(
            "the kernels of the tuner are left out: install the extra `tune` to compare with them.",
            file=sys.stderr,
        )
    for name, part in parts(arguments):
        if isinstance(part, int):
            is_done = repeat(arguments, part, end)
        elif isinstance(part, Part):
            is_done = part.file.exists()
            if not is_done and time.monotonic() <= end:
                problem = complete(part, end)
                is_done = part.file.exists() or problem is not None
                if problem is not None:
                    failed += 1
                    print(f"{name}: {problem}", file=sys.stderr, flush=True)
        else:
            is_done = (arguments.project / f"{name}.json").exists()
            if not is_done and time.monotonic() <= end:
                problem, is_done = run(name, part, arguments.project), True
                if problem is not None:
                    failed += 1
                    print(f"{name}: {problem}", file=sys.stderr, flush=True)
        text = "\n".join([*report(arguments), f"\nMeasured on {gpu.id}."])
        if arguments.table is not None:
            arguments.table.write_text(f"# Measurements on a GPU\n\n{text}\n", encoding="utf-8")
        if not is_done:
            print(f"{name} and what follows is left: run the same command again.", file=sys.stderr)
            break
    print(text)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Measures the built-in rewriter without a model: GEMMs, convolutions, TinyMPC, random GEMMs.

Each run starts from an empty project. Each winner is then checked on fresh private inputs with
several seeds, and a failure is reported. Cycles are simulated. On a busy machine, limit the runs by
`--evaluations` instead of wall time, and use the CPU seconds.

With `--json FILE`, every finished run is written immediately, and the same command continues after
an interruption, also with more seeds. All workloads are run with one seed before the next seed
begins. Results in the file that were made with another budget are refused.

    uv run python benchmarks/rewriter.py --json rewriter.json     # everything, 5 seeds: 5 hours
    uv run python benchmarks/rewriter.py --seeds 1 --within 45    # everything once, in 45 minutes
    uv run python benchmarks/rewriter.py --group gemm --seeds 1 --budget 30
    uv run python benchmarks/rewriter.py --group random --evaluations 150
    uv run python benchmarks/rewriter.py --seeds 1 gemmini:gemm-100x200x300
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.core.records import Measured
from tilewright.evaluating import evaluate_kernel
from tilewright.run import open_project, optimize

GEMMS = [
    "gemmini:gemm-512x512x512",
    "gemmini:gemm-12544x64x256",
    "gemmini:gemm-12544x256x64",
    "gemmini:gemm-3136x128x512",
    "gemmini:gemm-3136x512x128",
    "gemmini:gemm-784x256x1024",
]
CONVOLUTIONS = [
    "gemmini:conv-4x56x56x64x64-k3s1",
    "gemmini:conv-4x28x28x128x128-k3s1",
    "gemmini:conv-4x14x14x256x256-k3s1",
    "gemmini:conv-4x14x14x128x128-k3s1",
]
TINYMPC = ["gemmini-fp32-4x4:tinympc-forward", "gemmini-fp32-4x4:tinympc-backward"]
BASELINES = ("library", "tuned", "fsm")
BUDGET_S = {"gemm": 120.0, "conv": 300.0, "tinympc": 120.0}
"""Wall seconds per run and kind of workload."""
FOR_CHECKS = 0.25
"""Part of the time `--within` that is kept for what surrounds a search: attacks on its check before
it, checks of its winner after it."""
WIDTH = 140
"""Characters of the tables, also where the output is not a terminal."""
FIRST_FRESH_SEED = 1_000_000
"""Private inputs of the final check; a search never uses these seeds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One search: its best kernel against the naive start and the target's own baselines."""

    workload: str
    seed: int
    naive_cycles: float
    best_cycles: float
    utilization: float
    over: dict[str, float]
    evaluations: int
    wall_s: float
    cpu_s: float
    failed_checks: int
    budget: str = ""

    @property
    def speedup(self) -> float:
        """Over the naive start."""
        return self.naive_cycles / self.best_cycles


def random_shapes(seed: int, count: int = 6) -> list[str]:
    """GEMMs between 2^16 and 2^27 products; every other one is ragged in all three sizes."""
    rng = random.Random(seed)
    names: list[str] = []
    while len(names) < count:
        m, n, k = (rng.randint(1, 64) * 16 for _ in range(3))
        if len(names) % 2:
            m, n, k = (size - rng.randint(1, 15) for size in (m, n, k))
        if 2**16 <= m * n * k <= 2**27:
            names.append(f"gemmini:gemm-{m}x{n}x{k}")
    return names


def search(workload: str, settings: Settings, checks: int) -> Row:
    """One run, and its winner on fresh private inputs."""
    with tempfile.TemporaryDirectory() as project:
        started = _cpu_s()
        found = optimize(workload, settings, project=Path(project))
        cpu_s = _cpu_s() - started
        with closing(open_project(Path(project))) as storage:
            best = storage.history(found.run_id).best
        assert best is not None, "the naive start is correct"
        file = Path(project) / "best.c"
        file.write_text(best.candidate.source)
        outcomes = [
            evaluate_kernel(file, workload, Settings(seed=FIRST_FRESH_SEED + n)).outcome
            for n in range(checks)
        ]
    cycles = found.best_latency or 0.0
    return Row(
        workload=workload,
        seed=settings.seed,
        naive_cycles=found.baseline_latency or 0.0,
        best_cycles=cycles,
        utilization=found.best_utilization or 0.0,
        over={b.name: b.latency / cycles for b in found.baselines if b.latency},
        evaluations=found.evaluations,
        wall_s=found.wall_s,
        cpu_s=cpu_s,
        failed_checks=sum(not isinstance(outcome, Measured) for outcome in outcomes),
    )


def _cpu_s() -> float:
    """CPU seconds of this process and of the workers that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def main() -> None:
    options = _options()
    groups = _groups(options)
    results = Results(options.json, _budgets(options, groups), options.evaluations)
    console = Console(width=WIDTH)
    console.print(f"random shapes drawn with --shapes-seed {options.shapes_seed}")
    for seed in range(options.seeds):
        for workload in (w for workloads in groups.values() for w in workloads):
            if not results.has(workload, seed):
                results.add(search(workload, results.settings(workload, seed), options.checks))
                row = results.rows[-1]
                console.print(
                    f"{workload} seed {seed}: {row.speedup:.2f}x, {100 * row.utilization:.1f} %, "
                    f"{row.evaluations} kernels in {row.wall_s:.0f} s, "
                    f"{row.failed_checks} of {options.checks} checks failed"
                )
    for name, workloads in groups.items():
        console.print(_table(name, results.of(workloads, options.seeds)))


class Results:
    """Finished runs, in memory and in a file; each run's budget."""

    def __init__(
        self, file: Path | None, budgets_s: Mapping[str, float], evaluations: int | None
    ) -> None:
        self._file, self._budgets_s, self._evaluations = file, budgets_s, evaluations
        self.rows: list[Row] = []
        if file is not None and file.exists():
            self.rows = [Row(**row) for row in json.loads(file.read_text())]
        for row in self.rows:
            if row.workload in budgets_s and row.budget != self._budget(row.workload):
                sys.exit(
                    f"{file}: {row.workload} was run with {row.budget}, not "
                    f"{self._budget(row.workload)}: name another file, or the same budget"
                )

    def has(self, workload: str, seed: int) -> bool:
        """Whether this run is finished."""
        return any((row.workload, row.seed) == (workload, seed) for row in self.rows)

    def add(self, row: Row) -> None:
        """Keep a finished run; the file is whole at any moment."""
        self.rows.append(replace(row, budget=self._budget(row.workload)))
        if self._file is not None:
            new = self._file.with_suffix(".new")
            new.write_text(json.dumps([asdict(row) for row in self.rows], indent=2))
            new.replace(self._file)

    def of(self, workloads: Sequence[str], seeds: int) -> list[Row]:
        """The runs of some workloads, in their order, with the seeds asked for."""
        return [r for w in workloads for r in self.rows if r.workload == w and r.seed < seeds]

    def settings(self, workload: str, seed: int) -> Settings:
        """The default search within the budget."""
        if self._evaluations is not None:
            return Settings(seed=seed, max_evaluations=self._evaluations, reuse=False)
        return Settings(seed=seed, max_wall_s=self._budgets_s[workload], reuse=False)

    def _budget(self, workload: str) -> str:
        if self._evaluations is not None:
            return f"{self._evaluations} evaluations"
        return f"{self._budgets_s[workload]:g} s"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workloads", nargs="*", help="instead of the groups")
    parser.add_argument(
        "--group", choices=("gemm", "conv", "tinympc", "random"), help="only this group"
    )
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0..N-1 per workload")
    parser.add_argument(
        "--shapes-seed",
        type=int,
        help="draws the random shapes; new by default, or as in the results of --json",
    )
    parser.add_argument("--budget", type=float, help="wall seconds per run (120; 300 for conv)")
    parser.add_argument(
        "--within", type=float, help="minutes for all of it: shortens every run's budget alike"
    )
    parser.add_argument("--evaluations", type=int, help="kernels per run, instead of wall time")
    parser.add_argument("--checks", type=int, default=20, help="fresh seeds per winner")
    parser.add_argument("--json", type=Path, help="keep every run in this file, and go on from it")
    options = parser.parse_args()
    if options.shapes_seed is None:
        options.shapes_seed = _shapes_seed(options.json)
    return options


def _shapes_seed(results: Path | None) -> int:
    """The seed of the shapes, kept beside the results: a resumed run draws the same ones."""
    drawn = random.SystemRandom().randrange(10**6)
    if results is None:
        return drawn
    note = results.with_suffix(".shapes-seed")
    if not note.exists():
        note.write_text(f"{drawn}\n")
    return int(note.read_text())


def _groups(options: argparse.Namespace) -> dict[str, list[str]]:
    if options.workloads:
        return {"given": options.workloads}
    groups = {
        "gemm": GEMMS,
        "conv": CONVOLUTIONS,
        "random": random_shapes(options.shapes_seed),
        "tinympc": TINYMPC,
    }
    return {options.group: groups[options.group]} if options.group else groups


def _budgets(options: argparse.Namespace, groups: Mapping[str, Sequence[str]]) -> dict[str, float]:
    """Wall seconds for each workload's runs."""
    budgets_s: dict[str, float] = {}
    for workload in (w for workloads in groups.values() for w in workloads):
        kind = workload.partition(":")[2].partition("-")[0]
        budgets_s[workload] = options.budget or BUDGET_S.get(kind, BUDGET_S["gemm"])
    if options.within:
        available_s = 60 * options.within * (1 - FOR_CHECKS) / options.seeds
        share = min(1.0, available_s / sum(budgets_s.values()))
        budgets_s = {w: round(share * budget_s, 1) for w, budget_s in budgets_s.items()}
    return budgets_s


def _table(group: str, rows: list[Row]) -> Table:
    """Medians over the seeds per workload, and the geometric means of the group."""
    table = Table(title=f"Rewriter alone: {group} (medians of seeds, simulated cycles)")
    over = [f"over {name}" for name in BASELINES]
    for column in ("workload", "best", "over naive", "worst", *over):
        table.add_column(column, justify="left" if column == "workload" else "right")
    for column in ("utilisation", "evals", "wall", "CPU", "failed checks"):
        table.add_column(column, justify="right")
    speedups, utilizations = [], []
    for workload in dict.fromkeys(row.workload for row in rows):
        runs = [row for row in rows if row.workload == workload]
        speedups.append(statistics.median(r.speedup for r in runs))
        utilizations.append(statistics.median(r.utilization for r in runs))
        table.add_row(
            workload.partition(":")[2],
            f"{statistics.median(r.best_cycles for r in runs):,.0f}",
            f"{speedups[-1]:.2f}x",
            f"{min(r.speedup for r in runs):.2f}x",
            *(_over(runs, name) for name in BASELINES),
            f"{100 * utilizations[-1]:.1f} %",
            f"{statistics.median(r.evaluations for r in runs):.0f}",
            f"{statistics.median(r.wall_s for r in runs):.0f} s",
            f"{statistics.median(r.cpu_s for r in runs):.0f} s",
            str(sum(r.failed_checks for r in runs)),
        )
    table.add_section()
    table.add_row(
        "geometric mean",
        "",
        f"{statistics.geometric_mean(speedups):.2f}x",
        *[""] * (1 + len(BASELINES)),
        f"{100 * statistics.geometric_mean(utilizations):.1f} %",
    )
    return table


def _over(runs: list[Row], baseline: str) -> str:
    known = [r.over[baseline] for r in runs if baseline in r.over]
    return f"{statistics.median(known):.2f}x" if known else "-"


if __name__ == "__main__":
    main()

"""Prints simulated cycles and array utilisation of every baseline of every registered workload.

python benchmarks/baselines.py [--target gemmini] [WORKLOAD...]

Each kernel is built, compared with the reference on private inputs, and timed, like a candidate.
The rows are the table of docs/targets/gemmini.md.
"""

from __future__ import annotations

import argparse

from tilewright.core.config import Settings
from tilewright.core.plugins import load_target
from tilewright.core.records import Measured
from tilewright.core.tasks import open_task
from tilewright.executors import create_executor, evaluate_baselines
from tilewright.verification import fresh_seed

VARIANTS = ("naive", "library", "tuned", "fsm")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--target", default="gemmini")
    parser.add_argument("workloads", nargs="*")
    arguments = parser.parse_args()
    target = load_target(arguments.target)
    names = arguments.workloads or [name for name in target.workloads() if name[-1].isdigit()]
    print("| workload | " + " | ".join(VARIANTS) + " |")
    print("|---|" + "---|" * len(VARIANTS))
    for name in names:
        print(f"| {name} | {' | '.join(row(f'{arguments.target}:{name}'))} |", flush=True)


def row(name: str) -> list[str]:
    """Cycles and utilisation of each variant, or why there are none."""
    settings = Settings()
    opened = open_task(name, settings.recorded())
    executor = create_executor(opened, settings.evaluated_with(fresh_seed()), None, None)
    try:
        found = {b.name: b.outcome for b in evaluate_baselines(opened, executor)}
    finally:
        executor.close()
    cells = []
    for variant in VARIANTS:
        outcome = found.get(variant)
        if outcome is None:
            cells.append("-")
        elif isinstance(outcome, Measured):
            cells.append(f"{outcome.latency:,.0f} ({outcome.utilization:.1%})")
        else:
            cells.append(outcome.kind)
    return cells


if __name__ == "__main__":
    main()

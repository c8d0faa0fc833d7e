"""Runs every attack of preflight on every registered workload, and measures how long this takes.

python benchmarks/preflight.py [WORKLOAD...]

`caught` is the number of rejected attacks of all applicable ones. An attack that equals the correct
result for every input of a task does not apply. Times are wall seconds and CPU seconds of one
process and its children, from its start. Exits with status 1 if an attack was accepted.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections import Counter

from tilewright.core.config import Settings
from tilewright.core.plugins import load_target, target_names
from tilewright.evaluation.preflight.session import preflight


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("workloads", nargs="*")
    names = parser.parse_args().workloads or registered()
    print("| workload | caught | do not apply | wall s | CPU s |\n|---|---|---|---|---|")
    accepted = 0
    for name in names:
        started, cpu_s = time.monotonic(), children_cpu_s()
        results = preflight(name, Settings().recorded())
        verdicts = Counter(result.verdict for result in results)
        accepted += verdicts["accepted"]
        applicable = verdicts["rejected"] + verdicts["accepted"]
        seconds = f"{time.monotonic() - started:.1f} | {children_cpu_s() - cpu_s:.1f}"
        row = f"{verdicts['rejected']}/{applicable} | {verdicts['does not apply']} | {seconds}"
        print(f"| {name} | {row} |", flush=True)
    load = f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    print(f"\n{len(names)} workloads, {accepted} attacks accepted; {load}")
    return 1 if accepted else 0


def registered() -> list[str]:
    """Workloads of all installed targets, without the patterns."""
    named = [
        (target, name) for target in target_names() for name in load_target(target).workloads()
    ]
    return [f"{t}:{name}" for t, name in named if not any(c.isupper() for c in name)]


def children_cpu_s() -> float:
    """CPU seconds of all processes that were started and have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    sys.exit(main())

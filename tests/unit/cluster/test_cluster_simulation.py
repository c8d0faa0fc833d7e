"""The simulation of many workers understands the messages of today's searches."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SIMULATION = Path(__file__).parents[3] / "benchmarks" / "cluster_simulation.py"


def test_a_small_cluster_is_busy() -> None:
    size = ["--workers", "20", "--searches", "2", "--warm", "5", "--span", "20"]
    ended = subprocess.run(
        [sys.executable, str(SIMULATION), *size], capture_output=True, text=True, timeout=120
    )
    assert not ended.stderr  # a search that ends in its thread changes no exit status
    found = re.search(r"([\d.]+) evaluations/s; busy: workers (\d+) %", ended.stdout)
    assert found
    assert float(found[1]) > 5
    assert int(found[2]) > 80

"""Compares the length of today's prompts with those in a recording of an earlier version.

The recording is replayed with its own settings, and each prompt is compared with the recorded one
at the same place in the run. A replay ends at the first reply that is now read differently; the
output includes the number of compared calls.

    uv run python benchmarks/prompt_length.py RECORDING gemmini:gemm-12544x64x256 --plans 4
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from contextlib import closing
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Request, request_from_json
from tilewright.run import optimize
from tilewright.storage.project import open_calls, open_project

WANTED = 1.2
"""Most that a kind of prompt may be longer than the recorded ones, in characters."""


def place(request: Request) -> tuple[str, str, str]:
    """Where in a run a call is made."""
    return request.model, request.phase, request.sample


def recorded(file: Path) -> dict[tuple[str, str, str], int]:
    """Characters of the prompts of a recording, by place."""
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()[1:]]
    requests = [request_from_json(line["request"]) for line in lines]
    return {place(request): request.characters for request in requests}


def replayed(file: Path, workload: str, settings: Settings) -> list[Request]:
    """The requests of a replay, as far as it goes."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        try:
            optimize(workload, settings, project=project, replay=file)
        except ModelError as error:
            Console(stderr=True).print(f"the replay ends early: {error}", soft_wrap=True)
        with closing(open_project(project)) as storage, closing(open_calls(project)) as calls:
            exchanges = calls.exchanges(storage.runs()[0].id)
        return [request_from_json(request) for _, request, _ in exchanges]


def main() -> int:
    """Print the table; 1 where prompts of a kind are longer than wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("recording", type=Path)
    parser.add_argument("workload")
    parser.add_argument("--beam", type=int, default=2)
    parser.add_argument("--plans", type=int, default=4)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--without", action="append", default=[])
    chosen = parser.parse_args()
    before = recorded(chosen.recording)
    settings = Settings(
        proposers=tuple(sorted({model for model, _, _ in before})),
        beam=chosen.beam, plans=chosen.plans, implementations=1, iterations=chosen.iterations,
        repairs=1, without=tuple(chosen.without), stop_within=0.0,
    )  # fmt: skip
    lengths = defaultdict[str, list[tuple[int, int]]](list)
    for request in replayed(chosen.recording, chosen.workload, settings):
        if place(request) in before:
            lengths[request.phase].append((before[place(request)], request.characters))
    table = Table("prompts", "calls", "recorded", "today", "ratio", box=None)
    worst = 0.0
    for phase, pairs in lengths.items():
        old, new = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
        worst = max(worst, new / old)
        table.add_row(phase, str(len(pairs)), f"{old:,.0f}", f"{new:,.0f}", f"{new / old:.2f}")
    Console().print(table)
    return int(not lengths or worst > WANTED)


if __name__ == "__main__":
    sys.exit(main())

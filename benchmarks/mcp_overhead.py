"""Measures how much longer an evaluation takes through the Model Context Protocol.

    python benchmarks/mcp_overhead.py [--pairs 40] [--workload gemmini:gemm-16x16x16]

Each kernel is the starting kernel of a Gemmini workload with another number of fences. It is
evaluated twice, in turn: by a call in this process, and by a client of `tilewright mcp` on standard
input and output. Each has its own project, so neither finds the other's result. The benchmark
prints the median difference in wall time, with its quartiles; it must be at most 20 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tilewright.core.config import Settings
from tilewright.core.tasks import open_task
from tilewright.tools.records import Refused
from tilewright.workbench import workbench

MOST_MS = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--workload", default="gemmini:gemm-16x16x16")
    options = parser.parse_args()
    start = open_task(options.workload, Settings().recorded()).task.start
    head, brace, body = start.partition("{")
    kernels = [f"{head}{brace}\n{'  fence();' * (n + 1)}{body}" for n in range(options.pairs + 1)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        settings = Settings(max_evaluations=len(kernels) + 1)
        opened = workbench(options.workload, settings, project=Path(folder) / "plain")
        bench = thread.submit(opened.__enter__).result()

        def plain(kernel: str) -> None:
            answer = thread.submit(bench.call, "evaluate", {"kernel": kernel}).result()
            assert not isinstance(answer, Refused), answer

        try:
            pairs = asyncio.run(timed(options.workload, Path(folder) / "mcp", kernels, plain))
        finally:
            thread.submit(opened.__exit__, None, None, None).result()
    differences = [1e3 * (served - called) for called, served in pairs[1:]]  # not the first pair
    low, middle, high = statistics.quantiles(differences, n=4)
    called_ms = 1e3 * statistics.median(called for called, _ in pairs[1:])
    print(
        f"{options.workload}: {called_ms:.1f} ms by a call, {middle:.1f} ms more through MCP "
        f"(quartiles {low:.1f} to {high:.1f} ms, {len(differences)} pairs; asked: {MOST_MS} ms)"
    )
    return middle > MOST_MS


async def timed(
    workload: str, project: Path, kernels: list[str], plain: Callable[[str], None]
) -> list[tuple[float, float]]:
    """Seconds of each kernel's evaluation: by a call, and by the server of a client."""
    tilewright = ["-c", "from tilewright.cli.main import main; main()"]
    options = ["--project", str(project), "--budget", f"{len(kernels) + 1} evaluations"]
    arguments = [*tilewright, "mcp", workload, *options]
    server = StdioServerParameters(command=sys.executable, args=arguments)
    found = []
    async with Client(stdio_client(server)) as client:
        for kernel in kernels:
            begun = perf_counter()
            plain(kernel)
            called = perf_counter()
            answer = await client.call_tool("evaluate", {"kernel": kernel})
            found.append((called - begun, perf_counter() - called))
            assert not answer.is_error, answer
    return found


if __name__ == "__main__":
    sys.exit(main())

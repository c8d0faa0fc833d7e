"""Measures the overhead of searches with a language model: evaluations per minute and CPU time.

A scripted model in another process answers every plan and every implementation immediately, with a
new, correct kernel. All remaining time is spent on building, checking and simulating kernels, and
in tilewright itself.

    uv run python benchmarks/llm_overhead.py
    uv run python benchmarks/llm_overhead.py --evaluations 200 gemmini:gemm-512x512x512
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tilewright.core.config import Settings
from tilewright.run import optimize
from tilewright.search.events import Event, IterationFinished, Stopped
from tilewright.testing.model_server import ModelServer

WANTED_PER_MINUTE = 60.0
WANTED_CPU_SHARE = 0.05
_CODE = re.compile(r"# The kernel [\w ]+\n\n```c\n(.*?)\n```", re.DOTALL)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def answer(prompt: str, key: str) -> str:
    """A plan, or the kernel with one more statement at its end: correct, new and hardly slower."""
    if "# Optimisations to choose from" in prompt:
        return f"OPTION: other\n\nEnd with another fence ({key})."
    source = _CODE.findall(prompt)[0].rstrip().removesuffix("}")
    return f"```c\n{source}  fence();\n  (void)0x{key};\n}}\n```"


def serve(connection: Connection) -> None:
    """Run the server until told to stop."""
    with ModelServer(answer=answer) as server:
        connection.send(server.url)
        connection.recv()


@contextmanager
def instant_model() -> Iterator[str]:
    """The address of a model in a process of its own."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there,))
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("stop")
        process.join()


def cpu_s() -> dict[str, float]:
    """CPU seconds so far of this process, its courier and its evaluating workers."""
    used = {"tool": time.process_time(), "courier": 0.0, "workers": 0.0}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text()
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            kind = "courier" if "llm.courier" in command else "workers"
            if "multiprocessing" not in command:
                used[kind] += sum(map(int, fields[11:15])) / _TICKS_PER_SECOND
    return used


def measure(workload: str, evaluations: int) -> dict[str, float]:
    """One search with an instant model, as a command makes it: imports count as well."""
    seen: list[dict[str, float]] = []  # after the first iteration, when all is imported; at the end

    def on_event(event: Event) -> None:
        if isinstance(event, Stopped) or (isinstance(event, IterationFinished) and not seen):
            seen.append(cpu_s())

    with instant_model() as url, tempfile.TemporaryDirectory() as project:
        settings = Settings(
            proposers=(f"openai/instant@{url}",),
            plans=12,
            iterations=1000,
            patience=1000,
            max_evaluations=evaluations,
        )
        started = time.monotonic()
        summary = optimize(workload, settings, project=Path(project), on_event=on_event)
        wall_s = time.monotonic() - started
    first, used = seen[0], seen[-1]
    own, first_own = (at["tool"] + at["courier"] for at in (used, first))
    return {
        "evaluations": summary.evaluations,
        "per_minute": 60 * summary.evaluations / wall_s,
        "workers_s": used["workers"],
        "own_s": own,
        "first_s": first_own,
        "courier_s": used["courier"],
        "first_workers_s": first["workers"],
    }


def in_new_process(workload: str, evaluations: int, cache: str) -> dict[str, float]:
    """`measure` in a process of its own that keeps its byte code, as installed packages do."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, __file__, workload, "--evaluations", str(evaluations), "--json"]
    environment["PYTHONPYCACHEPREFIX"] = cache
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", nargs="?", default="gemmini:gemm-512x512x512")
    parser.add_argument("--evaluations", type=int, default=300)
    parser.add_argument("--json", action="store_true", help="measure in this process")
    options = parser.parse_args()
    if options.json:
        print(json.dumps(measure(options.workload, options.evaluations)))
        return
    with tempfile.TemporaryDirectory() as cache:
        in_new_process(options.workload, 2, cache)
        got = in_new_process(options.workload, options.evaluations, cache)
    table = Table(title=f"Asking an instant model: {options.workload}, {os.cpu_count()} cores")
    for column in ("quantity", "measured", "wanted"):
        table.add_column(column, justify="left" if column == "quantity" else "right")
    later = (got["own_s"] - got["first_s"]) / (got["workers_s"] - got["first_workers_s"])
    per_minute, wanted_share = got["per_minute"], f"< {WANTED_CPU_SHARE:.0%}"
    table.add_row("evaluations", f"{got['evaluations']:.0f}", "")
    table.add_row("evaluations per minute", f"{per_minute:.0f}", f">= {WANTED_PER_MINUTE:.0f}")
    table.add_row("CPU of evaluation, s", f"{got['workers_s']:.1f}", "")
    table.add_row("CPU of the tool, s", f"{got['own_s']:.1f}", "")
    table.add_row("  of which until the first iteration's end", f"{got['first_s']:.1f}", "")
    table.add_row("  of which making calls", f"{got['courier_s']:.1f}", "")
    table.add_row("tool over evaluation", f"{got['own_s'] / got['workers_s']:.1%}", wanted_share)
    table.add_row("  after the first iteration", f"{later:.1%}", wanted_share)
    Console().print(table)


if __name__ == "__main__":
    main()

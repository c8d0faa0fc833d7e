"""Measures how fast the live page is with many trials, and how much it slows down a search.

    python benchmarks/live_page.py                 # 10,000 trials
    python benchmarks/live_page.py --trials 1000000 --pairs 0   # also the report of this run

Needs Chromium and Playwright. Prints, as measured on this machine:
- first paint and all sections of a run's page, from navigation: first visit, then the median;
- an update: from the commit of a trial in another process until the page has displayed it;
- the time to write the run's report and to open it, and its size;
- the CPU time of a search with an open page, relative to that of the same search alone.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.core.records import RunRecord, Trial
from tilewright.storage.project import open_project
from tilewright.testing.runs import history, run_record

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
WORKLOAD = "gemmini:gemm-64x64x64"
EVALUATIONS = 200
MADE = 10_000
"""Trials of a longer run that differ; the others are copies of them."""


@contextmanager
def server(project: Path) -> Iterator[str]:
    """The page of a project, by its address."""
    told = project / "address.json"
    command = [sys.executable, "-m", "tilewright.cli", "serve", "--project", str(project)]
    process = subprocess.Popen(
        [*command, "--port", "0", "--json", str(told)], stdout=subprocess.DEVNULL
    )
    try:
        while not told.exists():
            time.sleep(0.05)
        yield json.loads(told.read_text())["address"]
    finally:
        process.terminate()
        process.wait()
        told.unlink()


def paints(page: Any, address: str, times: int) -> dict[str, float]:
    """Milliseconds from navigation to the first paint, and until everything is there."""
    found: dict[str, list[float]] = {"first paint": [], "chart and table": [], "all sections": []}
    for _ in range(times):
        page.goto(address)
        page.wait_for_selector("#trials tr")
        page.wait_for_selector("#chart canvas")
        drawn = page.evaluate("performance.now()")
        page.wait_for_selector("#tree .node")
        complete = page.evaluate("performance.now()")
        first = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        for name, value in zip(found, (first, drawn, complete), strict=True):
            found[name].append(value)
    return {name: statistics.median(values) for name, values in found.items()}


def updates(page: Any, project: Path, run: str, trials: Sequence[Any]) -> list[float]:
    """Milliseconds from the commit of each trial until the page has drawn what is in sight."""
    found = []
    with closing(open_project(project)) as storage:
        for trial in trials:
            time.sleep(0.7)
            storage.append_trial(run, trial)
            committed = time.time()
            page.wait_for_function(
                "() => document.querySelector('[data-live=evaluations]').textContent === "
                f"'{trial.index + 1:,}'",
                polling=5,
            )
            painted = page.evaluate(
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame("
                "() => done(Date.now() / 1000))))"
            )
            found.append(1000 * (painted - committed))
    return found


@contextmanager
def search(project: Path, seed: int) -> Iterator[list[float]]:
    """A search in a process of its own; afterwards, its CPU seconds and those of its workers."""
    code = (
        "import sys; from pathlib import Path; from tilewright.core.config import Settings;"
        "from tilewright.run import optimize;"
        f"optimize({WORKLOAD!r}, Settings(max_evaluations={EVALUATIONS}, input_seed=1,"
        " seed=int(sys.argv[2])), project=Path(sys.argv[1]), workers=1)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen([sys.executable, "-c", code, str(project), str(seed)])
    cpu_s: list[float] = []
    yield cpu_s
    if process.wait():
        raise SystemExit("the search failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


@contextmanager
def browser_page() -> Iterator[Any]:
    """A page of a browser without a window."""
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=FLAGS)
        yield browser.new_page(viewport={"width": 1280, "height": 900})
        browser.close()


def alone(seed: int) -> float:
    """CPU seconds of a search that nobody watches."""
    with tempfile.TemporaryDirectory() as name:
        with search(Path(name), seed) as cpu_s:
            pass
        return cpu_s[0]


def watched(page: Any, seed: int) -> float:
    """CPU seconds of a search whose page is open from its first trial on."""
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        with closing(open_project(project, create=True)):
            pass
        with server(project) as address, search(project, seed) as cpu_s:
            page.goto(address)
            page.wait_for_selector("th a", timeout=120_000)
            page.click("th a")
            page.wait_for_selector("#trials tr", timeout=120_000)
        return cpu_s[0]


def store(project: Path, run: RunRecord, trials: Sequence[Trial], count: int) -> None:
    """Store a run of `count` trials: the given ones, then copies with names of their own."""
    with closing(open_project(project, create=True)) as storage:
        storage.create_run(run)
        for trial in trials[:count]:
            storage.append_trial(run.id, trial)
    first = len(trials)
    with closing(sqlite3.connect(next(project.rglob("tilewright.db")))) as database:
        query = database.execute('SELECT * FROM trials ORDER BY "index"')
        number, iteration, name = (
            [column[0] for column in query.description].index(wanted)
            for wanted in ("index", "iteration", "candidate_id")
        )
        known = query.fetchall()

        def copies() -> Iterator[list[Any]]:
            for index in range(first, count):
                row = list(known[1 + index % (first - 1)])
                row[number], row[iteration], row[name] = index, 1 + index // 60, f"{index:016x}"
                yield row

        places = ",".join("?" * len(known[0]))
        database.executemany(f"INSERT INTO trials VALUES ({places})", copies())
        database.commit()
        # As the searches that write so many leave it: their log is emptied all the time.
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def report(page: Any, project: Path, run: str) -> None:
    """Write the report of a run and open it."""
    file = project / "report.html"
    command = [sys.executable, "-m", "tilewright.cli", "report", run, "--project", str(project)]
    began = time.perf_counter()
    subprocess.run([*command, "-o", str(file)], check=True, stderr=subprocess.DEVNULL)
    wrote_s = time.perf_counter() - began
    page.goto(file.as_uri())
    page.wait_for_selector("#detail h3")
    opened = page.evaluate("performance.now()")
    size = file.stat().st_size / 1e6
    print(f"report: written in {wrote_s:.1f} s, {size:.1f} MB, opened in {opened:.0f} ms")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=3, help="searches alone and beside a page")
    asked = parser.parse_args()
    stored = min(asked.trials, MADE)
    trials = history(stored + asked.times, lines=60)
    run = run_record(status="running")
    with tempfile.TemporaryDirectory() as name:
        project = Path(name)
        store(project, run, trials[:stored], asked.trials)
        newer = [replace(t, index=asked.trials + i) for i, t in enumerate(trials[stored:])]
        with server(project) as address, browser_page() as page:
            page.goto(address)
            base = address.split("/?")[0]
            began = time.perf_counter()
            page.goto(f"{base}/runs/{run.id}")
            cold = page.evaluate(
                "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
            )
            page.wait_for_selector("#tree .node")
            cold_all = 1000 * (time.perf_counter() - began)
            print(
                f"{asked.trials} trials; first paint {cold:.0f} ms, all {cold_all:.0f} ms at first"
            )
            for what, value in paints(page, f"{base}/runs/{run.id}", asked.times).items():
                print(f"{what}: {value:.0f} ms (median of {asked.times})")
            page.wait_for_function("() => document.getElementById('link').textContent === 'live'")
            took = updates(page, project, run.id, newer)
            middle, worst = statistics.median(took), max(took)
            print(f"update, commit to paint: median {middle:.0f} ms, worst {worst:.0f} ms")
            report(page, project, run.id)
    if asked.pairs:
        ratios = []
        with browser_page() as page:
            for seed in range(asked.pairs):
                if seed % 2:
                    beside, by_itself = watched(page, seed), alone(seed)
                else:
                    by_itself, beside = alone(seed), watched(page, seed)
                ratios.append(beside / by_itself)
        middle = 100 * (statistics.median(ratios) - 1)
        print(
            f"search beside an open page: {middle:+.1f} % CPU time (median of {len(ratios)} pairs)"
        )


if __name__ == "__main__":
    main()

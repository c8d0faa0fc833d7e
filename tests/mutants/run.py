"""Runs the mutants of the list: ``python tests/mutants/run.py [--changed] [--only ID ...]``.

Each mutant is applied alone, to a private copy of the working tree, and the tests nearest to it run
there. At the end, the tests that noticed a mutant run without any change: one that fails there
shows nothing. The exit code is 1 if a mutant survived, its code is gone, a test fails without any
change, or the list is wrong about a mutant.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import itertools
import json
import os
import queue
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import venv
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
from listed import ROOT, CodeIsGone, Mutant, listed

GOOD = ("killed", "equivalent")
TIMEOUT_S = 600
NOTHING_COLLECTED = 5


class Tested(NamedTuple):
    """What became of some tests: whether all passed, those that failed, pytest's last line."""

    passed: bool
    failed: tuple[str, ...]
    said: str


class Judged(NamedTuple):
    """What became of a mutant, the reason, and the tests that noticed it."""

    result: str
    reason: str
    noticed_by: tuple[str, ...] = ()


class Copy:
    """A private copy of the working tree, with an interpreter that imports it."""

    # Python takes a cached module for the file's if the file's time fits, in whole seconds.
    _times = itertools.count(1_000_000_000)

    def __init__(self, folder: Path) -> None:
        self._root = root = folder / "tree"
        for name in _git("ls-files", "--cached", "--others", "--exclude-standard"):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        venv.EnvBuilder().create(root / ".venv")
        packages = Path(sysconfig.get_path("purelib"))
        # All of them are compiled; an editable installation leaves the others in the source tree.
        for built in filter(Path.is_file, (packages / "tilewright").rglob("*")):
            shutil.copy2(built, root / "src" / built.relative_to(packages))
        own = next((root / ".venv").rglob("site-packages"))
        (own / "copy.pth").write_text(f"{root / 'src'}\n{packages}\n")
        self._said, self._failed = folder / "said", folder / "failed"
        forks = Path(__file__).with_name("forks.py")
        self._forks = subprocess.Popen(
            [root / ".venv" / "bin" / "python", forks, self._said, self._failed],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # an answer that waits in a buffer would be waited for
        )

    def close(self) -> None:
        """End the process that runs the tests."""
        self._forks.communicate()

    def judge(self, mutant: Mutant) -> Judged:
        """What became of a mutant."""
        path = self._root / mutant.file
        text = path.read_text(encoding="utf-8")
        try:
            changed = mutant.applied_to(text)
        except CodeIsGone as gone:
            return Judged("code is gone", str(gone))
        self._write(path, changed)
        try:
            tested = self.run(["-x", *mutant.tests], mutant.rule, TIMEOUT_S)
        finally:
            self._write(path, text)
        equivalent = mutant.equivalent
        if tested.passed:
            return (
                Judged("equivalent", equivalent) if equivalent else Judged("survived", mutant.rule)
            )
        if equivalent:
            said = f"listed as equivalent, but noticed: {tested.said}"
            return Judged("not equivalent", said, tested.failed)
        return Judged("killed", tested.said, tested.failed or mutant.tests)

    def run(self, tests: Iterable[str], rule: str = "", timeout_s: float | None = None) -> Tested:
        """Run tests, those first whose names are like the rule, for a limited time."""
        asked, answers = self._forks.stdin, self._forks.stdout
        assert asked
        assert answers
        self._failed.unlink(missing_ok=True)
        arguments = ["-q", "-p", "no:cacheprovider", *tests]
        asked.write(json.dumps([arguments, rule]).encode() + b"\n")
        asked.flush()
        process = int(answers.readline())
        in_time, _, _ = select.select([answers], [], [], timeout_s)
        with suppress(ProcessLookupError):  # also ends what the tests left behind
            os.killpg(process, signal.SIGKILL)
        code = int(answers.readline())
        if not in_time:
            return Tested(False, (), f"timed out after {timeout_s} s")
        if code == NOTHING_COLLECTED:
            return Tested(True, (), "no test ran")
        failed = self._failed.read_text(encoding="utf-8") if self._failed.exists() else ""
        said = self._said.read_text(encoding="utf-8", errors="replace").splitlines()
        lines = [line for line in said if line.startswith(("FAILED ", "ERROR "))] or said
        return Tested(code == 0, tuple(failed.splitlines()), lines[-1] if lines else "nothing")

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        when = next(self._times)
        os.utime(path, (when, when))


class Results:
    """What became of each mutant, in a file that lets a later run continue a stopped one."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        known = path.read_text(encoding="utf-8").splitlines() if path and path.exists() else []
        self._known = {
            each["key"]: Judged(each["result"], each["reason"], tuple(each["noticed_by"]))
            for each in map(json.loads, known)
        }

    def of(self, mutant: Mutant) -> Judged | None:
        """The result of a mutant whose entry has not changed since; None if there is none."""
        return self._known.get(_key(mutant))

    def add(self, mutant: Mutant, judged: Judged, seconds: float) -> None:
        """Write down one result."""
        entry = {"id": mutant.id, "key": _key(mutant), "seconds": round(seconds, 1)}
        if self._path:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({**entry, **judged._asdict()}) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the chosen mutants and print one line for each, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changed", action="store_true", help="only of files changed against main")
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these")
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time")
    parser.add_argument(
        "--results", type=Path, metavar="FILE", help="results so far, which are not found again"
    )
    options = parser.parse_args(arguments)
    chosen = listed()
    if options.only:
        if unknown := set(options.only) - {mutant.id for mutant in chosen}:
            parser.error(f"no mutant is called {', '.join(sorted(unknown))}")
        chosen = tuple(mutant for mutant in chosen if mutant.id in options.only)
    if options.changed:
        base = _git("merge-base", "main", "HEAD")[0]
        new = _git("ls-files", "--others", "--exclude-standard")
        changed = {*_git("diff", "--name-only", base), *new}
        chosen = tuple(mutant for mutant in chosen if mutant.file in changed)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        jobs = max(1, min(options.jobs, len(chosen)))
        counts = _judge_all(chosen, Results(options.results), Path(folder), jobs)
    print(", ".join(f"{count} {result}" for result, count in counts.items()) or "no mutants")
    return 0 if set(counts) <= set(GOOD) else 1


def _judge_all(
    chosen: Sequence[Mutant], results: Results, folder: Path, jobs: int
) -> dict[str, int]:
    """Counts of results; each worker takes a free copy for one mutant at a time."""
    copies = [Copy(folder / str(index)) for index in range(jobs)]
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for copy in copies:
        free.put(copy)

    def judge(mutant: Mutant) -> Judged:
        if known := results.of(mutant):
            return known
        copy = free.get()
        start = time.monotonic()
        try:
            judged = copy.judge(mutant)
        finally:
            free.put(copy)
        results.add(mutant, judged, time.monotonic() - start)
        print(f"{judged.result:12}  {mutant.id:5}  {mutant.file}: {judged.reason}", flush=True)
        return judged

    with ThreadPoolExecutor(jobs) as pool:
        found = list(pool.map(judge, chosen))
    failing = _failing_unchanged(copies[0], found)
    for copy in copies:
        copy.close()
    return dict(
        collections.Counter(
            "shows nothing" if failing.intersection(each.noticed_by) else each.result
            for each in found
        )
    )


def _failing_unchanged(copy: Copy, found: Iterable[Judged]) -> set[str]:
    """Of the tests that noticed a mutant, those that fail without any change."""
    tests = sorted({test for each in found for test in each.noticed_by})
    if not tests:
        return set()
    tested = copy.run(tests)
    for test in tested.failed:
        print(f"shows nothing: {test} fails without any change", flush=True)
    if not tested.passed and not tested.failed:
        sys.exit(f"mutants: the tests that noticed a mutant did not run without it: {tested.said}")
    return set(tested.failed)


def _key(mutant: Mutant) -> str:
    """A short name of everything that an entry says."""
    return hashlib.sha256(repr(astuple(mutant)).encode()).hexdigest()[:16]


def _git(*arguments: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"mutants: `git {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())

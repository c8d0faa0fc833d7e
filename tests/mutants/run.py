"""Runs the mutants of the list: ``python tests/mutants/run.py [--changed] [--only ID ...]``.

Each mutant is applied alone, to a private copy of the working tree, and the tests nearest to it run
there. The exit code is 1 if a mutant survived, its code is gone, or the list is wrong about it.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import queue
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from listed import ROOT, CodeIsGone, Mutant, listed

GOOD = ("killed", "equivalent")
TIMEOUT_S = 600
NOTHING_COLLECTED = 5


class Copy:
    """A private copy of the working tree, with an interpreter that imports it."""

    # Python takes a cached module for the file's if the file's time fits, in whole seconds.
    _times = itertools.count(1_000_000_000)

    def __init__(self, root: Path) -> None:
        self._root = root
        for name in _git("ls-files", "--cached", "--others", "--exclude-standard"):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        venv.EnvBuilder().create(root / ".venv")
        packages = Path(sysconfig.get_path("purelib"))
        for extension in (packages / "tilewright").rglob("*.so"):
            shutil.copy2(extension, root / "src" / extension.relative_to(packages))
        own = next((root / ".venv").rglob("site-packages"))
        (own / "copy.pth").write_text(f"{root / 'src'}\n{packages}\n")

    def run(self, tests: Iterable[str]) -> tuple[bool, str]:
        """Whether every test passed, and what pytest said last."""
        python = self._root / ".venv" / "bin" / "python"
        command = [python, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        process = subprocess.Popen(
            command,
            cwd=self._root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False, f"timed out after {TIMEOUT_S} s"
        lines = [line for line in said.splitlines() if line.strip()]
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        if process.returncode == NOTHING_COLLECTED:
            return True, "no test ran"
        return process.returncode == 0, (failed or lines)[-1]

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """What became of a mutant, and the reason."""
        path = self._root / mutant.file
        text = path.read_text(encoding="utf-8")
        try:
            changed = mutant.applied_to(text)
        except CodeIsGone as gone:
            return "code is gone", str(gone)
        self._write(path, changed)
        try:
            passed, said = self.run(mutant.tests)
        finally:
            self._write(path, text)
        if mutant.equivalent:
            if passed:
                return "equivalent", mutant.equivalent
            return "not equivalent", f"listed as equivalent, but noticed: {said}"
        return ("survived", mutant.rule) if passed else ("killed", said)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        time = next(self._times)
        os.utime(path, (time, time))


def main(arguments: Sequence[str] | None = None) -> int:
    """Judge the chosen mutants and print one line for each, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changed", action="store_true", help="only of files changed against main")
    parser.add_argument("--only", nargs="+", metavar="ID", help="only these")
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time")
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
        counts = _judge_all(chosen, Path(folder), max(1, min(options.jobs, len(chosen))))
    print(", ".join(f"{count} {result}" for result, count in counts.items()) or "no mutants")
    return 0 if set(counts) <= set(GOOD) else 1


def _judge_all(chosen: Sequence[Mutant], folder: Path, jobs: int) -> dict[str, int]:
    """Counts of results; each worker takes a free copy for one mutant at a time."""
    free: queue.SimpleQueue[Copy] = queue.SimpleQueue()
    for index in range(jobs):
        free.put(Copy(folder / str(index)))

    def require_passing(test: str) -> None:
        copy = free.get()
        passed, said = copy.run([test])
        free.put(copy)
        if not passed:
            sys.exit(f"mutants: {test} fails without any change, so it shows nothing: {said}")

    def judge(mutant: Mutant) -> str:
        copy = free.get()
        try:
            result, reason = copy.judge(mutant)
        finally:
            free.put(copy)
        print(f"{result:12}  {mutant.id:5}  {mutant.file}: {reason}", flush=True)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        # Each by itself, since all of them together take longer than one mutant's tests may.
        list(pool.map(require_passing, sorted({t for mutant in chosen for t in mutant.tests})))
        return dict(collections.Counter(pool.map(judge, chosen)))


def _git(*arguments: str) -> list[str]:
    command = ["git", "-C", str(ROOT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"mutants: `git {' '.join(arguments)}` failed: {done.stderr.strip()}")
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())

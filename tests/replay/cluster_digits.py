"""The toy kernel as an installed target and proposer, so that workers of a cluster can evaluate it.

`write_entry_points(folder)` installs both for every process with `import_path(folder)` on its path;
there, `evaluated(folder)` are the sources of all kernels whose evaluation was begun.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.core.records import Artifact, Candidate, Check, Failed, Measured, Verdict
from tilewright.core.roles import NOTHING_CHECKED, Builder, Checker, Runner
from tilewright.testing.toy import ToyProposer, ToyTarget, ToyTask, toy_outcome

TAKES_S = 0.02
"""Duration of an evaluation. If evaluations took no time, faults would never interrupt one."""
OPTIMIZE = [
    *(sys.executable, "-m", "tilewright.cli", "optimize", "toy:digits", "--proposer", "toy"),
    *("--seed", "1", "--beam", "6", "--plans", "5", "--implementations", "3", "--dropout", "0"),
    *("--iterations", "9", "--patience", "9", "--stop-within", "0"),
]
"""The command of a search over about 460 kernels, without project and executor."""
SHORT = [*OPTIMIZE, "--iterations", "3"]
"""The same search, ended after about 150 kernels."""


_PACKAGE = "tilewright_digits-1.dist-info"


def evaluated(folder: Path) -> list[str]:
    log = folder / _PACKAGE / "evaluated"
    return log.read_text().splitlines() if log.exists() else []


def package(folders: Sequence[str] | None = None) -> Path:
    """The package in the first folder on the import path that has one."""
    found = (Path(folder) / _PACKAGE for folder in folders or sys.path)
    return next(path for path in found if path.is_dir())


class DigitsEvaluator:
    """Builder, Checker and Runner in one."""

    def build(self, candidate: Candidate) -> Artifact | Failed:
        return Artifact(candidate.id, candidate.source.encode(), "digits 1")

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        return self.check(artifact)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        if passed.checks:
            return passed
        with (package() / "evaluated").open("a") as log:  # one write: processes append in turns
            log.write(artifact.binary.decode().replace("\n", " ") + "\n")
        time.sleep(TAKES_S)
        found = toy_outcome(artifact.binary.decode())
        return found if isinstance(found, Failed) else Verdict((Check(0, "full range"),))

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        return toy_outcome(artifact.binary.decode(), limit_latency)


class DigitsTask(ToyTask):
    """The toy task, evaluated in processes like any other."""

    @property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        evaluator = DigitsEvaluator()
        return evaluator, evaluator, evaluator


class DigitsTarget(ToyTarget):
    """The toy target with that task."""

    def open(self, spec: str, settings: Mapping[str, object]) -> DigitsTask:
        return DigitsTask()


def create_target() -> DigitsTarget:
    return DigitsTarget()


def create_proposer(*_: object) -> ToyProposer:
    return ToyProposer()


def write_entry_points(folder: Path) -> None:
    write_package(folder, __name__)


def write_package(folder: Path, target: str) -> None:
    """Install the target of this module, and the toy proposer."""
    made = folder / _PACKAGE
    made.mkdir(parents=True)
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: tilewright-digits\nVersion: 1")
    (made / "entry_points.txt").write_text(
        f"[tilewright.targets]\ntoy = {target}:create_target\n"
        f"[tilewright.proposers]\ntoy = {__name__}:create_proposer\n"
    )


def import_path(folder: Path) -> str:
    known = os.environ.get("PYTHONPATH", "")
    return os.pathsep.join(filter(None, (str(folder), str(Path(__file__).parent), known)))

"""A target for tests of executors, whose kernels are scripts that say how their evaluation ends.

A script consists of lines `word value`. `latency 120` measures 120 cycles (the default is 100).
`fail STAGE KIND` fails in that stage. `sleep SECONDS`, `exit STATUS`, `signal NUMBER`, `raise TEXT`
and `user-error TEXT` act in the check stage, before anything is measured. `loop LINE` adds a loop
to the machine code that the task shows. The kernel of a folder task is `kernel.script`; its
reference is not used.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path

from tilewright.core.compiled_code import CodeLoop, CompiledCode
from tilewright.core.errors import WorkloadError
from tilewright.core.records import (
    Argument,
    Artifact,
    Candidate,
    Check,
    Failed,
    KernelLanguage,
    LatencyKind,
    Measured,
    TargetBrief,
    Verdict,
    Workload,
    content_id,
)
from tilewright.core.roles import NOTHING_CHECKED, Builder, Checker, Runner

NAME = "scripted"
LANGUAGE = KernelLanguage("script", "kernel.script", "text", "#", "text", str.strip)
LATENCY = LatencyKind("simulated", "cycles")


def create_target() -> ScriptedTarget:
    """The entry point."""
    return ScriptedTarget()


def write_entry_point(folder: Path) -> None:
    """Install the target for every process that has `folder` on its import path."""
    package = folder / "tilewright_scripted-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tilewright-scripted\nVersion: 1\n"
    )
    (package / "entry_points.txt").write_text(
        f"[tilewright.targets]\n{NAME} = {__name__}:create_target\n"
    )


def _script(artifact: Artifact) -> list[tuple[str, str]]:
    lines = artifact.binary.decode().splitlines()
    return [(word, value.strip()) for word, _, value in (line.partition(" ") for line in lines)]


class ScriptedEvaluator:
    """The builder, checker and runner in one object, which carries out the kernel's text."""

    def build(self, candidate: Candidate) -> Artifact | Failed:
        """The artifact is the text itself."""
        artifact = Artifact(candidate.id, candidate.source.encode(), "script 1")
        return self._failure(artifact, "build") or artifact

    def check_first(self, artifact: Artifact) -> Verdict | Failed:
        """The whole check; there is no faster first part."""
        return self.check(artifact)

    def check(self, artifact: Artifact, passed: Verdict = NOTHING_CHECKED) -> Verdict | Failed:
        """Carry out the lines that act in this stage, once."""
        if passed.checks:
            return passed
        for word, value in _script(artifact):
            if word == "sleep":
                time.sleep(float(value))
            elif word == "exit":
                os._exit(int(value))
            elif word == "signal":
                os.kill(os.getpid(), int(value))
            elif word == "raise":
                raise RuntimeError(value)
            elif word == "user-error":
                raise WorkloadError(value)
        return self._failure(artifact, "check") or Verdict((Check(1, "scripted"),))

    def measure(
        self, artifact: Artifact, verdict: Verdict, limit_latency: float | None
    ) -> Measured | Failed:
        """The script's latency, stopped at the limit."""
        failure = self._failure(artifact, "measure")
        if failure is not None:
            return failure
        latency = float(dict(_script(artifact)).get("latency", "100"))
        if limit_latency is not None and latency >= limit_latency:
            return Failed("measure", "slower_than_limit", "too slow", bound=limit_latency)
        return Measured(
            latency,
            str(dict(_script(artifact)).get("unit", LATENCY.unit)),
            LATENCY.quantity,
            0.5,
            verdict,
            artifact_digest=artifact.digest,
        )

    def _failure(self, artifact: Artifact, stage: str) -> Failed | None:
        for word, value in _script(artifact):
            failing, _, kind = value.partition(" ")
            if word == "fail" and failing == stage:
                return Failed(stage, kind, f"scripted {kind}", line=1)  # type: ignore[arg-type]
        return None


class ScriptedTask:
    """The only task. Its `settings` are part of its fingerprint."""

    def __init__(self, settings: Mapping[str, object]) -> None:
        self.workload = Workload(
            f"{NAME}:any", NAME, (Argument("C", (4,), "int8", "output"),), 100, source="any"
        )
        self.start = "latency 100\n"
        self.baselines = {"naive": self.start, "library": "latency 80\n"}
        self.fingerprint = content_id(repr(sorted(settings.items())))

    def code(self, source: str) -> CompiledCode | Failed:
        """A loop for each line that requests one."""
        built = ScriptedEvaluator().build(Candidate(source))
        if isinstance(built, Failed):
            return built
        lines = [int(value) for word, value in _script(built) if word == "loop"]
        loops = tuple(
            CodeLoop(n, line, 1, None, True, True, 4, {"arithmetic": 1})
            for n, line in enumerate(lines, 1)
        )
        notes = tuple(f"compiled loop at line {line}: scalar" for line in lines)
        return CompiledCode(NAME, 4 * len(loops), len(loops), loops, notes)

    @property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """The same object in all three roles."""
        evaluator = ScriptedEvaluator()
        return evaluator, evaluator, evaluator


class ScriptedTarget:
    """A target whose kernels are scripts."""

    name = NAME

    def brief(self) -> TargetBrief:
        """A brief without any content."""
        return TargetBrief(NAME, "", "", (), (), {}, {}, LANGUAGE, LATENCY)

    def workloads(self) -> Mapping[str, str]:
        """The name of the only workload."""
        return {"any": "does what the kernel says"}

    def open(self, spec: str, settings: Mapping[str, object]) -> ScriptedTask:
        """The task. Opening `missing` raises a user error."""
        if spec == "missing":
            raise WorkloadError("workload 'missing' does not exist.")
        return ScriptedTask(settings)

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> ScriptedTask:
        """The same task for any folder."""
        return ScriptedTask(settings)

    def versions(self) -> Mapping[str, str]:
        """The only version."""
        return {"scripted": "1"}

    def doctor(self) -> list[tuple[str, bool | None, str]]:
        """Nothing needs to be installed."""
        return []

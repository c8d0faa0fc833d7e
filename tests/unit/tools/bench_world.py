"""A bench in memory: kernels are lines of C-like text, and a table says what becomes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilewright.core.compiled_code import CompiledCode
from tilewright.core.errors import InputError
from tilewright.core.records import (
    Candidate,
    Check,
    Failed,
    LatencyKind,
    Measured,
    Outcome,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
)
from tilewright.parts.languages import C
from tilewright.tools.records import Fact

START = "void kernel(void) {\n  copy();\n  fence();\n}\n"
FASTER = START.replace("  fence();\n", "")
WRONG = START.replace("copy", "wrong")
BROKEN = START.replace("copy()", "copy(")

WORKLOAD = Workload("toyaccel:y", "toyaccel", (), 1)
TARGET = TargetBrief(
    name="toyaccel",
    isa="",
    rules="- End with a fence.",
    menu=(),
    commands=(),
    limits={"rows": 64},
    constants={"DIM": 16},
    language=C,
    latency=LatencyKind("simulated", "cycles"),
    costs="- A copy takes 3 cycles.",
)


def measured(latency: float, **causes: float) -> Measured:
    return Measured(
        latency,
        "cycles",
        "simulated",
        0.25,
        Verdict((Check(1, "full range"),)),
        breakdown=causes,
        details={"instructions": 12.0},
        feedback="The copy waits.",
        bound=500.0,
        by_line={"2": {"copy": latency - 1}, "3": {"fence": 1.0}},
    )


def outcome_of(source: str) -> Outcome:
    if "wrong" in source:
        return Failed("check", "wrong_result", "y[0]: got 0, expected 7", line=2)
    if "(;" in source:
        return Failed("build", "compile_error", "kernel.c:2:8: error: expected ')'", line=2)
    fences = source.count("fence")
    return measured(800.0 + 200.0 * fences, copy=700.0, fence=200.0 * fences)


@dataclass
class ToyBench:
    """The `Bench` role; `left` evaluations may be spent."""

    left: int | None = 5
    target: TargetBrief = TARGET
    workload: Workload = WORKLOAD
    versions: Sequence[Fact] = (Fact("compiler", "13.2", "this machine"),)
    built: list[str] = field(default_factory=list)
    drafts: dict[str, str] = field(default_factory=dict)
    shows: CompiledCode | None = None
    trials: list[Trial] = field(
        default_factory=lambda: [Trial(0, 0, Candidate(START), outcome_of(START))]
    )

    @property
    def start(self) -> Trial:
        return self.trials[0]

    parent = start

    @property
    def best(self) -> Trial | None:
        timed = [t for t in self.trials if t.latency is not None]
        return min(timed, key=lambda t: t.latency or 0.0)

    def find(self, candidate_id: str) -> Trial | None:
        found = [t for t in self.trials if t.candidate.id.startswith(candidate_id)]
        return found[0] if len(found) == 1 else None

    def children(self, candidate_id: str) -> Sequence[Trial]:
        return [t for t in self.trials if t.candidate.parent_id == candidate_id]

    def check(self, source: str) -> Failed | None:
        self.built.append(source)
        found = outcome_of(source)
        return found if isinstance(found, Failed) and found.stage == "build" else None

    def code(self, source: str) -> CompiledCode | Failed | None:
        return None if self.shows is None else self.check(source) or self.shows

    def evaluate(self, source: str, parent_id: str, note: str) -> tuple[Trial, bool]:
        for trial in self.trials:
            if trial.candidate.source == source:
                return trial, True
        if self.left == 0:
            raise InputError("no evaluations are left: begin a run with a larger budget.")
        self.left = None if self.left is None else self.left - 1
        plan = Plan(parent_id, "own", note, "caller")
        candidate = Candidate(source, parent_id, plan, "caller")
        self.trials.append(Trial(len(self.trials), 1, candidate, outcome_of(source)))
        return self.trials[-1], False

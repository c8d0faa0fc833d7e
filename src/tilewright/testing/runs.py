"""Artificial runs for tests of reports, with any number of trials and all kinds of outcomes."""

from __future__ import annotations

import random

from tilewright.core.config import Settings
from tilewright.core.records import (
    Candidate,
    Check,
    Failed,
    History,
    Measured,
    Outcome,
    Plan,
    RunRecord,
    Trial,
    Verdict,
)

OPTIONS = (
    ("keep-resident", "Keep B in the scratchpad: load its 4 column blocks once before loop i."),
    (
        "double-buffer",
        "Use two halves of the accumulator in turn, so that the stores of one tile "
        "overlap the products of the next.",
    ),
    ("widen-moves", "Merge the four 16-column moves of A in loop k into one of 64 columns."),
    ("spread-banks", "Place A in bank 0 and B in bank 2, so that their rows never collide."),
    ("unroll", "Unroll loop jj by 4."),
)
CAUSES = ("array_busy", "dma_wait", "bank_conflict", "cpu", "fence")


def source(size: int, version: int) -> str:
    """C text that resembles a kernel with `size` loop lines and differs in a few places per
    version."""
    chosen = random.Random(version)
    body = [f"    mvin(&A[i + {n}][k], SPAD({n * 16}), 64, 16);  // tile {n}" for n in range(size)]
    for _ in range(3):
        body[chosen.randrange(size)] = f"    mvin2(&B[k][{version}], SPAD({version}), 64, 16);"
    return "\n".join(["void kernel(void) {", *body, "  fence();", "}"]) + "\n"


def run_record(**changes: object) -> RunRecord:
    """A finished run of the demo workload."""
    values: dict[str, object] = {
        "id": "3fa94c10",
        "task": "gemmini:gemm-12544x64x256",
        "target": "gemmini",
        "settings": Settings(seed=3, beam=4, max_wall_s=90.0).recorded(),
        "versions": {"tilewright": "0.1.0", "compiler": "gcc 12.2.0", "simulator": "1 (9f3a)"},
        "created_at": "2026-11-21T02:40:00+00:00",
        "status": "finished",
        "stop_reason": "the budget of 90 s is spent",
        "wall_s": 90.4,
        **changes,
    }
    return RunRecord(**values)  # type: ignore[arg-type]


def measured(latency: float) -> Measured:
    """A measurement of a correct kernel with this many simulated cycles."""
    verdict = Verdict((Check(1, "small"), Check(2, "full range"), Check(3, "sparse")))
    shares = (0.3, 0.35, 0.15, 0.12, 0.08)
    return Measured(
        latency=latency,
        unit="cycles",
        quantity="simulated",
        utilization=min(1.0, 802816 / latency),
        verdict=verdict,
        breakdown={c: round(latency * s) for c, s in zip(CAUSES, shares, strict=True)},
        details={"instructions": round(latency * 0.6), "scratchpad_kb": 96.0},
        versions={"binary": "5d0a1c"},
    )


def history(count: int, *, per_iteration: int = 60, lines: int = 60, seed: int = 0) -> History:
    """A history of `count` trials: a starting kernel, and iterations whose parents are random fast
    kernels."""
    chance = random.Random(seed)
    trials = [Trial(0, 0, Candidate(source(lines, 0)), measured(2_900_000.0), 1.2)]
    for index in range(1, count):
        iteration = 1 + (index - 1) // per_iteration
        good = sorted(
            (t for t in trials if t.latency and t.iteration < iteration),
            key=lambda t: t.latency or 0,
        )[:4]
        parent = chance.choice(good)
        option, text = chance.choice(OPTIONS)
        plan = Plan(parent.candidate.id, option, text, "builtin", expected="DMA wait by a third")
        candidate = Candidate(source(lines, index), parent.candidate.id, plan, "builtin")
        trials.append(
            Trial(index, iteration, candidate, _outcome(parent, chance), 0.8, index % 9 == 0)
        )
    return History(trials)


def _outcome(parent: Trial, chance: random.Random) -> Outcome:
    draw = chance.random()
    latency = parent.latency or 1.0
    if draw < 0.12:
        return Failed("check", "wrong_result", "C[3][17]: got -4, expected 12 (input seed 7)", 12)
    if draw < 0.5:
        return Failed("measure", "slower_than_limit", "stopped at the limit", bound=latency)
    return measured(max(810_000.0, latency * chance.uniform(0.86, 1.15)))

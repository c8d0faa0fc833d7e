"""A small target, proposer and executor in memory, for tests of search, storage and runs.

A toy kernel is a list of digits such as ``toy 9 9 9 9``. The lower its digits, the lower its
latency; a digit below zero computes a wrong result. Target, proposer and executor are
deterministic.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from types import MappingProxyType

from tilewright.core.records import (
    Argument,
    Brief,
    Candidate,
    Check,
    EvaluationRequest,
    Failed,
    History,
    KernelLanguage,
    LatencyKind,
    Measured,
    MenuOption,
    Outcome,
    Plan,
    TargetBrief,
    Trial,
    Verdict,
    Workload,
    content_id,
)
from tilewright.core.roles import Builder, Checker, Checkpoint, More, OnOutcome, Runner

DIGITS = 5
START = "toy " + " ".join("9" * DIGITS)


def digits_of(source: str) -> list[int]:
    """The digits of a toy kernel, without its `#` comments."""
    return [int(d) for d in re.findall(r"-?\d+", re.sub(r"#.*", "", source))]


def normal_form(source: str) -> str:
    """The digits without comments."""
    return repr(digits_of(source))


LANGUAGE = KernelLanguage("toy", "kernel.toy", "toy", "#", "text", normal_form, entry="toy")
LATENCY = LatencyKind("simulated", "cycles")


def toy_outcome(source: str, limit_latency: float | None = None) -> Outcome:
    """The outcome of evaluating a toy kernel."""
    digits = digits_of(source)
    if min(digits) < 0:
        return Failed("check", "wrong_result", "a digit is below zero", line=1)
    latency = 100.0 + sum((i + 1) * d for i, d in enumerate(digits))
    if limit_latency is not None and latency >= limit_latency:
        return Failed("measure", "slower_than_limit", "too slow", bound=limit_latency)
    return Measured(
        latency=latency,
        unit=LATENCY.unit,
        quantity=LATENCY.quantity,
        utilization=100.0 / latency,
        verdict=Verdict((Check(0, "full range"),)),
        artifact_digest=content_id(repr(digits)),
    )


class ToyTask:
    """The one toy workload."""

    workload = Workload("toy:digits", "toy", (Argument("x", (DIGITS,), "int8", "output"),), 100)
    start = START
    baselines: Mapping[str, str] = MappingProxyType({})
    fingerprint = "toy"

    @property
    def evaluator(self) -> tuple[Builder, Checker, Runner]:
        """Not used: toy kernels are evaluated only by `ToyExecutor`."""
        raise NotImplementedError


class ToyTarget:
    """The `Target` role with one workload, "toy:digits"."""

    name = "toy"

    def brief(self) -> TargetBrief:
        """One menu option per digit."""
        menu = tuple(MenuOption(f"lower-{i}", f"lower digit {i}") for i in range(DIGITS))
        return TargetBrief("toy", "", "", menu, (), {}, {}, LANGUAGE, LATENCY)

    def workloads(self) -> Mapping[str, str]:
        """The workload's name."""
        return {"digits": "five digits, all nine"}

    def open(self, spec: str, settings: Mapping[str, object]) -> ToyTask:
        """The toy task, whatever `spec` says."""
        return ToyTask()

    def open_folder(self, folder: Path, settings: Mapping[str, object]) -> ToyTask:
        """The toy task, whatever the folder holds."""
        return ToyTask()

    def versions(self) -> Mapping[str, str]:
        """The toy's version."""
        return {"toy": "1"}

    def doctor(self) -> list[tuple[str, bool | None, str]]:
        """Nothing needs to be installed."""
        return []


class ToyProposer:
    """The `Proposer` role: lowers one digit by a random amount, at times below zero."""

    name = "toy"

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """One plan per option drawn."""
        offered = brief.offered()
        options = random.Random(seed).sample(offered, min(count, len(offered)))
        return [Plan(parent.candidate.id, o.id, o.text, self.name) for o in options]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Lower the plan's digit by 1 to 3."""
        rng = random.Random(seed)
        position = int(plan.option.rpartition("-")[2])
        found = []
        for _ in range(count):
            digits = digits_of(parent.candidate.source)
            digits[position] -= rng.randint(1, 3)
            source = f"toy {' '.join(map(str, digits))}  # variant {rng.randint(0, 9)}"
            found.append(Candidate(source, parent.candidate.id, plan, self.name))
        return found

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The digits alone."""
        return target.language.normal_form(source)


def whole_batch(
    requests: Sequence[EvaluationRequest], more: More | None
) -> list[EvaluationRequest]:
    """The requests and all that `more` adds, for executors that first collect the batch."""
    found = list(requests)
    while more is not None and (part := more()) is not None:
        found += part
    return found


class ToyExecutor:
    """The `Executor` role: sleeps briefly for each kernel, so that the order of results varies.

    `on_evaluated` is called with the source of every kernel that is evaluated, not for cached ones.
    """

    def __init__(
        self,
        *,
        delay_s: float = 0.0,
        workers: int = 2,
        lookup: Callable[[str], Outcome | None] = lambda key: None,
        store: Callable[[str, Outcome], None] = lambda key, outcome: None,
        on_evaluated: Callable[[str], None] = lambda source: None,
    ) -> None:
        self._delay_s = delay_s
        self._workers = workers
        self._lookup = lookup
        self._store = store
        self._on_evaluated = on_evaluated

    def evaluate(
        self,
        requests: Sequence[EvaluationRequest],
        on_outcome: OnOutcome | None = None,
        more: More | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> list[Outcome]:
        """Outcomes in the order of the requests; those that `more` adds come last."""
        outcomes: dict[int, Outcome] = {}
        futures: dict[Future[tuple[Outcome, float, bool]], int] = {}
        part: Sequence[EvaluationRequest] | None = requests
        pool = ThreadPoolExecutor(self._workers)
        try:
            while part is not None or len(outcomes) < len(futures):
                if checkpoint is not None:
                    checkpoint()
                for request in part or ():
                    futures[pool.submit(self._one, request)] = len(futures)
                unheard = [future for future, i in futures.items() if i not in outcomes]
                for future in wait(unheard, 0.0 if more else None, FIRST_COMPLETED).done:
                    outcome, wall_s, cached = future.result()
                    outcomes[futures[future]] = outcome
                    if on_outcome is not None:
                        on_outcome(futures[future], outcome, wall_s, cached)
                part = more() if more is not None else None
                if part is None:
                    more = None
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return [outcomes[i] for i in range(len(futures))]

    def close(self) -> None:
        """There is nothing to close, because each call of `evaluate` ends its own threads."""

    def _one(self, request: EvaluationRequest) -> tuple[Outcome, float, bool]:
        started = time.monotonic()
        key = f"toy-{request.candidate.id}"
        found = self._lookup(key)
        if found is not None and _covers(found, request.limit_latency):
            return found, 0.0, True
        time.sleep(self._delay_s * random.random() * 2)
        outcome = toy_outcome(request.candidate.source, request.limit_latency)
        self._store(key, outcome)
        self._on_evaluated(request.candidate.source)
        return outcome, time.monotonic() - started, False


def _covers(outcome: Outcome, limit_latency: float | None) -> bool:
    """Whether a cached outcome answers the request: a lower bound must reach the limit."""
    if not isinstance(outcome, Failed) or outcome.bound is None:
        return True
    return limit_latency is not None and outcome.bound >= limit_latency

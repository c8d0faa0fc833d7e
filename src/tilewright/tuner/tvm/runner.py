"""Measures built candidates in another process; a crash or a hang is an answer, never an end."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tilewright.core.errors import InternalError
from tilewright.timing import exclusive
from tilewright.tuner.tvm.answering import AnsweringProcess, LateAnswerError, NoAnswerError

FailureKind = Literal["rejected", "build", "run", "wrong", "crashed", "timeout"]
_THREADS = ("TVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class Measurement:
    """What became of one candidate: seconds per call, or why there are none.

    `samples` are mean seconds of runs of `calls` calls each. One sample of one call means that the
    candidate was so slow that it was not repeated.
    """

    samples: tuple[float, ...] = ()
    calls: int = 0
    failure: FailureKind | None = None
    log: str = ""

    @property
    def seconds(self) -> float | None:
        """The median sample, None for a failure."""
        return float(np.median(self.samples)) if self.failure is None else None


@dataclass(frozen=True)
class MeasuringRules:
    """How a candidate is timed during a search.

    After one warm-up call, whose output is checked, `repeats` samples of at least `sample_s`
    seconds each. A candidate whose first call takes more than `slow_ratio` times the best known is
    not repeated. One whose first call, on a CPU, has not returned after `hopeless_ratio` times the
    best known, and after `hopeless_s`, is ended (both of CPU time on each thread). So is any
    after `timeout_s`; waiting for the device does not count.
    """

    repeats: int = 3
    sample_s: float = 0.03
    slow_ratio: float = 3.0
    hopeless_ratio: float = 10.0
    hopeless_s: float = 0.3
    timeout_s: float = 20.0


@dataclass(frozen=True)
class Task:
    """Files with a function's arguments and what its output must be; see `oracle`."""

    inputs: tuple[Path, ...]
    output: int
    expected: Path
    bound: float


@dataclass(frozen=True)
class Rounds:
    """Samples of interleaved rounds: seconds, by the candidate's position.

    A candidate is either in `samples` or in `failures`. `reference` is None without a library that
    gives the task's result.
    """

    samples: dict[int, tuple[float, ...]]
    reference: tuple[float, ...] | None = None
    failures: dict[int, Measurement] = field(default_factory=dict)


class Runner:
    """One measuring process for one task, started when needed and again after it was lost."""

    def __init__(self, task: Task, device: str, threads: int, rules: MeasuringRules) -> None:
        """`device` is TVM's name for it, "cpu" or "cuda"."""
        self._device, self._threads, self.rules = device, threads, rules
        environment = {
            # The runtime alone starts in a third of the time, and compiles nothing.
            "TVM_USE_RUNTIME_LIB": "1",
            **dict.fromkeys(_THREADS, str(threads)),
        }
        opening = {
            "kind": "open",
            "device": device,
            "inputs": [str(path) for path in task.inputs],
            "output": task.output,
            "expected": str(task.expected),
            "bound": task.bound,
        }
        module = "tilewright.tuner.tvm.measure_process"
        self._process = AnsweringProcess(module, environment, opening)

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def measure(self, library: Path, best_s: float | None) -> Measurement:
        """Check and time one candidate; `best_s` is the best time known, if any."""
        rules, best = self.rules, float("inf") if best_s is None else best_s
        hopeless = max(rules.hopeless_ratio * best, rules.hopeless_s)
        answer = self._ask(
            {
                "kind": "measure",
                "library": str(library),
                "repeats": rules.repeats,
                "sample_s": rules.sample_s,
                "slow_s": min(rules.slow_ratio * best, 1e9),
                # Beyond the time-out there is nothing to end.
                "hopeless_cpu_s": hopeless * self._threads if hopeless < rules.timeout_s else None,
            },
            rules.timeout_s,
        )
        if answer.get("failure") == "run" and self._device != "cpu":
            # An illegal access spoils the CUDA context: all that follow would fail in it.
            self.close()
        if "failure" in answer:
            return Measurement(failure=answer["failure"], log=answer["log"])
        return Measurement(tuple(answer["samples"]), int(answer["calls"]))

    def interleave(
        self,
        libraries: Sequence[Path],
        rounds: int,
        seed: int,
        reference: str | None = None,
        slowest_s: float = 0.0,
    ) -> Rounds:
        """Samples of each candidate and of the reference from interleaved rounds.

        A separate process measures them, with new arguments. `slowest_s`, the longest of the
        candidates' times, gives slow ones the time that their rounds need. One that fails is left
        out, and the rounds begin again with the others: all samples are of the same rounds.
        """
        failures: dict[int, Measurement] = {}
        while left := [n for n in range(len(libraries)) if n not in failures]:
            paths = [libraries[n] for n in left]
            answer, at = self._rounds(paths, rounds, seed, reference, slowest_s)
            if "failure" not in answer:
                samples = [tuple(found) for found in answer["samples"]]
                own = dict(zip(left, samples, strict=False))
                return Rounds(own, samples[-1] if len(samples) > len(left) else None, failures)
            if at is None or (at >= len(left) and reference is None):
                raise InternalError(
                    "the measuring process fails for a reason other than the kernel: "
                    f"{answer['log']}."
                )
            if at < len(left):
                failures[left[at]] = Measurement(failure=answer["failure"], log=answer["log"])
            else:
                reference = None
        return Rounds({}, None, failures)

    def _rounds(
        self,
        libraries: Sequence[Path],
        rounds: int,
        seed: int,
        reference: str | None,
        slowest_s: float,
    ) -> tuple[dict[str, Any], int | None]:
        """The answer of one fresh process, and the position of the last contender it turned to."""
        self.close()
        count = len(libraries) + (reference is not None)
        # A sample may take twice as long as it was to last, and a call goes before it.
        rounds_s = 3 * rounds * count * max(self.rules.sample_s, slowest_s)
        with tempfile.NamedTemporaryFile(prefix="tilewright-at-") as at:
            answer = self._ask(
                {
                    "kind": "interleave",
                    "libraries": [str(path) for path in libraries],
                    "reference": reference,
                    "rounds": rounds,
                    "seed": seed,
                    "sample_s": self.rules.sample_s,
                    "at": at.name,
                },
                self.rules.timeout_s * count + rounds_s,
            )
            reached = Path(at.name).read_text(encoding="ascii").strip()
        return answer, int(reached) if reached else None

    def close(self) -> None:
        """End the process and all it started. Idempotent."""
        self._process.close()

    def _ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        self._process.start()
        try:
            with exclusive(self._device):
                return self._process.ask(request, timeout_s)
        except NoAnswerError:
            return {"failure": "crashed", "log": "the measuring process ended"}
        except LateAnswerError:
            return {"failure": "timeout", "log": f"no result within {timeout_s:g} s"}

"""Measures compiled candidates in another process, so that a crash or a hang is only a failed
measurement."""

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
    """The result of one candidate: seconds per call, or the reason why there is none.

    `samples` are mean seconds of `calls` consecutive calls. If there is one sample of one call, the
    candidate was so slow that it was not measured again.
    """

    samples: tuple[float, ...] = ()
    calls: int = 0
    failure: FailureKind | None = None
    log: str = ""

    @property
    def seconds(self) -> float | None:
        """The median sample; None for a failure."""
        return float(np.median(self.samples)) if self.failure is None else None


@dataclass(frozen=True)
class MeasuringRules:
    """The rules by which a candidate is timed during a search.

    After one warm-up call, whose output is checked, `repeats` samples of at least `sample_s`
    seconds are taken. If the first call takes more than `slow_ratio` times the best known time, it
    is the only sample. On a CPU, a candidate is ended if its first call takes more than
    `hopeless_ratio` times the best known time and more than `hopeless_s` (both in CPU time of each
    thread). Every candidate is ended after `timeout_s`, which does not include waiting for the
    device.
    """

    repeats: int = 3
    sample_s: float = 0.03
    slow_ratio: float = 3.0
    hopeless_ratio: float = 10.0
    hopeless_s: float = 0.3
    timeout_s: float = 20.0


@dataclass(frozen=True)
class Task:
    """Files with a function's arguments and expected output; see `oracle`."""

    inputs: tuple[Path, ...]
    output: int
    expected: Path
    bound: float


@dataclass(frozen=True)
class Rounds:
    """The samples of interleaved rounds in seconds, by the candidate's position.

    Each candidate is either in `samples` or in `failures`. `reference` is None if no library gives
    the task's result.
    """

    samples: dict[int, tuple[float, ...]]
    reference: tuple[float, ...] | None = None
    failures: dict[int, Measurement] = field(default_factory=dict)


class Runner:
    """One measuring process for one task, which is started when needed and again after it was
    lost."""

    def __init__(self, task: Task, device: str, threads: int, rules: MeasuringRules) -> None:
        """`device` is TVM's name of the device, "cpu" or "cuda"."""
        self._device, self._threads, self.rules = device, threads, rules
        environment = {
            # Loading only the runtime takes a third of the time, and nothing is compiled.
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
        """Check and time one candidate; `best_s` is the best time known so far, if any."""
        rules, best = self.rules, float("inf") if best_s is None else best_s
        hopeless = max(rules.hopeless_ratio * best, rules.hopeless_s)
        answer = self._ask(
            {
                "kind": "measure",
                "library": str(library),
                "repeats": rules.repeats,
                "sample_s": rules.sample_s,
                "slow_s": min(rules.slow_ratio * best, 1e9),
                # A limit above the time-out is not needed.
                "hopeless_cpu_s": hopeless * self._threads if hopeless < rules.timeout_s else None,
            },
            rules.timeout_s,
        )
        if answer.get("failure") == "run" and self._device != "cpu":
            # After an illegal access, all further calls in the CUDA context would fail.
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
        """Samples of each candidate and of the reference in interleaved rounds.

        They are measured by a separate process with new arguments. `slowest_s`, the longest of the
        candidates' times, sets the time limit so that slow candidates can finish their rounds. A
        candidate that fails is left out, and the rounds start again with the others, so that all
        samples come from the same rounds.
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
        """The answer of one new process, and the position of the last contender that ran."""
        self.close()
        count = len(libraries) + (reference is not None)
        # A sample may take twice as long as planned, and there is one call before it.
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
        """End the process and its children. May be called more than once."""
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

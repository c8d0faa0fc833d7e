"""The builder and the runner for the candidates of one workload."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from tilewright.tuner.tvm.builder import Builder, open_builder
from tilewright.tuner.tvm.programs import Program
from tilewright.tuner.tvm.runner import MeasuringRules, Runner
from tilewright.tuner.tvm.targets import TuningTarget
from tilewright.tuner.tvm.task_files import task_files


@dataclass(frozen=True)
class Instruments:
    """One runner for all searches, and one builder for each search; `kind` is the kind of the
    measured times.
    """

    runner: Runner
    new_builder: Callable[[], Builder]
    kind: str = "measured"


OpenInstruments = Callable[
    [Program, TuningTarget, int, MeasuringRules], AbstractContextManager[Instruments]
]


@contextmanager
def real_instruments(
    program: Program, target: TuningTarget, seed: int, rules: MeasuringRules
) -> Iterator[Instruments]:
    """Compilers, and a process that measures on the target's device with arguments from `seed`."""
    with (
        task_files(program, seed) as task,
        Runner(task, target.device_kind, target.threads, rules) as runner,
    ):
        yield Instruments(runner, lambda: open_builder(target))

"""What is found out about a task while its search already runs.

Where latencies are modelled without data, a search needs none to begin: its starting kernel is
compared with the reference, and the check is attacked, beside it. No result of such a run is
reported before both are over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event, Thread

from tilewright.core.records import (
    Baseline,
    Candidate,
    EvaluationRequest,
    Failed,
    Outcome,
    Trial,
)
from tilewright.core.roles import Checkpoint, Executor, ModelsLatency, Storage
from tilewright.core.tasks import OpenTask
from tilewright.evaluation.building import Builds
from tilewright.executors import create_executor, evaluate_baselines
from tilewright.verification import start_error


class _CancelledError(Exception):
    """Ends an examination that nobody waits for."""


class Examination:
    """Compares the start and the baselines of a run, then attacks its check, on a thread.

    Args:
        require: examines the task itself; raises what speaks against it.
    """

    def __init__(self, opened: OpenTask, require: Callable[[Checkpoint], None]) -> None:
        self._opened = opened
        self._require = require
        self._cancelled = Event()
        self._thread: Thread | None = None
        self._raised: Exception | None = None
        self.start: Trial | None = None
        """The starting kernel once it has been compared."""
        self.baselines: tuple[Baseline, ...] | None = None
        """What a result is compared with, once it is evaluated."""

    @staticmethod
    def is_of(opened: OpenTask) -> bool:
        """Whether a search of this task can begin before its start has been compared."""
        return isinstance(opened.task, ModelsLatency)

    def begin(self, settings: Mapping[str, object], storage: Storage) -> None:
        """Start the thread; evaluates with the same settings as the run does."""
        # Evaluating processes die with the thread that starts them. It does not keep an
        # interrupted run from ending.
        self._thread = Thread(target=self._work, args=(settings, storage), daemon=True)
        self._thread.start()

    def modelled_start(self, settings: Mapping[str, object]) -> Trial:
        """The starting kernel with the latency that the model gives it; compared with nothing."""
        builds = Builds(self._opened.name, settings)
        try:
            candidate = Candidate(self._opened.task.start)
            outcome = builds.modelled(candidate.source)
        finally:
            builds.close()
        assert outcome is not None, "the task has the role ModelsLatency"
        return Trial(0, 0, candidate, outcome)

    def look(self) -> None:
        """Raises what has been found so far that speaks against the task or its start."""
        if self._raised is not None:
            raise self._raised

    def wait(self) -> None:
        """Until all of it is over."""
        if self._thread is not None:
            self._thread.join()

    def cancel(self) -> None:
        """End it soon; nobody waits for what it would find. Idempotent."""
        self._cancelled.set()

    def _work(self, settings: Mapping[str, object], storage: Storage) -> None:
        try:
            executor = create_executor(self._opened, settings, 1, storage)
            try:
                self._compare(executor)
                self.baselines = evaluate_baselines(self._opened, executor, self._checkpoint)
            finally:
                executor.close()
            self._require(self._checkpoint)
        except _CancelledError:
            pass
        except Exception as error:
            self._raised = error

    def _compare(self, executor: Executor) -> None:
        candidate, took = Candidate(self._opened.task.start), [0.0]

        def hear(position: int, outcome: Outcome, wall_s: float, cached: bool) -> None:
            took[0] = wall_s

        request = [EvaluationRequest(candidate)]
        outcome = executor.evaluate(request, hear, checkpoint=self._checkpoint)[0]
        self.start = Trial(0, 0, candidate, outcome, took[0])
        if isinstance(outcome, Failed):
            raise start_error(self._opened.name, outcome)

    def _checkpoint(self) -> None:
        if self._cancelled.is_set():
            raise _CancelledError

"""Examines a task while its search is already running.

If latencies are modelled without data, a search can begin before its starting kernel has been
compared with the reference and before the correctness check has been tested. Both are done while
the search is running, and no result is reported before both are complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Event, Thread

from tilewright.core.errors import InternalError
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

_LOOK_S = 0.2
"""Seconds between two looks at whether the search must stop while it waits."""


class _CancelledError(Exception):
    """Ends an examination whose result is no longer needed."""


class Examination:
    """Compares the starting kernel and the baselines of a run with the reference, and then tests
    the correctness check, in a thread.

    Args:
        require: examines the task itself, and raises an exception if it must be refused.
    """

    def __init__(self, opened: OpenTask, require: Callable[[Checkpoint], None]) -> None:
        self._opened = opened
        self._require = require
        self._cancelled = Event()
        self._thread: Thread | None = None
        self._raised: Exception | None = None
        self._is_complete = False
        self.start: Trial | None = None
        """The outcome of the starting kernel when it has been compared."""
        self.baselines: tuple[Baseline, ...] | None = None
        """The baselines, when they have been evaluated."""

    @staticmethod
    def is_of(opened: OpenTask) -> bool:
        """Whether a search for this task can begin before its starting kernel has been compared."""
        return isinstance(opened.task, ModelsLatency)

    def begin(self, settings: Mapping[str, object], storage: Storage) -> None:
        """Start the thread, which evaluates with the settings of the run."""
        # Evaluating processes die with the thread that starts them. It does not keep an
        # interrupted run from ending.
        self._thread = Thread(target=self._work, args=(settings, storage), daemon=True)
        self._thread.start()

    def modelled_start(self, settings: Mapping[str, object], checkpoint: Checkpoint) -> Trial:
        """The starting kernel with its modelled latency, before any comparison. An exception from
        `checkpoint` ends the work.
        """
        builds = Builds(self._opened.name, settings, checkpoint)
        try:
            candidate = Candidate(self._opened.task.start)
            outcome = builds.modelled(candidate.source)
        finally:
            builds.close()
        assert outcome is not None, "the task has the role ModelsLatency"
        return Trial(0, 0, candidate, outcome)

    def look(self) -> None:
        """Raise an exception if the examination has found a reason to refuse the task or its
        starting kernel.
        """
        if self._raised is not None:
            raise self._raised

    def wait(self, checkpoint: Checkpoint) -> None:
        """Wait until the examination is complete. An exception from `checkpoint` ends the wait."""
        while self._thread is not None and self._thread.is_alive():
            self._thread.join(_LOOK_S)
            checkpoint()
        if not self._is_complete and self._raised is None:
            raise InternalError("the examination of the task ended before it was complete.")

    def cancel(self) -> None:
        """End the examination soon, because its result is not needed. May be called again."""
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
            self._is_complete = True
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
            raise start_error(self._opened.name, outcome, self._opened.task.start)

    def _checkpoint(self) -> None:
        if self._cancelled.is_set():
            raise _CancelledError

"""Makes the tools available for work on one kernel, by hand or by an agent.

Tools that evaluate nothing need no run. The first tool that needs a trial begins or resumes the run
of this task and these settings. Kernels are checked, timed and counted like those of any run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright import run as runs
from tilewright.core.compiled_code import CompiledCode
from tilewright.core.config import Settings
from tilewright.core.errors import InputError
from tilewright.core.records import Candidate, Failed, TargetBrief, Trial, Workload
from tilewright.core.tasks import OpenTask, open_task
from tilewright.evaluation.building import Builds
from tilewright.search.events import OnEvent
from tilewright.search.stepwise import Stepwise
from tilewright.tools.copies import Copies
from tilewright.tools.records import Answer, Fact
from tilewright.tools.toolbox import call
from tilewright.verification import fresh_seed


@contextmanager
def workbench(
    task: str,
    settings: Settings,
    *,
    project: Path,
    parent: str | None = None,
    workers: int | None = None,
    executor: str = "local",
    on_event: OnEvent = lambda event: None,
) -> Iterator[Workbench]:
    """The tools for a task, to work on the kernel with the id `parent`, or on the best kernel.

    Leaving the block interrupts the run, unless its budget is spent.
    """
    opened = open_task(task, settings.recorded())
    with ExitStack() as stack:
        builds = Builds(opened.name, settings.evaluated_with(fresh_seed()))
        stack.enter_context(closing(builds))

        def begin() -> Stepwise:
            return stack.enter_context(
                runs.stepwise(
                    task,
                    settings,
                    project=project,
                    workers=workers,
                    on_event=on_event,
                    executor=executor,
                )
            )

        yield Workbench(opened, builds, begin, parent)


class Workbench:
    """The `Bench` of a run. Use it only in the thread that opened it."""

    def __init__(
        self,
        opened: OpenTask,
        builds: Builds,
        begin: Callable[[], Stepwise],
        parent: str | None = None,
    ) -> None:
        self._opened = opened
        self._builds = builds
        self._begin = begin
        self._parent = parent
        self.drafts: dict[str, str] = {}

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """The answer of a tool; `Refused` if its name or its arguments cannot be used."""
        return call(self, tool, arguments)

    @cached_property
    def steps(self) -> Stepwise:
        """The run, which begins with the first access."""
        return self._begin()

    @cached_property
    def target(self) -> TargetBrief:
        """The brief of the target."""
        return self._opened.target.brief()

    @cached_property
    def _copies(self) -> Copies:
        return Copies(self._opened.task.baselines, self.target.language)

    @property
    def workload(self) -> Workload:
        """The workload, with its arrays."""
        return self._opened.task.workload

    @property
    def versions(self) -> Sequence[Fact]:
        """The versions of the tools that build and time kernels on this machine."""
        versions = self._opened.target.versions()
        return [Fact(name, value, "this machine") for name, value in versions.items()]

    @property
    def start(self) -> Trial:
        """The starting kernel of the run."""
        start: Trial = self.steps.history[0]
        return start

    @property
    def parent(self) -> Trial:
        """The kernel that the user chose, or otherwise the best kernel."""
        if self._parent is None:
            return self.best or self.start
        found = self.find(self._parent)
        if found is None:
            raise InputError(
                f"parent {self._parent!r} is not a kernel of this run. Give the candidate id of "
                "one of its trials."
            )
        return found

    @property
    def best(self) -> Trial | None:
        """The fastest correct kernel of the run."""
        return self.steps.history.best

    @property
    def left(self) -> int | None:
        """The number of evaluations that the run's budget still allows."""
        return self.steps.evaluations_left

    def find(self, candidate_id: str) -> Trial | None:
        """A kernel of the run, by its id or the first characters of it."""
        history = self.steps.history
        exact = history.get(candidate_id)
        if exact is not None:
            return exact
        ids = {t.candidate.id for t in history if t.candidate.id.startswith(candidate_id)}
        return history.get(ids.pop()) if len(ids) == 1 else None

    def children(self, candidate_id: str) -> Sequence[Trial]:
        """The kernels of the run that were made from this one."""
        return self.steps.history.children(candidate_id)

    def check(self, source: str) -> Failed | None:
        """The failure of a kernel's build, or None."""
        return self._builds.problem(source)

    def code(self, source: str) -> CompiledCode | Failed | None:
        """The machine code of a kernel; None if the target does not show machine code."""
        return self._builds.code(source)

    def evaluate(self, source: str, parent_id: str, note: str) -> tuple[Trial, bool]:
        """The trial of a kernel, and whether the run had already evaluated it."""
        known = len(self.steps.history)
        if self.steps.history.get(Candidate(source).id) is None:
            self._copies.refuse(source)
        trial = self.steps.tell(source, parent_id, note)
        return trial, trial.index < known

"""What the tools of one agent work on: what was known when it began, and what agents made since."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.core.errors import InputError
from tilewright.core.records import Brief, Candidate, History, TargetBrief, Trial, Workload
from tilewright.tools.copies import Copies
from tilewright.tools.proposal import Compiler
from tilewright.tools.records import Fact


@dataclass(frozen=True)
class Machine:
    """What is the same for all agents of a run: how kernels are built, and which are shipped.

    `hidden` are the files and folders that agents may not read.
    """

    builds: Compiler
    versions: Sequence[Fact]
    copies: Copies
    hidden: Sequence[Path] = ()


class AgentBench:
    """The `Bench` of one agent.

    `made` holds the kernels that agents of this iteration had evaluated, each other's too: it
    grows. `wait` gives the trial of a kernel that was asked for, `left` what may still be.
    """

    def __init__(
        self,
        brief: Brief,
        parent: Trial,
        history: History,
        made: Sequence[Trial],
        machine: Machine,
        wait: Callable[[str, str], Trial],
        left: Callable[[], int],
    ) -> None:
        self._brief = brief
        self._history = history
        self._made = made
        self._machine = machine
        self._wait = wait
        self._left = left
        self.parent = parent
        self.check = machine.builds.problem
        self.code = machine.builds.code
        self.versions = machine.versions
        self.drafts: dict[str, str] = {}

    @property
    def target(self) -> TargetBrief:
        """The machine."""
        return self._brief.target

    @property
    def workload(self) -> Workload:
        """What the kernels compute, over which arrays."""
        return self._brief.workload

    @property
    def start(self) -> Trial:
        """The starting kernel of the run."""
        first: Trial = self._history[0]
        return first

    @property
    def best(self) -> Trial | None:
        """The fastest correct kernel that it can know of."""
        known = (self._history.best, *tuple(self._made))
        timed = [trial for trial in known if trial is not None and trial.latency is not None]
        return min(timed, key=lambda trial: trial.latency or 0.0, default=None)

    @property
    def left(self) -> int:
        """What is left of its share."""
        return self._left()

    def find(self, candidate_id: str) -> Trial | None:
        """A kernel of the run, by its id or the only one whose id begins so."""
        exact = self._history.get(candidate_id)
        if exact is not None:
            return exact
        trials = (*tuple(self._made), *self._history)
        found = {t.candidate.id: t for t in trials if t.candidate.id.startswith(candidate_id)}
        return next(iter(found.values())) if len(found) == 1 else None

    def children(self, candidate_id: str) -> Sequence[Trial]:
        """The kernels made from this one."""
        made = [t for t in tuple(self._made) if t.candidate.parent_id == candidate_id]
        return [*self._history.children(candidate_id), *made]

    def evaluate(self, source: str, parent_id: str, note: str) -> tuple[Trial, bool]:
        """The trial of a kernel, and whether it was known; `InputError` where there is none."""
        known = self.find(Candidate(source).id)
        if known is not None:
            return known, True
        self._machine.copies.refuse(source)
        return self._wait(source, note), False

    def may_ask(self, source: str) -> bool:
        """Whether a kernel is new here, and no copy of a shipped one."""
        try:
            self._machine.copies.refuse(source)
        except InputError:
            return False
        return self.find(Candidate(source).id) is None

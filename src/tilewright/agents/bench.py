"""The data for the tools of one agent: the history when the agent began, and the kernels that
agents have made since.
"""

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
    """Data that all agents of a run share: how kernels are built, and the kernels that come with
    the target.

    `hidden` are the files and folders that agents may not read.
    """

    builds: Compiler
    versions: Sequence[Fact]
    copies: Copies
    hidden: Sequence[Path] = ()


class AgentBench:
    """The `Bench` of one agent.

    `made` contains the kernels that all agents of this iteration had evaluated, and grows. `wait`
    returns the trial of a requested kernel, and `left` the number of evaluations that are left.
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
        """The brief of the target."""
        return self._brief.target

    @property
    def workload(self) -> Workload:
        """The workload, with its arrays."""
        return self._brief.workload

    @property
    def start(self) -> Trial:
        """The starting kernel of the run."""
        first: Trial = self._history[0]
        return first

    @property
    def best(self) -> Trial | None:
        """The fastest correct kernel that the agent can access."""
        known = (self._history.best, *tuple(self._made))
        timed = [trial for trial in known if trial is not None and trial.latency is not None]
        return min(timed, key=lambda trial: trial.latency or 0.0, default=None)

    @property
    def left(self) -> int:
        """The number of evaluations that are left of the agent's share."""
        return self._left()

    def find(self, candidate_id: str) -> Trial | None:
        """A kernel of the run, by its id or a unique beginning of the id."""
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
        """The trial of a kernel, and whether it had been evaluated before; `InputError` if there is
        none.
        """
        known = self.find(Candidate(source).id)
        if known is not None:
            return known, True
        self._machine.copies.refuse(source)
        return self._wait(source, note), False

    def may_ask(self, source: str) -> bool:
        """Whether a kernel is new and not a copy of a kernel that comes with the target."""
        try:
            self._machine.copies.refuse(source)
        except InputError:
            return False
        return self.find(Candidate(source).id) is None

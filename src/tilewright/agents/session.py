"""The work of one agent on one kernel, from its start to the end of all its processes.

Kernels that the agent wants evaluated are candidates of the search like all others. `work` returns
them in a thread of the search, and `told` receives their outcomes. The `CallSocket` receives the
agent's calls in separate threads, which wait for outcomes; the search never waits for them.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, Queue
from threading import Condition
from typing import Any

from tilewright.agents import folder as folders
from tilewright.agents.bench import AgentBench, Machine
from tilewright.agents.call_socket import CallSocket
from tilewright.agents.names import AgentName
from tilewright.agents.protocol import SOCKET_VARIABLE
from tilewright.agents.supervisor import Start
from tilewright.agents.termination import Termination, terminated
from tilewright.core.errors import InputError, TilewrightError
from tilewright.core.records import Brief, Candidate, History, Plan, Trial
from tilewright.core.run_notes import AgentWork
from tilewright.core.secrets import without_secrets
from tilewright.core.text import plain_text
from tilewright.sandbox.child import Child
from tilewright.tools.findings import findings
from tilewright.tools.mcp_server import target_texts
from tilewright.tools.records import Refused, Submitted
from tilewright.tools.text import answer_text, said
from tilewright.tools.toolbox import call, sources_to_evaluate

MOST_CALLS = 2000
"""Maximum number of calls of one agent; further calls are refused."""
MOST_KEPT_CALLS = 200
"""Number of calls whose first lines are stored with the run."""
AFTER_SUBMIT_S = 10.0
"""Seconds after which an agent that has submitted a kernel is ended."""
_LOOK_S = 0.05
_LINE = 160


@dataclass(frozen=True)
class Assignment:
    """The task of one agent; `share` is the number of kernels that it may evaluate."""

    agent: AgentName
    brief: Brief
    parent: Trial
    history: History
    plan: Plan
    share: int
    made: list[Trial]


class AgentSession:
    """The work of one agent; `work` may be iterated once.

    Args:
        assignment: the task of the agent.
        machine: the tools with which kernels are built.
        given_up: whether the search needs no further kernels.
    """

    def __init__(
        self, assignment: Assignment, machine: Machine, given_up: Callable[[], bool]
    ) -> None:
        self._given = assignment
        self._given_up = given_up
        self._hidden = machine.hidden
        # No SimpleQueue: in CPython its `get` with a short time-out can wait forever.
        self._wanted: Queue[list[Candidate]] = Queue()
        self._changed = Condition()
        self._asked: dict[str, Candidate] = {}
        self._outcomes: dict[str, Trial] = {}
        self._spent = self._calls = 0
        self._over = False
        self._submitted, self._submitted_at = "", 0.0
        self._log: list[str] = []
        self._bench = AgentBench(
            assignment.brief,
            assignment.parent,
            assignment.history,
            assignment.made,
            machine,
            self._outcome,
            lambda: assignment.share - self._spent,
        )
        self.record: AgentWork | None = None

    def work(self) -> Iterator[list[Candidate]]:
        """The kernels that the agent wants evaluated, when it requests them. Afterwards, `record`
        says how it ended.
        """
        began = time.monotonic()
        described = {
            "workload": self._given.brief.workload.name,
            "target": self._given.brief.target.name,
            "resources": target_texts(self._given.brief.target),
        }
        with (
            folders.temporary() as folder,
            tempfile.TemporaryDirectory(prefix="tilewright-task-") as apart,
            closing(CallSocket(self._use, described)) as calls,
        ):
            supervisor = self._start(folder, Path(apart), calls.path)
            ended: Termination | None = None
            try:
                used_s, last = 0.0, time.monotonic()
                while ended is None:
                    with suppress(Empty):
                        yield self._wanted.get(timeout=_LOOK_S)
                    now = time.monotonic()
                    used_s += 0.0 if self._waits else now - last
                    last = now
                    ended = self._look(supervisor, used_s)
            finally:
                self._stop()
                ended = terminated(supervisor, calls.path, ended)
            while not self._wanted.empty() and not self._given_up():
                yield self._wanted.get()
        self.record = self._recorded(ended, time.monotonic() - began)

    def told(self, trials: Sequence[Trial]) -> None:
        """Receive the outcomes of kernels from `work`."""
        with self._changed:
            for trial in trials:
                asked = trial.candidate.id
                if asked in self._outcomes:
                    continue
                self._outcomes[asked] = trial
                if trial.index < len(self._given.history):
                    self._spent -= 1  # equal to a kernel that the run knew
                else:
                    self._given.made.append(trial)
            self._changed.notify_all()

    def _start(self, folder: Path, apart: Path, socket: str) -> Child:
        given = self._given
        agent = given.agent
        known = findings([*given.history, *tuple(given.made)])
        text = folders.task_text(given.brief, given.parent, given.share, agent.timeout_s, known)
        folders.fill(folder, given.brief, given.parent, text, socket)
        prompt, empty, nothing = apart / "prompt", apart / "empty", apart / "nothing"
        prompt.write_text(text)
        empty.mkdir()
        nothing.touch()
        environment = without_secrets(os.environ)
        if agent.key_env in os.environ:
            environment[agent.key_env] = os.environ[agent.key_env]
        supervisor = Child(
            "tilewright.agents.supervisor",
            environment={
                **environment,
                SOCKET_VARIABLE: socket,
                "TMPDIR": str(folder / "tmp"),
                "PWD": str(folder),
            },
            output=subprocess.DEVNULL,
            max_bytes=1 << 20,
        )
        start = Start(
            agent.command,
            str(folder),
            str(prompt),
            agent.disk_mb << 20,
            tuple(map(str, self._hidden)),
            str(empty),
            str(nothing),
        )
        supervisor.send_json(start.message())
        return supervisor

    def _look(self, supervisor: Child, used_s: float) -> Termination | None:
        """How the agent's work has ended, or None if it has not."""
        if supervisor.has_message(0.0):
            return Termination.received(supervisor)
        if self._given_up():
            return Termination("given up", "the search ended")
        if self._submitted_at and time.monotonic() - self._submitted_at > AFTER_SUBMIT_S:
            return Termination("submitted")
        if used_s > self._given.agent.timeout_s:
            return Termination("timed out", f"it took more than {self._given.agent.timeout_s} s")
        return None

    def _stop(self) -> None:
        """Tell every caller that waits for an outcome that there will be none."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    @property
    def _waits(self) -> bool:
        """Whether one of its kernels is being evaluated."""
        return len(self._outcomes) < len(self._asked)

    def _use(self, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carry out one call; the `CallSocket` makes one at a time."""
        self._calls += 1
        if self._calls > MOST_CALLS:
            answer: Any = Refused(
                f"more than {MOST_CALLS} calls were made: the calls above this number are not "
                "answered."
            )
        else:
            try:
                with suppress(InputError):  # the answer says what is wrong
                    self._ask(sources_to_evaluate(self._bench, tool, arguments), arguments)
                answer = call(self._bench, tool, arguments)
            except TilewrightError as error:
                answer = Refused(plain_text(str(error)))
        if isinstance(answer, Submitted) and answer.kernel.latency is not None:
            self._submitted, self._submitted_at = answer.kernel.candidate, time.monotonic()
        text = answer_text(answer)
        if len(self._log) < MOST_KEPT_CALLS:
            self._log.append(f"{plain_text(tool[:40])}: {text.partition(chr(10))[0][:_LINE]}")
        return said(answer)

    def _ask(self, sources: Sequence[str], arguments: Mapping[str, Any]) -> None:
        """Request the evaluation of all kernels of a call at once, up to the agent's share."""
        note = plain_text(str(arguments.get("note") or ""))
        fresh = [s for s in dict.fromkeys(sources) if self._bench.may_ask(s)]
        with self._changed:
            new = [s for s in fresh if Candidate(s).id not in self._asked]
            new = new[: self._given.share - self._spent]
            if not new or self._over:
                return
            given = self._given
            parameters = {**given.plan.parameters, "turn": len(self._asked) + 1}
            text = note or "Made by an agent."
            plan = replace(given.plan, text=text, parameters=parameters)
            author = given.agent.name
            candidates = [Candidate(s, given.parent.candidate.id, plan, author) for s in new]
            self._asked.update({candidate.id: candidate for candidate in candidates})
            self._spent += len(candidates)
        self._wanted.put(candidates)

    def _outcome(self, source: str, note: str) -> Trial:
        """The outcome of a requested kernel; `InputError` if there is none."""
        asked = Candidate(source).id
        with self._changed:
            if asked not in self._asked:
                raise InputError(
                    f"the kernel was not evaluated: your share of {self._given.share} evaluations "
                    "is spent; submit a kernel that was evaluated."
                )
            self._changed.wait_for(lambda: asked in self._outcomes or self._over)
            found = self._outcomes.get(asked)
        if found is None:
            raise InputError("the kernel was not evaluated, because the work on it has ended.")
        return found

    def _recorded(self, ended: Termination, wall_s: float) -> AgentWork:
        asked = tuple(self._asked.values())
        how = "submitted" if self._submitted and ended.how in ("exited", "ended") else ended.how
        return AgentWork(
            iteration=self._given.brief.iteration,
            parent=self._given.parent.candidate.id,
            agent=self._given.agent.name,
            how=how,
            detail=ended.detail,
            submitted=self._submitted,
            evaluations=self._spent,
            calls=self._calls,
            wall_s=wall_s,
            log=tuple(self._log),
            output=plain_text(ended.output),
            sources=tuple(candidate.source for candidate in asked),
            notes=tuple(candidate.plan.text if candidate.plan else "" for candidate in asked),
            unhidden=ended.unhidden,
        )

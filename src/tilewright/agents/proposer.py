"""The proposer that runs command-line agents, each of which works on one kernel of the beam."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from tilewright.agents.bench import Machine
from tilewright.agents.names import AgentName
from tilewright.agents.session import AgentSession, Assignment
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    Plan,
    TargetBrief,
    Trial,
    content_id,
)
from tilewright.core.run_notes import AgentWork
from tilewright.tools.evaluation_shares import share_of

OWN_CHOICE = "other"
"""The option of agents' plans, because agents choose their changes themselves."""
_WAIT_S = 0.1


class AgentProposer:
    """A `Proposer`, `LiveProposer` and `Responder` that runs one command.

    Args:
        agent: the command and its limits.
        share: number of kernels that one agent may have evaluated.
        machine: the tools with which kernels are built.
        done: the work of agents in earlier sessions of the run, which are not started again.
        keep: stores the work of one agent.
    """

    waits = True

    def __init__(
        self,
        agent: AgentName,
        share: int,
        machine: Machine,
        done: Sequence[AgentWork] = (),
        keep: Callable[[AgentWork], None] = lambda work: None,
    ) -> None:
        self.name = agent.name
        self._agent = agent
        self._share = agent.evaluations or share
        self._machine = machine
        self._done = {(w.iteration, w.parent): w for w in done if w.agent == agent.name}
        self._keep = keep
        self._places = threading.BoundedSemaphore(agent.concurrency)
        self._lock = threading.Lock()
        self._iteration = 0
        self._given_up = threading.Event()
        self._histories: dict[str, History] = {}
        self._sessions: dict[str, AgentSession] = {}
        self._made: list[Trial] = []
        self._at_work = 0
        self._idle = threading.Condition(self._lock)

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """One plan for any `count`, because an agent makes many kernels from it."""
        with self._lock:
            if brief.iteration != self._iteration:
                self._iteration, self._made = brief.iteration, []
                self._histories, self._sessions = {}, {}
                self._given_up = threading.Event()
            proposal = content_id(self.name, str(brief.iteration), parent.candidate.id)
            self._histories[proposal] = history
        text = "Worked on by an agent."
        parameters = {"proposal": proposal}
        return [Plan(parent.candidate.id, OWN_CHOICE, text, self.name, parameters)]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Always empty, because `working` returns the kernels of an agent."""
        return []

    def working(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[list[Candidate]] | None:
        """The kernels that an agent wants evaluated, from its start to its end."""
        done = self._done.get((brief.iteration, parent.candidate.id))
        if done is not None:
            return iter([_again(done, parent, plan)])
        return self._worked(brief, parent, plan)

    def give_up(self) -> None:
        """End all agents, and start no others."""
        self._given_up.set()

    def close(self) -> None:
        """End all agents, and wait until they have ended."""
        self.give_up()
        with self._idle:
            self._idle.wait_for(lambda: not self._at_work)

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """Pass the outcomes to the agent, whose further kernels `working` returns."""
        plan = trials[0].candidate.plan
        session = self._sessions.get(str(plan.parameters.get("proposal"))) if plan else None
        if session is not None:
            session.told(trials)
        return []

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The normal form of the target's language."""
        return target.language.normal_form(source)

    def _worked(self, brief: Brief, parent: Trial, plan: Plan) -> Iterator[list[Candidate]]:
        given_up, proposal = self._given_up, str(plan.parameters["proposal"])
        while not self._places.acquire(timeout=_WAIT_S):
            if given_up.is_set():
                return
        with self._lock:
            history, made = self._histories[proposal], self._made
            self._at_work += 1
        try:
            share = share_of(self._share, parent, history)
            given = Assignment(self._agent, brief, parent, history, plan, share, made)
            session = AgentSession(given, self._machine, given_up.is_set)
            self._sessions[proposal] = session
            yield from session.work()
            if session.record is not None and session.record.how != "given up":
                self._keep(session.record)
        finally:
            self._places.release()
            with self._idle:
                self._at_work -= 1
                self._idle.notify_all()


def _again(done: AgentWork, parent: Trial, plan: Plan) -> list[Candidate]:
    """The kernels of an agent that had ended before the run was interrupted."""
    return [
        Candidate(source, parent.candidate.id, _noted(plan, note), done.agent)
        for source, note in zip(done.sources, done.notes, strict=True)
    ]


def _noted(plan: Plan, note: str) -> Plan:
    return Plan(plan.parent_id, plan.option, note, plan.proposer, plan.parameters)

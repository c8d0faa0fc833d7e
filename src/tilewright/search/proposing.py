"""Makes one batch of new candidates per iteration by merging the candidates of all parents in a
fixed order.

A `Way` (`in_process.py`, `processes.py`) determines where and when a proposer works: step by step,
on a thread, on many threads or in processes. Candidates are always in the order of the parents and
their plans, so the same history gives the same batch with every way.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from queue import Empty
from typing import Protocol, TypeAlias

from tilewright.core.records import Candidate, EvaluationRequest, History, Trial
from tilewright.core.roles import SearchStrategy
from tilewright.search.events import Implemented, OnEvent
from tilewright.search.ranking import begins_anew
from tilewright.search.steps import Children, Expansion, Message, SearchTask, Steps

Arrival: TypeAlias = tuple[Expansion, Message]
"""A message of an author who works while kernels are evaluated, with the parent."""
Parts: TypeAlias = Generator[list[EvaluationRequest], None, None]

SOON_S = 0.02
"""Seconds after which an empty part of a batch is returned if nothing new has been made."""


MEASURED_BEYOND = 1.5
"""Multiple of the limit up to which candidates of a proposer with `waits` are measured. For such a
proposer, the information on why an attempt is slower is more useful than a shorter evaluation.
"""


class Stream(Protocol):
    """The messages about one parent, in order."""

    def get(self, *, timeout: float) -> Message | BaseException | None:
        """The next message, or None at the end. An exception is returned or raised.

        Raises `queue.Empty` if there is no message after `timeout` seconds.
        """
        ...


class Way(Protocol):
    """Determines where the steps of a proposer are made, and how many at a time."""

    def begin(self, expansions: Sequence[Expansion], history: History) -> Sequence[Stream]:
        """Propose for all of these parents."""
        ...

    def begin_answer(self, answer: Callable[[], list[Message]]) -> Stream:
        """Let the author of candidates answer their outcomes. Call it only between `begin` and
        `end`.
        """
        ...

    def arrived(self, timeout: float) -> list[Arrival]:
        """The messages of authors who work while kernels are evaluated, in the order of time.

        Waits up to this number of seconds for the first message.
        """
        ...

    @property
    def at_work(self) -> bool:
        """Whether more messages may arrive; valid for all parents whose streams have ended."""
        ...

    def end(self) -> None:
        """End the iteration and drop unfinished proposals. May be called again."""
        ...


class Batches:
    """Proposes one batch per iteration. Events are reported in the thread that requests the
    batch.
    """

    def __init__(
        self, task: SearchTask, strategy: SearchStrategy, way: Way, on_event: OnEvent
    ) -> None:
        self._strategy = strategy
        self._way = way
        self._on_event = on_event
        self._steps = Steps(task)
        self._beyond = MEASURED_BEYOND if getattr(task.proposer, "waits", False) else 1.0
        self._hashes: dict[str, int] = {}  # hashes of the candidates that are not in `_known` yet
        self._known = History()
        self._old: dict[int, str] = {}  # hashes of the trials in `_known`, and whose they are
        self._new: dict[int, str] = {}  # the same of the iteration's candidates
        self._part: list[EvaluationRequest] = []  # made since the last part was handed on
        self._groups: list[_Group] = []  # handed on, and not answered yet
        self._outcomes: dict[str, Trial] = {}  # of the iteration's candidates

    def stream(
        self,
        iteration: int,
        parents: Sequence[Trial],
        history: History,
        checkpoint: Callable[[], None] = lambda: None,
        recorded: Sequence[Trial] = (),
    ) -> Parts:
        """The new candidates of all parents, without duplicates (equal normal forms).

        They are returned in parts, so that one part can be evaluated while the next is made. A part
        is empty if nothing is made within `SOON_S`. `checkpoint` is called often, and an exception
        from it ends the batch. `recorded` are trials of this iteration that an earlier session of
        the run left.
        """
        self._outcomes = {trial.candidate.id: trial for trial in recorded}
        self._checkpoint = checkpoint
        self._parents = parents
        expansions = [Expansion(iteration, n, p.candidate.id) for n, p in enumerate(parents)]
        complete = False
        try:
            streams = self._way.begin(expansions, history)
            self._take_in(history)  # takes seconds for large kernels, in which processes propose
            for expansion, parent, stream in zip(expansions, parents, streams, strict=True):
                made = kept = 0
                for message in self._heard(stream):
                    if message is None:
                        yield self._part
                        self._part = []
                    elif isinstance(message, Children):
                        fresh = self._fresh(expansion, parent, message)
                        made, kept = made + len(message.made), kept + len(fresh)
                        self._part += fresh
                    else:
                        self._on_event(message)
                self._on_event(Implemented(iteration, parent.candidate.id, kept, made - kept))
            while self._way.at_work:
                self._checkpoint()
                self._take_arrivals(SOON_S)
                yield self._part
                self._part = []
            complete = True
            if self._part:
                yield self._part
                self._part = []
        finally:
            if not complete:
                self._way.end()

    def answers(self, history: History) -> list[EvaluationRequest]:
        """The candidates with which authors answer the outcomes of the last candidates.

        Call it after `stream`, and again after each answer. Answers are in the order of the
        candidates.
        """
        groups, self._groups = self._groups, []
        for trial in history[len(self._known) :]:
            self._outcomes.setdefault(trial.candidate.id, trial)
        for group in groups:
            self._begin_answer(group)
        requests: list[EvaluationRequest] = []
        for group in groups:
            if group.answer is None:
                continue
            for message in self._heard(group.answer):
                if isinstance(message, Children):
                    requests += self._fresh(group.expansion, group.parent, message)
                elif message is not None:
                    self._on_event(message)
        return requests

    def hear(self, trial: Trial) -> None:
        """Receive an outcome while other candidates are still proposed or evaluated."""
        self._outcomes[trial.candidate.id] = trial
        for group in self._groups:
            if any(known == trial.candidate.id for _, known in group.members):
                self._begin_answer(group)

    def _begin_answer(self, group: _Group) -> None:
        """Let the author answer the outcomes of a group (a failure, or a turn) when all are
        known.
        """
        found = [self._outcomes.get(known) or self._known.get(known) for _, known in group.members]
        trials = [
            replace(trial, candidate=child)
            for trial, (child, _) in zip(found, group.members, strict=True)
            if trial is not None
        ]
        if group.answer is not None or len(trials) < len(group.members):
            return
        if group.in_turns or trials[0].latency is None:
            expansion, known = group.expansion, self._known
            group.answer = self._way.begin_answer(
                lambda: self._steps.answered(expansion, trials, known)
            )

    def end(self) -> None:
        """End the iteration."""
        self._groups = []
        self._way.end()

    def _heard(self, stream: Stream) -> Iterator[Message | None]:
        """The messages of a stream; None if there is none yet. The checkpoint may raise an
        exception.
        """
        while True:
            self._checkpoint()
            self._take_arrivals(0.0)
            try:
                message = stream.get(timeout=0.0 if self._part else SOON_S)
            except Empty:
                yield None
                continue
            if isinstance(message, BaseException):
                raise message
            if message is None:
                return
            yield message

    def _take_arrivals(self, timeout: float) -> None:
        """Add the candidates of authors at work to the batch, and report known outcomes to the
        authors.
        """
        for expansion, message in self._way.arrived(timeout):
            if not isinstance(message, Children):
                self._on_event(message)
                continue
            told = len(self._groups)
            self._part += self._fresh(expansion, self._parents[expansion.rank], message)
            for group in self._groups[told:]:
                self._begin_answer(group)

    def _take_in(self, history: History) -> None:
        """Clear the data of the previous iteration and update the known normal forms from the
        history.
        """
        new = history.since(self._known)
        if new is None:
            self._old = {}
        for trial in history if new is None else new:
            known = self._hashes.get(trial.candidate.id)
            normal_hash = self._steps.normal_hash(trial.candidate) if known is None else known
            self._old.setdefault(normal_hash, trial.candidate.id)
        self._known, self._hashes, self._new, self._part = history, {}, {}, []
        self._groups, self._outcomes = [], {}

    def _fresh(
        self, expansion: Expansion, parent: Trial, children: Children
    ) -> list[EvaluationRequest]:
        """The requests for children that are new; these are known from now on."""
        limit = self._strategy.limit_latency(parent)
        requests = []
        turns: dict[str, _Group] = {}
        for child, normal_hash in children.made:
            self._hashes[child.id] = normal_hash
            known = self._old.get(normal_hash) or self._new.get(normal_hash)
            if known is None:
                self._new[normal_hash] = child.id
                requests.append(EvaluationRequest(child, self._limit(child, limit)))
            if child.plan is not None and child.plan.turn is not None:
                # The author also waits for the outcome of an equal kernel.
                group = turns.setdefault(child.plan.id, _Group(expansion, parent, in_turns=True))
                group.members.append((child, known or child.id))
            elif known is None:
                self._groups.append(_Group(expansion, parent, [(child, child.id)]))
        self._groups += turns.values()
        return requests

    def _limit(self, child: Candidate, limit: float | None) -> float | None:
        """Where measuring a child may stop; `limit` is the latency from which it is not kept."""
        if limit is None or begins_anew(child):
            return None
        beyond = child.plan.measured_beyond if child.plan else None
        return limit * (self._beyond if beyond is None else beyond)


@dataclass(eq=False, slots=True)
class _Group:
    """Candidates whose outcomes are reported to their author together, each with the kernel that it
    equals.
    """

    expansion: Expansion
    parent: Trial
    members: list[tuple[Candidate, str]] = field(default_factory=list)
    in_turns: bool = False
    answer: Stream | None = None

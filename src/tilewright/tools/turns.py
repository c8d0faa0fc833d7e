"""Proposals in turns, in which a model calls tools and receives their answers until it submits a
kernel.

Kernels that the model wants evaluated are candidates of the search like all others, and the
proposal waits for their outcomes (`Turns.go_on`). All other calls are answered immediately. The
state is stored only in the calls: a run that was killed makes the same calls again, and gets the
stored replies.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.core.records import (
    NOTHING_WORTHWHILE,
    Brief,
    Candidate,
    History,
    Plan,
    Trial,
)
from tilewright.core.text import plain_text
from tilewright.proposers.llm.caller import Caller
from tilewright.proposers.llm.conversations import Terms
from tilewright.proposers.llm.forecast import TurnSizes
from tilewright.proposers.llm.messages import Message, OfferedTool, Reply, Request
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.replies import (
    OTHER,
    NothingWorthwhile,
    ReplyFailed,
    read_headings,
    read_plan,
)
from tilewright.tools.answer_summaries import gist_of
from tilewright.tools.evaluation_shares import share_of
from tilewright.tools.proposal import MOST_EVALUATED, Compiler, Proposal, ProposalBench, Turn
from tilewright.tools.records import Fact, Shown
from tilewright.tools.text import answer_text
from tilewright.tools.toolbox import TOOLS, call, tool_named
from tilewright.tools.turn_messages import (
    LONGEST_ANSWERS,
    LONGEST_FOLDED,
    UNKNOWN,
    Answered,
    told,
    turn_messages,
)
from tilewright.tools.turn_replies import MOST_CALLS, Calls, ToolCall, read_turn
from tilewright.tools.waiting import is_near_bound, is_submitted, new_sources, pinned

LONGEST_ANSWER = 8000
"""Maximum number of characters of one tool's answer."""
LONGEST_SHOWN = 20_000
"""Maximum number of characters of a kernel that is shown."""
LONGEST_NOTE = 2000
"""Maximum number of characters of the author's note on a kernel."""

_OFFERED = tuple(
    OfferedTool(tool.name, tool.text, json.dumps(tool.schema)) for tool in TOOLS.values()
)


def turn_sizes() -> TurnSizes:
    """The maximum sizes of the prompts of a proposal's turns, without the model's own replies."""
    return TurnSizes(_described(), LONGEST_ANSWERS, MOST_CALLS * LONGEST_FOLDED)


class Turns:
    """The `Conversations` in which models use the tools.

    Args:
        caller: makes the calls.
        most: maximum number of turns of one proposal.
        builds: builds kernels.
        versions: the versions of the tools that build and time kernels.
        share: number of kernels that one proposal may have evaluated; None if there is no limit.
        budget: number of evaluations of the whole run; None if there is no limit.
    """

    def __init__(
        self,
        caller: Caller,
        most: int,
        builds: Compiler,
        versions: Mapping[str, str],
        share: int | None = None,
        budget: int | None = None,
    ) -> None:
        self._caller = caller
        self.most = most
        self._builds = builds
        self._share, self._budget = share, budget
        self._versions = tuple(Fact(n, v, "this machine") for n, v in versions.items())
        self._open: dict[str, Proposal] = {}  # proposals that wait for outcomes, by plan id
        self._iteration = 0
        self._lock = threading.Lock()

    def terms(self, brief: Brief, parent: Trial, history: History) -> Terms:
        """The limits of a proposal for this kernel, and the facts about the machine in its first
        prompt.
        """
        left = None
        if self._budget is not None:
            left = max(0, self._budget - len(history))
        share = self._share
        if share is not None:
            share = share_of(share, parent, history)
            share = share if left is None else min(share, left)
        facts = tuple(
            f"{fact.name}: {fact.value}{', ' if fact.meaning else ''}{fact.meaning}"
            for fact in brief.target.facts
            if fact.first
        )
        compilers = tuple(f"{v.name}: {v.value}" for v in self._versions if v.name == "compiler")
        return Terms(self.most, _described(), share, left, (*compilers, *facts))

    def begin(
        self,
        brief: Brief,
        parent: Trial,
        history: History,
        plan: Plan,
        requests: Sequence[Request],
    ) -> list[Candidate]:
        """The first candidates of a proposal for each request."""
        with self._lock:
            if brief.iteration != self._iteration:
                self._iteration, self._open = brief.iteration, {}
        terms = self.terms(brief, parent, history)
        begun = [
            Proposal(brief, parent, history, plan, request, share=terms.share)
            for request in requests
        ]
        if len(begun) == 1:
            return self._advanced(begun[0])
        with ThreadPoolExecutor(len(begun)) as threads:
            return [made for part in threads.map(self._advanced, begun) for made in part]

    def go_on(self, trials: Sequence[Trial]) -> list[Candidate]:
        """The next candidates of a proposal; `trials` are the results of its latest candidates."""
        plan = trials[0].candidate.plan
        with self._lock:
            found = self._open.get(plan.id) if plan is not None else None
        if found is None:
            return []
        found = replace(found, own=(*found.own, *trials), unheard=len(trials))
        if len(found.turns) >= self.most or self._submitted(found) or is_near_bound(found):
            return []
        return self._advanced(self._answered(found))

    def _advanced(self, proposal: Proposal) -> list[Candidate]:
        """Call the model until there are kernels to evaluate or the proposal has ended.

        A proposal without evaluations left is over: no call is paid that can change nothing.
        """
        while len(proposal.turns) < self.most and self._bench(proposal).left != 0:
            number = len(proposal.turns) + 1
            native = parse_model(proposal.request.model).calls_tools
            request = replace(
                proposal.request,
                phase=f"turn {number}",
                messages=turn_messages(proposal, native),
                tools=_OFFERED if native else (),
            )
            reply = self._caller.ask([request])[0]
            if reply is None:
                return []
            said = Message("assistant", reply.text.strip() or "(nothing)", raw=reply.raw)
            proposal = replace(proposal, turns=(*proposal.turns, Turn(said, reply.calls)))
            language = proposal.brief.target.language
            read = read_turn(reply, language)
            if isinstance(read, ReplyFailed):
                if _sees_nothing(reply, proposal.brief):
                    self._caller.reject(request, NOTHING_WORTHWHILE)
                    return []
                detail = f" ({read.detail})" if read.detail else ""
                self._caller.reject(request, f"{read.kind}{detail}")
                unusable = f"Your answer cannot be used: {read.kind}{detail}."
                proposal = self._told(proposal, [Answered("", unusable)])
                continue
            if isinstance(read, str):
                read = Calls((ToolCall("submit", {"kernel": read}),))
            best = self._bench(proposal).best or proposal.parent
            waiting = pinned(read.calls, best.candidate.id)
            proposal = replace(proposal, waiting=waiting, left_out=read.left_out)
            candidates = self._candidates(proposal, reply, request)
            if candidates:
                return candidates
            if self._submitted(proposal):
                return []
            proposal = self._answered(proposal)
        return []

    def _candidates(self, proposal: Proposal, reply: Reply, request: Request) -> list[Candidate]:
        """The new kernels that a reply wants evaluated."""
        new = new_sources(self._bench(proposal), proposal.waiting)
        if not new:
            return []
        plan = _plan(proposal, reply)
        with self._lock:
            self._open[plan.id] = proposal
        parent, author = proposal.parent.candidate.id, request.model
        return [Candidate(s, parent, plan, author) for s in new[:MOST_EVALUATED]]

    def _submitted(self, proposal: Proposal) -> bool:
        """Whether the kernel that a reply submits is known and correct."""
        return is_submitted(self._bench(proposal), proposal.waiting)

    def _bench(self, proposal: Proposal) -> ProposalBench:
        return ProposalBench(proposal, self._builds, self._versions)

    def _answered(self, proposal: Proposal) -> Proposal:
        """Answer the calls that waited for outcomes."""
        bench = self._bench(proposal)
        answers = []
        for one in proposal.waiting:
            found = call(bench, one.tool, one.arguments)
            text, longest = answer_text(found), LONGEST_ANSWER
            if isinstance(found, Shown):
                longest = LONGEST_SHOWN
            cut = text if len(text) <= longest else f"{text[:longest]} ... (cut off)"
            answers.append(Answered(_name(one), cut, gist_of(found)))
        if proposal.left_out and not proposal.turns[-1].calls:
            left_out = f"{proposal.left_out} further calls were left out: too many at a time."
            answers.append(Answered("", left_out))
        drafts = tuple(bench.drafts.items())
        answered = replace(proposal, waiting=(), left_out=0, drafts=drafts, unheard=0)
        return self._told(answered, answers)

    def _told(self, proposal: Proposal, answers: Sequence[Answered]) -> Proposal:
        """The last turn with its answers, and the number of turns that are left."""
        last = told(proposal.turns[-1], answers, self.most - len(proposal.turns))
        return replace(proposal, turns=(*proposal.turns[:-1], last))


def _described() -> Sequence[tuple[str, str]]:
    return [(tool.usage, tool.text) for tool in TOOLS.values()]


def _plan(proposal: Proposal, reply: Reply) -> Plan:
    """The plan of a reply. Its option is that of the first turn unless the reply names another
    one.
    """
    said = read_headings(reply, proposal.brief.menu)
    option = said.option
    if option == OTHER and proposal.turns[1:]:
        first = read_headings(Reply(proposal.turns[0].said.text), proposal.brief.menu)
        option = first.option
    turn = len(proposal.turns)
    return replace(
        proposal.plan,
        option=option,
        text=said.text[:LONGEST_NOTE] or _note(proposal) or f"Turn {turn}.",
        expected=said.expected,
        parameters={**proposal.plan.parameters, "proposal": proposal.request.key, "turn": turn},
    )


def _note(proposal: Proposal) -> str:
    """The notes on kernels in the calls that wait."""
    given = (one.arguments for one in proposal.waiting)
    notes = [one.get("note") for one in given if isinstance(one, Mapping)]
    return "; ".join(plain_text(note) for note in notes if isinstance(note, str))[:LONGEST_NOTE]


def _sees_nothing(reply: Reply, brief: Brief) -> bool:
    return isinstance(read_plan(reply, brief.menu), NothingWorthwhile)


def _name(one: ToolCall) -> str:
    try:
        return tool_named(one.tool).name
    except InputError:
        return UNKNOWN

"""Plans and implements by asking language models."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from tilewright.core.errors import InputError
from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    KernelLanguage,
    Plan,
    TargetBrief,
    Trial,
    content_id,
)
from tilewright.core.templates import parse_template, without_template
from tilewright.proposers.dealing import implementer, plan_slots, planner
from tilewright.proposers.llm.allocation import AdaptiveShares
from tilewright.proposers.llm.branches import Branches
from tilewright.proposers.llm.caller import Caller, Pending
from tilewright.proposers.llm.edits import apply_edits, read_edits
from tilewright.proposers.llm.messages import Message, Phase, Reply, Request
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.replies import (
    OTHER,
    NothingWorthwhile,
    ReplyFailed,
    read_code,
    read_headings,
    read_plan,
)

NOT_REPAIRED = ("slower_than_limit", "crash")
"""Failures that say nothing a model could act on."""

_AS_JSON = (
    Message(
        "user",
        "Give the whole answer as one JSON object with the text keys option, change, expected and "
        "plan.",
    ),
)


class Conversations(Protocol):
    """Proposals in which a model works in several turns with tools."""

    @property
    def most(self) -> int:
        """Turns of one proposal."""
        ...

    @property
    def tools(self) -> Sequence[tuple[str, str]]:
        """Each tool with the names of its arguments, and what it does."""
        ...

    def begin(
        self, brief: Brief, parent: Trial, history: History, plan: Plan, requests: Sequence[Request]
    ) -> list[Candidate]:
        """The first candidates of a proposal for each request; their plans say in which turn."""
        ...

    def go_on(self, trials: Sequence[Trial]) -> list[Candidate]:
        """The next candidates of the proposal whose last ones became these trials."""
        ...


class LLMProposer:
    """The `Proposer` and `Responder` roles over one or several models.

    Args:
        models: full names; plans and implementations are dealt over them.
        prompts: renders what is sent.
        caller: makes the calls.
        edits: replies to implement and repair prompts may be search/replace edits.
        templates: replies may leave numbers open; their first values make the candidate.
        shares: of each model in the work; None for equal ones.
        branches: which kernels are not asked about any more.
        turns: proposals in several turns; None for a plan and an implementation of it.
    """

    name = "llm"
    waits = True  # mostly waits for others: may be called from several threads at once

    def __init__(
        self,
        models: Sequence[str],
        prompts: Prompts,
        caller: Caller,
        *,
        edits: bool = False,
        templates: bool = False,
        shares: AdaptiveShares | None = None,
        branches: Branches | None = None,
        turns: Conversations | None = None,
    ) -> None:
        self._models = tuple(models)
        self._prompts = prompts
        self._caller = caller
        self._edits = edits
        self._templates = templates
        self._shares = shares
        self.branches = branches or Branches()
        self._turns = turns
        # By plan id: what to ask for it, and the history that this follows from.
        self._unplanned: dict[str, tuple[tuple[Message, ...], History]] = {}

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans, one call each."""
        return list(self.each_plan(brief, parent, history, count, seed))

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """The plans of `plan`; all calls have begun when this returns."""
        if parent.candidate.id in self.branches.closed_before(brief.iteration):
            return iter(())
        if self._shares is not None:
            self._shares.begin(brief.iteration, history)
        shares = self._shares_in(brief)
        slots = plan_slots(brief.iteration, brief.rank, count)
        messages = [self._asked(brief, parent, history, n) for n in range(count)]
        if self._turns is not None or not self._prompts.in_two_phases:
            return iter(
                [
                    self._unwritten(
                        parent, planner(self._models, slot, shares), slot, asked, history
                    )
                    for slot, asked in zip(slots, messages, strict=True)
                ]
            )
        calls = self._caller.begin(
            [
                self._request(planner(self._models, slot, shares), "plan", asked, seed, number)
                for number, (slot, asked) in enumerate(zip(slots, messages, strict=True))
            ]
        )
        return self._distinct_plans(brief, parent, zip(slots, calls, strict=True))

    def _distinct_plans(
        self, brief: Brief, parent: Trial, calls: Iterable[tuple[int, Pending]]
    ) -> Iterator[Plan]:
        """Of equal plans only the first slot's, so that calls do not depend on who is first."""
        seen: set[tuple[str, str]] = set()
        done = 0
        for number, (slot, call) in enumerate(calls):
            reply = call.reply()
            if reply is None:
                continue
            offered = self._prompts.menu(brief, parent, number)
            hidden = (option for option in brief.menu if option not in offered)
            read = read_plan(reply, (*offered, *hidden))  # numbers are those of the offered ones
            if isinstance(read, ReplyFailed):
                self._reject(call.request, read)
            elif isinstance(read, NothingWorthwhile):
                done += 1
                self._caller.reject(call.request, f"nothing worthwhile ({read.reason})")
            elif (read.option, read.text) not in seen:
                seen.add((read.option, read.text))
                yield Plan(
                    parent_id=parent.candidate.id,
                    option=read.option,
                    text=read.text,
                    proposer=call.request.model,
                    parameters={"slot": slot},
                    expected=read.expected,
                )
        if done and not seen:
            self.branches.close(parent.candidate.id, brief.iteration)

    def _asked(
        self, brief: Brief, parent: Trial, history: History, number: int
    ) -> tuple[Message, ...]:
        if self._turns is None:
            return self._prompts.plan(brief, parent, history, number)
        most, tools = self._turns.most, self._turns.tools
        return self._prompts.turns(brief, parent, history, number, most, tools)

    def _unwritten(
        self,
        parent: Trial,
        model: str,
        slot: int,
        messages: tuple[Message, ...],
        history: History,
    ) -> Plan:
        """Stands for a plan where kernels are asked for at once; `implement` sends `messages`."""
        plan = Plan(parent.candidate.id, OTHER, "Written without a plan.", model, {"slot": slot})
        self._unplanned[plan.id] = messages, history
        return plan

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Up to `count` candidates, one call each."""
        unplanned = self._unplanned.pop(plan.id, None)
        messages = unplanned[0] if unplanned else self._prompts.implement(brief, parent, plan)
        slot = int(plan.parameters.get("slot", 0))
        shares = self._shares_in(brief)
        requests = [
            self._request(author, "implement", messages, seed, number)
            for number in range(count)
            for author in [implementer(self._models, slot, number, count, shares)]
        ]

        if self._turns is not None and unplanned is not None:
            return self._turns.begin(brief, parent, unplanned[1], plan, requests)

        def plan_in(reply: Reply) -> Plan:
            if unplanned is None:
                return plan
            said = read_headings(reply, brief.menu)
            return replace(plan, option=said.option, text=said.text, expected=said.expected)

        return self._candidates(requests, brief, parent, parent.candidate.source, plan_in)

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """What the author of these candidates goes on with: in its next turn, or a correction."""
        plan = trials[0].candidate.plan
        if plan is not None and plan.turn is not None:
            return self._turns.go_on(trials) if self._turns is not None else []
        return self._repaired(brief, parent, trials[0], seed)

    def _repaired(self, brief: Brief, parent: Trial, failed: Trial, seed: int) -> list[Candidate]:
        """One corrected version, by the model that wrote the one that failed."""
        author, plan = failed.candidate.proposer, failed.candidate.plan
        failure = failed.outcome
        if author not in self._models or not isinstance(failure, Failed):
            return []
        if failure.kind in NOT_REPAIRED:
            return []
        messages = self._prompts.repair(brief, parent, failed)
        request = self._request(author, "repair", messages, seed, 0)
        if plan is not None:
            own = without_template(plan.parameters)
            plan = replace(plan, parameters={**own, "repairs": failed.candidate.id})
        base = failed.candidate.source
        return self._candidates([request], brief, parent, base, lambda reply: plan)

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The normal form of the target's language."""
        return target.language.normal_form(source)

    def _candidates(
        self,
        requests: Sequence[Request],
        brief: Brief,
        parent: Trial,
        base: str,
        plan_in: Callable[[Reply], Plan | None],
    ) -> list[Candidate]:
        """Candidates in the replies, each with its plan; edits are applied to `base`."""
        found: list[Candidate] = []
        for request, reply in zip(requests, self._caller.ask(requests), strict=True):
            if reply is None:
                continue
            source = self._source(reply, base, brief.target.language)
            plan = None
            if not isinstance(source, ReplyFailed):
                source, plan = self._filled_in(source, plan_in(reply), brief.target.language)
            if isinstance(source, ReplyFailed):
                self._reject(request, source)
            else:
                found.append(Candidate(source, parent.candidate.id, plan, request.model))
        return found

    def _filled_in(
        self, source: str, plan: Plan | None, language: KernelLanguage
    ) -> tuple[str | ReplyFailed, Plan | None]:
        """A kernel as it stands, or a template's first instance, whose plan has the template."""
        if not self._templates or plan is None:
            return source, plan
        try:
            template = parse_template(source, language.templates)
        except InputError as error:
            return ReplyFailed("template", str(error)), plan
        if template is None:
            return source, plan
        values = template.planned(template.first)
        parameters = {**plan.parameters, **values, "template": source}
        return template.instance(template.first), replace(plan, parameters=parameters)

    def _source(self, reply: Reply, base: str, language: KernelLanguage) -> str | ReplyFailed:
        """The kernel in a reply: edits where they were asked for and given, else a whole one."""
        edits = read_edits(reply.text) if self._edits and reply.stop == "end" else []
        source = apply_edits(base, edits) if edits else read_code(reply, language)
        form = language.normal_form
        if isinstance(source, str) and form(source) == form(base):
            return ReplyFailed("unchanged")
        return source

    def _request(
        self, model: str, phase: Phase, messages: tuple[Message, ...], seed: int, number: int
    ) -> Request:
        as_json = phase == "plan" and parse_model(model).options.json
        return Request(
            model=model,
            phase=phase,
            messages=messages + _AS_JSON if as_json else messages,
            sample=content_id(str(seed), str(number)),
            as_json=as_json,
        )

    def _shares_in(self, brief: Brief) -> tuple[float, ...]:
        """The models' shares in the brief's iteration; () where all have the same."""
        return () if self._shares is None else self._shares.of(brief.iteration)

    def _reject(self, request: Request, failure: ReplyFailed) -> None:
        detail = f" ({failure.detail})" if failure.detail else ""
        self._caller.reject(request, f"{failure.kind}{detail}")

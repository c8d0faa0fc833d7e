"""The proposer that calls language models for plans and implementations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from tilewright.core.records import (
    NOTHING_WORTHWHILE,
    Brief,
    Candidate,
    Failed,
    History,
    Plan,
    TargetBrief,
    Trial,
    content_id,
)
from tilewright.core.templates import without_template
from tilewright.proposers.llm.allocation import AdaptiveShares
from tilewright.proposers.llm.branches import Branches
from tilewright.proposers.llm.caller import Caller, Pending
from tilewright.proposers.llm.conversations import Conversations
from tilewright.proposers.llm.expectations import expected_gain
from tilewright.proposers.llm.kernels import first_instance, source_in
from tilewright.proposers.llm.lessons import describe_mistakes
from tilewright.proposers.llm.messages import Message, Phase, Reply, Request
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.replies import (
    OTHER,
    NothingWorthwhile,
    ReplyFailed,
    read_change,
    read_headings,
    read_plan,
)
from tilewright.proposers.model_shares import implementer, plan_slots, planner

NOT_REPAIRED = ("slower_than_limit", "crash")
"""Failures that contain no information with which a model could correct the kernel."""

_AS_JSON = (
    Message(
        "user",
        "Give the whole answer as one JSON object with the text keys option, change, expected and "
        "plan.",
    ),
)


class LLMProposer:
    """The `Proposer` and `Responder` roles over one or several models.

    Args:
        models: full names of the models, among which plans and implementations are divided.
        prompts: renders the prompts.
        caller: makes the calls.
        edits: replies to implement and repair prompts may be search/replace edits.
        templates: replies may leave numbers open. The candidate has their first values.
        shares: the share of each model in the work; None for equal shares.
        branches: the kernels for which no further plans are requested.
        turns: proposals in several turns; None if a proposal is a plan and its implementation.
    """

    name = "llm"
    waits = True  # mostly waits for others, so it may be called from several threads at once

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
        self._planned_by: dict[str, str] = {}  # the key of the request, by plan id
        self._mistakes: dict[int, list[str]] = {}  # by iteration, those of earlier iterations
        # By plan id: the question for the model, and the history on which it is based.
        self._unplanned: dict[str, tuple[Callable[[str], tuple[Message, ...]], History]] = {}

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans, one call each."""
        return list(self.each_plan(brief, parent, history, count, seed))

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """The plans of `plan`, one by one. All calls have started when this method returns."""
        self._caller.begin_iteration(brief.iteration)
        if parent.candidate.id in self.branches.closed_before(brief.iteration):
            return iter(())
        if self._shares is not None:
            self._shares.begin(brief.iteration, history)
        self._mistakes = {brief.iteration: describe_mistakes(history)}
        shares = self._shares_in(brief)
        slots = plan_slots(brief.iteration, brief.rank, count)
        if self._turns is not None or not self._prompts.in_two_phases:
            return iter(
                [
                    self._unwritten(
                        parent,
                        planner(self._models, slot, shares),
                        slot,
                        partial(self._asked, brief, parent, history, number),
                        history,
                    )
                    for number, slot in enumerate(slots)
                ]
            )
        messages = [self._prompts.plan(brief, parent, history, n) for n in range(count)]
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
        """The plans without duplicates. Of equal plans, the one with the lowest number is kept, so
        that later calls do not depend on the order in which threads finish.
        """
        seen: set[tuple[str, str]] = set()
        done = 0
        for number, (slot, call) in enumerate(calls):
            reply = call.reply()
            if reply is None:
                continue
            offered = self._prompts.menu(brief, parent, number)
            hidden = [option for option in brief.menu if option not in offered]
            read = read_plan(reply, offered, hidden)
            if isinstance(read, ReplyFailed):
                self._reject(call.request, read)
            elif isinstance(read, NothingWorthwhile):
                done += 1
                self._caller.reject(call.request, f"{NOTHING_WORTHWHILE} ({read.reason})")
            elif (read.option, read.text) not in seen:
                seen.add((read.option, read.text))
                plan = Plan(
                    parent_id=parent.candidate.id,
                    option=read.option,
                    text=read.text,
                    proposer=call.request.model,
                    parameters={"slot": slot},
                    expected=read.expected,
                    expected_gain=expected_gain(read.expected, parent),
                )
                self._planned_by[plan.id] = call.request.key
                yield plan
                continue
            self._caller.drop(call.request)
        if done and not seen:
            self.branches.close(parent.candidate.id, brief.iteration)

    def _asked(
        self, brief: Brief, parent: Trial, history: History, number: int, model: str
    ) -> tuple[Message, ...]:
        """The request to a model that writes a kernel at once, or works in turns."""
        if self._turns is None:
            return self._prompts.plan(brief, parent, history, number)
        terms = self._turns.terms(brief, parent, history)
        native = parse_model(model).calls_tools
        return self._prompts.turns(brief, parent, history, number, terms, native)

    def _unwritten(
        self,
        parent: Trial,
        model: str,
        slot: int,
        asked: Callable[[str], tuple[Message, ...]],
        history: History,
    ) -> Plan:
        """A placeholder for a plan, if kernels are requested directly; `implement` then sends
        `asked`.
        """
        plan = Plan(parent.candidate.id, OTHER, "Written without a plan.", model, {"slot": slot})
        self._unplanned[plan.id] = asked, history
        return plan

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Up to `count` candidates, one call each."""
        unplanned = self._unplanned.pop(plan.id, None)
        asked = unplanned[0] if unplanned else None
        mistakes = self._mistakes.get(brief.iteration, [])
        messages = () if asked else self._prompts.implement(brief, parent, plan, mistakes)
        slot = int(plan.parameters.get("slot", 0))
        shares = self._shares_in(brief)
        requests = [
            self._request(author, "implement", asked(author) if asked else messages, seed, number)
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

        by = self._planned_by.pop(plan.id, "")
        return self._candidates(requests, brief, parent, parent.candidate.source, plan_in, by)

    def respond(
        self, brief: Brief, parent: Trial, trials: Sequence[Trial], history: History, seed: int
    ) -> list[Candidate]:
        """The next candidates of the author of these candidates, from its next turn or from a
        correction.
        """
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

        def plan_in(reply: Reply) -> Plan | None:
            change = read_change(reply)
            if plan is None or not change:
                return plan
            return replace(plan, text=f"{change}\n\nThe plan before the correction: {plan.text}")

        return self._candidates([request], brief, parent, base, plan_in)

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
        planned_by: str = "",
    ) -> list[Candidate]:
        """Candidates in the replies, each with its plan; edits are applied to `base`. `planned_by`
        is the key of the request for the plan, if there was one.
        """
        found: list[Candidate] = []
        for request, reply in zip(requests, self._caller.ask(requests, planned_by), strict=True):
            if reply is None:
                continue
            language, plan = brief.target.language, None
            source = source_in(reply, base, language, edits=self._edits)
            if not isinstance(source, ReplyFailed):
                plan = plan_in(reply)
                if self._templates:
                    source, plan = first_instance(source, plan, language)
            if isinstance(source, ReplyFailed):
                self._reject(request, source)
            else:
                found.append(Candidate(source, parent.candidate.id, plan, request.model))
        return found

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
        """The models' shares in the brief's iteration; () if all shares are equal."""
        return () if self._shares is None else self._shares.of(brief.iteration)

    def _reject(self, request: Request, failure: ReplyFailed) -> None:
        detail = f" ({failure.detail})" if failure.detail else ""
        self._caller.reject(request, f"{failure.kind}{detail}")

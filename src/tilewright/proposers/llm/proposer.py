"""Plans and implements by asking language models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tilewright.core.records import Brief, Candidate, Failed, History, Plan, Trial, content_id
from tilewright.proposers.dealing import implementer, plan_slots, planner
from tilewright.proposers.llm.allocation import AdaptiveShares
from tilewright.proposers.llm.caller import Caller, Pending
from tilewright.proposers.llm.edits import apply_edits, read_edits
from tilewright.proposers.llm.messages import Message, Phase, Reply, Request
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.replies import ReplyFailed, read_code, read_plan
from tilewright.proposers.normal_form import normal_form

NOT_REPAIRED = ("slower_than_limit", "crash")
"""Failures that say nothing a model could act on."""

_AS_JSON = (
    Message(
        "user",
        "Give the whole answer as one JSON object with the text keys option, expected and plan.",
    ),
)


class LLMProposer:
    """The `Proposer` and `Repairer` roles over one or several models.

    Args:
        models: full names; plans and implementations are dealt over them.
        prompts: renders what is sent.
        caller: makes the calls.
        edits: replies to implement and repair prompts may be search/replace edits.
        shares: of each model in the work; None for equal ones.
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
        shares: AdaptiveShares | None = None,
    ) -> None:
        self._models = tuple(models)
        self._prompts = prompts
        self._caller = caller
        self._edits = edits
        self._shares = shares

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans, one call each."""
        return list(self.each_plan(brief, parent, history, count, seed))

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """The plans of `plan`; all calls have begun when this returns."""
        messages = self._prompts.plan(brief, parent, history)
        if self._shares is not None:
            self._shares.begin(brief.iteration, history)
        shares = self._shares_in(brief)
        slots = plan_slots(brief.iteration, brief.rank, count)
        calls = self._caller.begin(
            [
                self._request(planner(self._models, slot, shares), "plan", messages, seed, number)
                for number, slot in enumerate(slots)
            ]
        )
        return self._distinct_plans(brief, parent, zip(slots, calls, strict=True))

    def _distinct_plans(
        self, brief: Brief, parent: Trial, calls: Iterable[tuple[int, Pending]]
    ) -> Iterator[Plan]:
        """Of equal plans only the first slot's, so that calls do not depend on who is first."""
        seen: set[tuple[str, str]] = set()
        for slot, call in calls:
            reply = call.reply()
            if reply is None:
                continue
            read = read_plan(reply, brief.menu)
            if isinstance(read, ReplyFailed):
                self._reject(call.request, read)
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

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """Up to `count` candidates, one call each."""
        messages = self._prompts.implement(brief, parent, plan)
        slot = int(plan.parameters.get("slot", 0))
        shares = self._shares_in(brief)
        requests = [
            self._request(author, "implement", messages, seed, number)
            for number in range(count)
            for author in [implementer(self._models, slot, number, count, shares)]
        ]
        return self._candidates(requests, parent, parent.candidate.source, plan)

    def repair(self, brief: Brief, parent: Trial, failed: Trial, seed: int) -> list[Candidate]:
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
            plan = replace(plan, parameters={**plan.parameters, "repairs": failed.candidate.id})
        return self._candidates([request], parent, failed.candidate.source, plan)

    def normalize(self, source: str) -> str:
        """Comments and white space removed."""
        return normal_form(source)

    def _candidates(
        self, requests: Sequence[Request], parent: Trial, base: str, plan: Plan | None
    ) -> list[Candidate]:
        """Candidates in the replies; edits are applied to `base`."""
        found: list[Candidate] = []
        for request, reply in zip(requests, self._caller.ask(requests), strict=True):
            if reply is None:
                continue
            source = self._source(reply, base)
            if isinstance(source, ReplyFailed):
                self._reject(request, source)
            else:
                found.append(Candidate(source, parent.candidate.id, plan, request.model))
        return found

    def _source(self, reply: Reply, base: str) -> str | ReplyFailed:
        """The kernel in a reply: edits where they were asked for and given, else a whole one."""
        edits = read_edits(reply.text) if self._edits and reply.stop == "end" else []
        source = apply_edits(base, edits) if edits else read_code(reply)
        if isinstance(source, str) and normal_form(source) == normal_form(base):
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

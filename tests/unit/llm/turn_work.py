"""One proposal in turns for tests: scripted replies, and a search that evaluates at once."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from world import BRIEF, HISTORY, PARENT, START, MemoryCalls, caller

from tilewright.core.records import Candidate, Failed, Measured, Outcome, Plan, Trial
from tilewright.proposers.llm.messages import Message, Reply, Request
from tilewright.tools.turns import Turns

UNWRITTEN = Plan(PARENT.candidate.id, "other", "Written without a plan.", "command:m", {"slot": 0})
FASTER = START.replace("  fence();\n", "")


def kernel(number: int) -> str:
    return START.replace("copy(x, y)", f"copy{number}(x, y)")


def fenced(*kernels: str) -> str:
    return "".join(f"```c\n{text}```\n" for text in kernels)


def calling(*calls: dict[str, Any]) -> str:
    return f"```json\n{json.dumps(list(calls))}\n```\n"


def outcome_of(source: str) -> Outcome:
    if "wrong" in source:
        return Failed("check", "wrong_result", "y[0]: got 0, expected 7", line=2)
    assert isinstance(PARENT.outcome, Measured)
    latency = 900.0 if "fence" in source else 700.0
    return replace(PARENT.outcome, latency=latency, breakdown={"dma_wait": latency - 300.0})


@dataclass
class ToyCompiler:
    """The `Compiler` role of a target that shows no machine code."""

    problem: Callable[[str], Failed | None]

    def code(self, source: str) -> None:
        return None


class Work:
    """One proposal, driven as a search would: candidates are evaluated, their author goes on."""

    def __init__(
        self,
        *replies: str | Reply,
        most: int = 4,
        check: Callable[[str], Failed | None] = lambda source: None,
        share: int | None = None,
        budget: int | None = None,
        bound: float | None = None,
        model: str = "command:m",
    ) -> None:
        self.model, self.bound = model, bound
        self.store = MemoryCalls()
        self.replies = replies
        made, self.transport = caller(self._reply, self.store)
        self.turns = Turns(made, most, ToyCompiler(check), {"compiler": "13.2"}, share, budget)
        self.trials: list[Trial] = []
        self.rounds: list[list[Candidate]] = []

    def _reply(self, request: Request) -> Reply:
        turn = int(request.phase.removeprefix("turn "))
        said = self.replies[min(turn, len(self.replies)) - 1]
        return Reply(said) if isinstance(said, str) else said

    def go(self, requests: int = 1) -> Work:
        asked = [
            Request(self.model, "implement", (Message("user", "Faster!"),), sample=str(n))
            for n in range(requests)
        ]
        made = self.turns.begin(BRIEF, PARENT, HISTORY, UNWRITTEN, asked)
        while made:
            self.rounds.append(made)
            trials = [
                Trial(len(self.trials) + n, 3, child, self._outcome(child.source))
                for n, child in enumerate(made, 1)
            ]
            self.trials += trials
            made = self.turns.go_on(trials)
        return self

    def _outcome(self, source: str) -> Outcome:
        found = outcome_of(source)
        return replace(found, bound=self.bound) if isinstance(found, Measured) else found

    def heard(self, turn: int) -> str:
        """What the model was answered last before it was asked for this turn."""
        asked = [r for r in self.transport.sent if r.phase == f"turn {turn}"]
        last = asked[0].messages[-1]
        return "\n\n".join(filter(None, (last.text, *(result.text for result in last.results))))

    @property
    def phases(self) -> list[str]:
        return [request.phase for request in self.transport.sent]

    @property
    def notes(self) -> list[str]:
        return [call.note for call in self.store.records.values() if call.note]

"""An upper bound on the cost of a run's calls to models, which is reported before the first
call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.config import Settings
from tilewright.core.records import Brief, Failed, History, Plan, Trial
from tilewright.proposers.llm.conversations import Terms
from tilewright.proposers.llm.messages import Message, Phase, Request, Usage
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.prices import CHARACTERS_PER_TOKEN, Price, reserved_usage
from tilewright.proposers.llm.prompts.render import Prompts


@dataclass(frozen=True, slots=True)
class TurnSizes:
    """The sizes of prompts in the turns of a proposal: the tools, and the characters of their
    answers.

    `answered` is the size of the answers to the last reply, and `folded` that of the shortened
    answers to an earlier reply.
    """

    tools: Sequence[tuple[str, str]]
    answered: int
    folded: int


def forecast(
    names: Sequence[str],
    prices: Mapping[str, Price | None],
    prompts: Prompts,
    brief: Brief,
    start: Trial,
    settings: Settings,
    sizes: TurnSizes,
) -> tuple[int, int, float | None]:
    """Upper bounds on the calls, the tokens and the US dollars of the search (None if a price is
    unknown).

    The bounds assume all iterations, a full beam, a repair of every candidate (or the maximum
    number of turns in every proposal), and replies of the maximum length. Prompts are assumed to be
    as long as those for the starting kernel, and shares to be equal. `sizes` are the sizes of
    turns.
    """
    plan = Plan(start.candidate.id, "", "", "")
    failed = Trial(1, 1, start.candidate, Failed("check", "wrong_result", ""))
    parents = min(1, settings.iterations) + settings.beam * max(0, settings.iterations - 1)
    plans = parents * settings.plans
    candidates = plans * settings.implementations
    calls = 0
    tokens, usd = 0.0, 0.0
    asked: Sequence[tuple[int, Phase, tuple[Message, ...]]] = (
        (plans, "plan", prompts.plan(brief, start, History([start]))),
        (candidates, "implement", prompts.implement(brief, start, plan)),
        (candidates * settings.repairs, "repair", prompts.repair(brief, start, failed)),
    )
    turns = settings.turns_taken
    if turns > 1:
        begun = prompts.turns(brief, start, History([start]), 0, Terms(turns, sizes.tools))
        asked = [(candidates, f"turn {number}", begun) for number in range(1, turns + 1)]
    for number, (count, phase, messages) in enumerate(asked):
        calls += count
        for name in names:
            usage = reserved_usage(Request(name, phase, messages))
            if turns > 1:
                usage = usage + Usage(input=_said_before(name, number, sizes), output=0)
            price = prices[name]
            tokens += count / len(names) * usage.total
            usd += count / len(names) * ((price.usd(usage) or 0.0) if price else 0.0)
    known = all(prices[name] is not None for name in names)
    return calls, round(tokens), usd if known else None


def _said_before(name: str, turns: int, sizes: TurnSizes) -> int:
    """Number of tokens that earlier turns add to a prompt: their replies, and the answers to
    them."""
    if not turns:
        return 0
    answers = sizes.answered + (turns - 1) * sizes.folded
    return turns * parse_model(name).reply_tokens + round(answers / CHARACTERS_PER_TOKEN)

"""What a run's calls to models may use at most, told before the first one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewright.core.config import Settings
from tilewright.core.records import Brief, Failed, History, Plan, Trial
from tilewright.proposers.llm.messages import Message, Phase, Request
from tilewright.proposers.llm.prices import Price, reserved_usage
from tilewright.proposers.llm.prompts.render import Prompts

ANSWERED = 20_000
"""Characters that a further turn adds to the prompt: a reply with kernels, and short answers."""


def forecast(
    names: Sequence[str],
    prices: Mapping[str, Price | None],
    prompts: Prompts,
    brief: Brief,
    start: Trial,
    settings: Settings,
) -> tuple[int, int, float | None]:
    """Calls, tokens and US dollars (None if a price is unknown) that the search may use at most.

    That is with all iterations, a full beam, every candidate repaired or every proposal of as many
    turns as allowed, and every reply as long as allowed. Prompts are taken to be as long as those
    for the starting kernel, shares to be equal.
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
    if settings.turns_taken > 1:
        begun = prompts.turns(brief, start, History([start]), 0, settings.turns_taken, ())
        answers = Message("user", " " * ANSWERED)
        asked = [
            (candidates, f"turn {n}", begun + (answers,) * (n - 1))
            for n in range(1, settings.turns_taken + 1)
        ]
    for count, phase, messages in asked:
        calls += count
        for name in names:
            usage = reserved_usage(Request(name, phase, messages))
            price = prices[name]
            tokens += count / len(names) * usage.total
            usd += count / len(names) * ((price.usd(usage) or 0.0) if price else 0.0)
    known = all(prices[name] is not None for name in names)
    return calls, round(tokens), usd if known else None

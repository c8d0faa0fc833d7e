"""A scripted model for the toy world, and a search that asks it, in a process of its own.

toy_models.py PROJECT MODEL DELAY_S TURNS
"""

from __future__ import annotations

import random
import re
import sys
from collections.abc import Callable
from pathlib import Path

from tilewright import run, session
from tilewright.core import tasks
from tilewright.core.config import Settings
from tilewright.core.records import MenuOption, TargetBrief
from tilewright.core.roles import Executor, Storage
from tilewright.core.tasks import OpenTask
from tilewright.proposers.llm.messages import Reply
from tilewright.testing.model_protocols import ScriptedReply
from tilewright.testing.toy import (
    DIGITS,
    LANGUAGE,
    LATENCY,
    START,
    ToyExecutor,
    ToyTarget,
    ToyTask,
    digits_of,
)
from tilewright.tools.turn_replies import Calls, read_turn

SETTINGS = {"beam": 3, "plans": 3, "implementations": 2, "iterations": 8, "patience": 8}
EVALUATED = "evaluated"
"""File of a project with one line for each kernel that was evaluated and not looked up."""
_CODE = re.compile(r"```toy\n(.*?)\n```", re.DOTALL)


def answer(prompt: str, key: str) -> str:
    """Plans to lower the digit of an option on offer, lowers it, repairs what fell below zero.

    Now and then it answers in prose, cuts a kernel short or lowers a digit too far.
    """
    rng = random.Random(key)
    if "# The tools" in prompt:
        return answer_in_turns(prompt, rng)
    if "# Optimisations to choose from" in prompt:
        return (
            f"OPTION: {rng.choice(re.findall(r'`(lower-[0-9]+)`', prompt))}\n\nBy {rng.random()}."
        )
    if rng.random() < 0.1:
        return "I would lower the first digit of toy()."
    digits = digits_of(_CODE.findall(prompt)[-1])
    if "# What is wrong with it" in prompt:
        digits = [max(0, d) for d in digits]
    else:
        digits[rng.randrange(DIGITS)] -= rng.choice((1, 2, 3, 10))
    return f"```\ntoy {' '.join(map(str, digits))}  toy()  # variant {rng.randint(0, 9)}\n```"


def answer_in_turns(prompt: str, rng: random.Random) -> str:
    """Tries two kernels, or asks what was tried; now and then it writes calls that cannot be read.

    Two proposals may well try the same kernel.
    """
    digits = digits_of(_CODE.findall(prompt)[0])
    blocks, said = "", "OPTION: lower-1\nCHANGE: two digits\n\n"
    for _ in range(2):
        changed = list(digits)
        changed[rng.randrange(DIGITS)] -= rng.choice((1, 2, 3, 10))
        blocks += f"```\ntoy {' '.join(map(str, changed))}  toy()\n```\n"
    call = rng.choice(
        (
            '[{"tool": "try", "kernels": ["A", "B"], "note": "two ways"}]',
            '[{"tool": "evaluate", "kernel": "A"}, {"tool": "profile", "kernel": "best"}]',
            '[{"tool": "tried"}]',
            '[{"tool": "try", "kernels": ["A", "B"]',
            '[{"tool": "submit", "kernel": "B"}]',
        )
    )
    return f"{said}{blocks}```json\n{call}\n```"


def answer_natively(prompt: str, key: str) -> ScriptedReply:
    """The same in turns by calls of the provider's protocol, as far as they can be read."""
    text = answer(prompt, key)
    read = read_turn(Reply(text), LANGUAGE)
    if not isinstance(read, Calls):
        return ScriptedReply(text)
    calls = tuple((call.tool, dict(call.arguments)) for call in read.calls)  # type: ignore[call-overload]
    return ScriptedReply("OPTION: lower-1\nCHANGE: two digits", calls)


class ModelToyTarget(ToyTarget):
    """The toy target with a word on its ISA."""

    def brief(self) -> TargetBrief:
        menu = tuple(MenuOption(f"lower-{i}", f"Lower digit {i}.") for i in range(DIGITS))
        return TargetBrief(
            "toy", "Five digits.", "- No digit below zero.", menu, (), {}, {}, LANGUAGE, LATENCY
        )


class ModelToyTask(ToyTask):
    start = START + " toy()"


def enter_toy_world(
    delay_s: float = 0.0, on_evaluated: Callable[[str], None] = lambda source: None
) -> None:
    """Make a run open the toy target and evaluate without any worker processes."""

    def create_executor(
        opened: OpenTask, settings: object, workers: int | None, storage: Storage | None
    ) -> Executor:
        assert storage is not None
        return ToyExecutor(
            delay_s=delay_s,
            lookup=storage.cached_outcome,
            store=storage.store_outcome,
            on_evaluated=on_evaluated,
        )

    tasks.load_target = lambda name: ModelToyTarget()
    session.create_executor = create_executor


def main(project: str, model: str, delay_s: str, turns: str) -> None:
    evaluated = Path(project) / EVALUATED

    def note(source: str) -> None:
        with evaluated.open("a") as file:
            file.write(f"{source.splitlines()[0]}\n")

    enter_toy_world(float(delay_s), note)
    sizes = SETTINGS if turns == "1" else {**SETTINGS, "iterations": 5, "implementations": 1}
    settings = Settings(proposers=(model,), turns=int(turns), **sizes)
    summary = run.optimize("toy:digits", settings, project=Path(project))
    print(summary.status, summary.best_latency)


if __name__ == "__main__":
    main(*sys.argv[1:])

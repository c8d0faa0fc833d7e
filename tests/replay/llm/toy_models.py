"""A scripted model for the toy world, and a search that asks it, in a process of its own.

toy_models.py PROJECT MODEL DELAY_S
"""

from __future__ import annotations

import random
import re
import sys
from pathlib import Path

from tilewright import run, session
from tilewright.core import tasks
from tilewright.core.config import Settings
from tilewright.core.records import MenuOption, TargetBrief
from tilewright.core.roles import Executor, Storage
from tilewright.core.tasks import OpenTask
from tilewright.testing.toy import DIGITS, START, ToyExecutor, ToyTarget, ToyTask, digits_of

SETTINGS = {"beam": 3, "plans": 3, "implementations": 2, "iterations": 13, "patience": 13}
_CODE = re.compile(r"```c\n(.*?)\n```", re.DOTALL)


def answer(prompt: str, key: str) -> str:
    """Plans to lower the digit of an option on offer, lowers it, repairs what fell below zero.

    Now and then it answers in prose, cuts a kernel short or lowers a digit too far.
    """
    rng = random.Random(key)
    if "# Optimisations to choose from" in prompt:
        return (
            f"OPTION: {rng.choice(re.findall(r'`(lower-[0-9]+)`', prompt))}\n\nBy {rng.random()}."
        )
    if rng.random() < 0.1:
        return "I would lower the first digit of kernel()."
    digits = digits_of(_CODE.findall(prompt)[-1])
    if "# What is wrong with it" in prompt:
        digits = [max(0, d) for d in digits]
    else:
        digits[rng.randrange(DIGITS)] -= rng.choice((1, 2, 3, 10))
    return f"```\ntoy {' '.join(map(str, digits))}  # kernel() variant {rng.randint(0, 9)}\n```"


class ModelToyTarget(ToyTarget):
    """The toy target with a word on its ISA."""

    def brief(self) -> TargetBrief:
        menu = tuple(MenuOption(f"lower-{i}", f"Lower digit {i}.") for i in range(DIGITS))
        return TargetBrief("toy", "Five digits.", "- No digit below zero.", menu, (), {}, {})


class ModelToyTask(ToyTask):
    start = START + "  # kernel()"


def enter_toy_world(delay_s: float = 0.0) -> None:
    """Make a run open the toy target and evaluate without any worker processes."""

    def create_executor(
        opened: OpenTask, settings: Settings, workers: int | None, storage: Storage | None
    ) -> Executor:
        assert storage is not None
        return ToyExecutor(
            delay_s=delay_s, lookup=storage.cached_outcome, store=storage.store_outcome
        )

    tasks.load_target = lambda name: ModelToyTarget()
    session.create_executor = create_executor


def main(project: str, model: str, delay_s: str) -> None:
    enter_toy_world(float(delay_s))
    settings = Settings(proposers=(model,), **SETTINGS)
    summary = run.optimize("toy:digits", settings, project=Path(project))
    print(summary.status, summary.best_latency)


if __name__ == "__main__":
    main(*sys.argv[1:])

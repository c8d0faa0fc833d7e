"""A scripted language model that answers real prompts with rewrites of the built-in rewriter."""

from __future__ import annotations

import re
import threading

from tilewright.core.records import (
    Brief,
    Candidate,
    Failed,
    History,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.proposers.builtin import BuiltinProposer

_CODE = re.compile(r"# The (?:current )?kernel[\w ]*\n\n```\w+\n(.*?)\n```", re.DOTALL)
_STEPS = re.compile(r"^STEPS: (.*)$", re.MULTILINE)
_OPTION = re.compile(r"^\d+\. `([\w-]+)`: ", re.MULTILINE)
_ITERATION = re.compile(r"iteration (\d+) of (\d+)")


class RewriterModel:
    """Answers plan, implement and repair prompts for one target.

    A reply depends only on the prompt and the key. A plan contains its steps in a line that begins
    with `STEPS`; the implement prompt contains the plan, so the steps can be read from it.
    """

    def __init__(self, target: TargetBrief, workload: Workload) -> None:
        self._target = target
        self._workload = workload
        self._turn = threading.Lock()

    def answer(self, prompt: str, key: str) -> str:
        """The reply to a prompt. A repair prompt is answered with the kernel before the change."""
        with self._turn:
            return self._answer(prompt, key)

    def _answer(self, prompt: str, key: str) -> str:
        source = _CODE.findall(prompt)[0] + "\n"
        parent = Trial(0, 0, Candidate(source), Failed("measure", "timeout", "not known here"))
        seed, fence = int(key or "0", 16), self._target.language.fence
        if "# Optimisations to choose from" in prompt:
            return self._plan(prompt, parent, seed)
        steps = _STEPS.search(prompt)
        if steps is None or "# What is wrong with it" in prompt:
            return f"```{fence}\n{source}```"
        plan = Plan(parent.candidate.id, "", "", "builtin", {"steps": steps[1]})
        brief = self._brief((), 1, 1)
        found = BuiltinProposer().implement(brief, parent, plan, 2, seed)
        if not found:
            return "That cannot be done here."
        return f"Done:\n\n```{fence}\n{found[seed % len(found)].source}```"

    def _plan(self, prompt: str, parent: Trial, seed: int) -> str:
        iteration = _ITERATION.search(prompt)
        assert iteration is not None, "every plan prompt says which iteration it is"
        options = _OPTION.findall(prompt.partition("# Optimisations to choose from")[2])
        brief = self._brief(options, int(iteration[1]), int(iteration[2]))
        plans = BuiltinProposer().plan(brief, parent, History([parent]), 1, seed)
        if not plans:
            return "Nothing of this helps here."
        plan = plans[0]
        steps = plan.parameters["steps"]
        return f"OPTION: {plan.option}\nEXPECTED: less\n\n{plan.text}\nSTEPS: {steps}"

    def _brief(self, options: list[str] | tuple[()], iteration: int, iterations: int) -> Brief:
        menu = tuple(option for option in self._target.menu if option.id in options)
        return Brief(self._workload, self._target, menu, iteration, iterations)

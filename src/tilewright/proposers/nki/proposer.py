"""Plans and candidates for NKI kernels, without a language model."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    LeftAlone,
    MenuOption,
    Plan,
    Schedule,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.proposers.nki.ir import Kernel
from tilewright.proposers.nki.planning.moves import carried_out, cost_of
from tilewright.proposers.nki.planning.planner import Draft, draw, extended, varied
from tilewright.proposers.nki.planning.polishing import Latency
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.ignored_code import unread
from tilewright.proposers.nki.reading.kernel import read
from tilewright.proposers.nki.reading.values import UnsupportedError
from tilewright.proposers.plan_variants import lengthened, variant
from tilewright.proposers.wrong_steps import lessons


class NkiProposer:
    """Draws sequences of rewrites. The result depends only on the seed. `name` is the name of the
    proposer in its plans."""

    replays = True

    def __init__(self, name: str) -> None:
        self.name = name

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans, each beginning with an option of the menu."""
        return list(self.each_plan(brief, parent, history, count, seed))

    def each_plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> Iterator[Plan]:
        """The plans of `plan`. The first plan of a run is available long before the others."""
        try:
            kernel = _read(brief, parent)
        except (UnsupportedError, InputError):
            return
        rng = random.Random(f"plan {seed}")
        yield from self._of_schedule(brief, parent, kernel)
        menu = brief.offered()
        soon = brief.iteration <= 1
        latency, learned = _latency(brief), lessons(history, brief)
        techniques = _techniques(brief)
        drafts = draw(
            kernel, menu, techniques, history, count, rng, soon, latency, learned, brief.menu
        )
        for draft in drafts:
            yield self._plan(parent, draft, cost_of(kernel))

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The kernel of the plan, and variants with one further step, or with another number in one
        step."""
        try:
            start = kernel = _read(brief, parent)
            steps = [Step.parse(t) for t in str(plan.parameters.get("steps", "")).split("; ")]
        except (UnsupportedError, InputError, ValueError):
            return []
        for step in steps:
            after = carried_out(kernel, step)
            if after is None:
                return []
            kernel = after
        rng, longest = random.Random(f"implement {seed}"), len(steps) + 1
        made = {} if kernel == start else {print_kernel(kernel): plan}
        for attempt in range(2 * (count - 1)):
            if attempt % 2 == 0:
                taken, changed = extended(tuple(steps), kernel, _techniques(brief), rng, longest)
                more = taken[len(steps) :]
                other = lengthened(plan, [str(s) for s in more], [s.sentence for s in more])
            elif (found := varied(steps, start, rng)) is not None:
                taken, changed = found
                other = variant(plan, _text(taken), "; ".join(map(str, taken)))
            else:
                continue
            made.setdefault(print_kernel(changed), other)
        kept = list(made.items())[:count]
        return [Candidate(s, parent.candidate.id, p, self.name) for s, p in kept]

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        """The code that is never read. The sizes of the arguments may exclude more, as `rewrite`
        reports."""
        return unread(source)

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The normal form of the target's language."""
        return target.language.normal_form(source)

    def _plan(self, parent: Trial, draft: Draft, before: float) -> Plan:
        return Plan(
            parent_id=parent.candidate.id,
            option=draft.option.id,
            text=_text(draft.steps),
            proposer=self.name,
            parameters={"steps": "; ".join(map(str, draft.steps))},
            expected=f"estimated time {before / 1e3:,.1f} -> {draft.cost / 1e3:,.1f} us",
            expected_gain=before / draft.cost if draft.cost else None,
        )

    def _of_schedule(self, brief: Brief, parent: Trial, kernel: Kernel) -> list[Plan]:
        """Used at the start of a run: each earlier run's schedule as a whole, as far as it
        applies."""
        if not brief.schedules or brief.iteration > 1:
            return []
        made = [self._replayed(parent, schedule, kernel) for schedule in brief.schedules]
        plans = {plan.parameters["steps"]: plan for plan in made if plan is not None}
        return list(plans.values())

    def _replayed(self, parent: Trial, schedule: Schedule, kernel: Kernel) -> Plan | None:
        done: list[Step] = []
        before, option = cost_of(kernel), ""
        for plan in schedule.plans:
            for text in plan.steps:
                try:
                    step = Step.parse(text)
                except ValueError:
                    continue  # a step of another version
                after = carried_out(kernel, step)
                if after is not None:
                    kernel, option = after, option or plan.option
                    done.append(step)
        if not done:
            return None
        draft = Draft(MenuOption(option, ""), tuple(done), kernel, cost_of(kernel))
        plan = self._plan(parent, draft, before)
        return replace(plan, text=f"As in {schedule.workload}: {plan.text}")


def _text(steps: Sequence[Step]) -> str:
    text = "; then ".join(step.sentence for step in steps)
    return f"{text[0].upper()}{text[1:]}."


def _read(brief: Brief, parent: Trial) -> Kernel:
    return read(parent.candidate.source, brief.workload, brief.target.language)


def _latency(brief: Brief) -> Latency | None:
    """The target's latency model, if it has one."""
    model = brief.target.model
    if model is None:
        return None
    return lambda kernel: model(print_kernel(kernel), brief.workload)


def _techniques(brief: Brief) -> Sequence[str]:
    """All techniques in the workload's menu, in the order of the menu."""
    options = brief.target.menu_for(brief.workload)
    return list(dict.fromkeys(option.technique for option in options if option.technique))

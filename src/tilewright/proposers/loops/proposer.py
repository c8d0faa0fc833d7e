"""Plans and candidates for plain C loop nests, without any model."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from tilewright.core.errors import InputError
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    LeftAlone,
    MenuOption,
    Plan,
    TargetBrief,
    Trial,
    Workload,
)
from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.analysis.sharing import regions
from tilewright.proposers.loops.compiled_time import compiled_time
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.estimate import estimate
from tilewright.proposers.loops.ir import Kernel, loops
from tilewright.proposers.loops.parsing.syntax import UnsupportedError
from tilewright.proposers.loops.planning.full_sequences import (
    MOST_LOOPS,
    MOST_UNROLLED,
    Whole,
    length,
)
from tilewright.proposers.loops.planning.learned_order import in_learned_order
from tilewright.proposers.loops.planning.replay import replayed
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step, possible, steps_of
from tilewright.proposers.loops.reading import lanes_of, read_kernel, threads_of
from tilewright.proposers.plan_variants import lengthened

_FOLLOW_UPS: Mapping[str, float] = {
    "vectorise": 4, "accumulators": 2, "jam": 2, "reciprocal": 2,
    "exchange": 1, "keep": 1, "split": 1, "block": 1, "interleave": 1, "stage": 1, "pack": 1,
    "share": 2,
}  # fmt: skip
"""Techniques that may complete a plan after its first step, if the target's menu contains them, and
their relative frequencies."""
DRAWN_PER_PLAN = 4
"""Number of plans that are drawn for each one that is kept, for kernels whose time can be
estimated."""
BEAM = 3
"""Number of kernels from which the search for the shortest estimates continues, and that it
returns."""
LONGEST = 5
"""Maximum number of steps of a drawn plan. Every call also makes one plan that vectorises as much
as possible."""
_FLOAT = 4
"""Bytes of a float."""
MOST_STATEMENTS = 96
"""Maximum number of statements of a kernel after a step. Larger kernels do not pay, because
compilers also unroll loops."""


class LoopProposer:
    """Draws sequences of rewrites. The result depends only on the seed. `name` is the name of the
    proposer in its plans."""

    replays = True

    def __init__(self, name: str) -> None:
        self.name = name
        self._shortest: dict[str, list[list[tuple[Step, Kernel]]]] = {}

    def plan(
        self, brief: Brief, parent: Trial, history: History, count: int, seed: int
    ) -> list[Plan]:
        """Up to `count` distinct plans, each beginning with an option of the menu."""
        try:
            kernel = read_kernel(parent.candidate.source, brief.target, brief.workload)
        except InputError:
            return []
        whole, brief = brief.menu, replace(brief, menu=brief.offered(), dropout=0.0)
        reused = self._of_schedules(brief, parent, kernel)
        rng, drawing = random.Random(f"plan {seed}"), _Drawing(brief.target)
        now = estimate(kernel, brief.target)
        wanted = count * (1 if now is None else DRAWN_PER_PLAN)
        found: dict[str, tuple[Plan, float]] = {}
        if now is not None:
            found = self._estimated(brief, parent, kernel, now)
        elif parent.candidate.parent_id is not None:
            found = self._as_it_is_but_shared(brief, parent, kernel, history)
        sequences = drawing.whole(kernel, whole) if now is None else []
        sequences = in_learned_order(sequences, parent, history, drawing.time)
        for attempt in range(4 * count):
            if len(found) == wanted:
                break
            complete = bool(sequences)
            drawn = sequences.pop(0) if complete else drawing.first(kernel, brief.menu, rng)
            if drawn is None:
                continue
            option, steps, after = drawn
            if not complete:
                after = drawing.extend(after, rng, rng.randrange(LONGEST), steps)
            if attempt % 2 == 0:
                after = drawing.shared(after, steps)
            plan = self._plan(parent, option, steps)
            cost = estimate(after, brief.target) or 0.0
            found.setdefault(str(plan.parameters["steps"]), (plan, cost))
        plans = list(found.values())
        if now is None:
            return reused + [plan for plan, _ in plans]
        # The estimate is imprecise, so the other half is taken in the order in which it was drawn.
        best = sorted(plans, key=lambda made: made[1])[: -(-count // 2)]
        rest = [made for made in plans if made not in best][: count - len(best)]
        return reused + [plan for plan, _ in (*best, *rest)]

    def implement(
        self, brief: Brief, parent: Trial, plan: Plan, count: int, seed: int
    ) -> list[Candidate]:
        """The kernel of the plan, and variants with one more step."""
        try:
            kernel = read_kernel(parent.candidate.source, brief.target, brief.workload)
            for text in str(plan.parameters.get("steps", "")).split("; "):
                kernel = Step.parse(text).apply(kernel)
        except (InputError, NotApplicableError, ValueError):
            return []
        rng, drawing = random.Random(f"implement {seed}"), _Drawing(brief.target)
        made = {emit(kernel): plan}
        for _ in range(2 * (count - 1)):
            more: list[tuple[Step, Kernel]] = []
            variant = drawing.extend(kernel, rng, 1, more)
            sentences = [step.sentence(before) for step, before in more]
            longer = lengthened(plan, [str(step) for step, _ in more], sentences)
            made.setdefault(emit(variant), longer)
        kept = list(made.items())[:count]
        return [Candidate(s, parent.candidate.id, p, self.name) for s, p in kept]

    def left_alone(self, target: TargetBrief, source: str, workload: Workload) -> list[LeftAlone]:
        """The first line that is not understood, because then the whole kernel is left
        unchanged."""
        try:
            read_kernel(source, target, workload)
        except UnsupportedError as error:
            text = "".join(source.splitlines()[error.line - 1 : error.line])
            return [LeftAlone(error.line, text.strip(), error.what)]
        return []

    def normalize(self, source: str, target: TargetBrief) -> str:
        """The normal form of the target's language."""
        return target.language.normal_form(source)

    def _estimated(
        self, brief: Brief, parent: Trial, kernel: Kernel, cost: float
    ) -> dict[str, tuple[Plan, float]]:
        """Plans to the kernels with the shortest estimates, if the menu has options that begin
        them."""
        key = f"{brief.target.name} {emit(kernel)}"
        if key not in self._shortest:
            self._shortest[key] = _Drawing(brief.target).shortest(kernel, cost)
        found: dict[str, tuple[Plan, float]] = {}
        for steps in self._shortest[key]:
            first = steps[0][0].technique
            option = next((o for o in brief.menu if o.technique == first), None)
            if option is not None:
                plan = self._plan(parent, option, steps)
                last, before = steps[-1]
                shorter = estimate(last.apply(before), brief.target)
                found[str(plan.parameters["steps"])] = (plan, cost if shorter is None else shorter)
        return found

    def _as_it_is_but_shared(
        self, brief: Brief, parent: Trial, kernel: Kernel, history: History
    ) -> dict[str, tuple[Plan, float]]:
        """The parent with its outermost loops shared among threads, once in a run."""
        steps: list[tuple[Step, Kernel]] = []
        shared = _Drawing(brief.target).shared(kernel, steps)
        option = next((o for o in brief.menu if o.technique == "share"), None)
        if not steps or option is None or history.get(Candidate(emit(shared)).id) is not None:
            return {}
        plan = self._plan(parent, option, steps)
        return {str(plan.parameters["steps"]): (plan, 0.0)}

    def _of_schedules(self, brief: Brief, parent: Trial, kernel: Kernel) -> list[Plan]:
        """Used at the start of a run: each earlier run's schedule as a whole, as far as it
        applies."""
        if brief.iteration > 1:
            return []
        found: dict[str, Plan] = {}
        for schedule in brief.schedules:
            done = replayed(schedule, kernel)
            if done:
                option = MenuOption(schedule.plans[0].option, "")
                plan = self._plan(parent, option, done)
                text = f"As in {schedule.workload}: {plan.text}"
                found.setdefault(str(plan.parameters["steps"]), replace(plan, text=text))
        return list(found.values())

    def _plan(
        self, parent: Trial, option: MenuOption, steps: Sequence[tuple[Step, Kernel]]
    ) -> Plan:
        text = "; then ".join(step.sentence(kernel) for step, kernel in steps)
        return Plan(
            parent_id=parent.candidate.id,
            option=option.id,
            text=f"{text[0].upper()}{text[1:]}.",
            proposer=self.name,
            parameters={"steps": "; ".join(str(step) for step, _ in steps)},
        )


class _Drawing:
    """Draws steps for kernels of one target."""

    def __init__(self, target: TargetBrief) -> None:
        self._target = target
        self._lanes = lanes_of(target)
        self._threads = threads_of(target)
        offered = {option.technique for option in target.menu}
        self._estimates = any("cycles" in c.attributes for c in target.commands)
        registers = target.limits.get("vector_registers", 16)
        self._whole = Whole(self._lanes, registers, frozenset(offered))
        self._follow_ups = {t: w for t, w in _FOLLOW_UPS.items() if t in offered}

    def time(self, kernel: Kernel) -> float:
        """A rough time of a kernel as a compiler makes it."""
        return compiled_time(kernel, _FLOAT * self._lanes)

    def first(
        self, kernel: Kernel, menu: Sequence[MenuOption], rng: random.Random
    ) -> _Begun | None:
        """A random option that applies, at a random place."""
        options = [o for o in menu if o.technique in TECHNIQUES]
        rng.shuffle(options)
        for option in options:
            found = self._drawn(kernel, option.technique, rng)
            if found is not None:
                return option, [(found[0], kernel)], found[1]
        return None

    def whole(self, kernel: Kernel, menu: Sequence[MenuOption]) -> list[_Begun]:
        """Sequences that combine all helpful rewrites: see `full_sequences.py`.

        They are not used after a random step, because an unrolled loop can no longer be vectorised.
        """
        found = []
        for steps, after in self._whole.sequences(kernel):
            option = next((o for o in menu if o.technique == steps[0][0].technique), None)
            if option is not None:
                found.append((option, steps, after))
        return found

    def extend(
        self, kernel: Kernel, rng: random.Random, more: int, steps: list[tuple[Step, Kernel]]
    ) -> Kernel:
        """The kernel after up to `more` further steps, which are appended to the plan."""
        for _ in range(more):
            technique = rng.choices(list(self._follow_ups), list(self._follow_ups.values()))[0]
            found = self._drawn(kernel, technique, rng)
            if found is not None:
                steps.append((found[0], kernel))
                kernel = found[1]
        return kernel

    def shared(self, kernel: Kernel, steps: list[tuple[Step, Kernel]]) -> Kernel:
        """The kernel with its outermost loops shared among the target's threads, if possible.

        An earlier step may already have shared them or an inner loop.
        """
        while len(loops(kernel)) <= MOST_LOOPS:
            found = self._shares(kernel)
            if not found or regions(kernel, found[0][0].loop) > 1:
                break
            steps.append((found[0][0], kernel))
            kernel = found[0][1]
        return kernel

    def shortest(self, kernel: Kernel, cost: float) -> list[list[tuple[Step, Kernel]]]:
        """The plans with the shortest estimates that a beam search finds, the shortest first.

        Each consists of steps and their descriptions.
        """
        beam: list[_Way] = [(cost, [], kernel)]
        shorter: list[_Way] = []
        if length(kernel) > MOST_STATEMENTS // 2:
            return []  # it was unrolled, which is always the last step
        for _ in range(LONGEST):
            found: dict[Kernel, _Way] = {}
            for _, steps, before in beam:
                for technique in self._follow_ups:
                    if technique == "accumulators":
                        continue  # unrolling does not change an estimate
                    for step, after in steps_of(before, technique, self._lanes):
                        if after not in found and len(loops(after)) <= MOST_LOOPS:
                            new = estimate(after, self._target)
                            made = [*steps, (step, before)]
                            found[after] = (cost if new is None else new, made, after)
            beam = _least(found.values())
            if not beam or beam[0][0] >= (shorter[0][0] if shorter else cost):
                break
            shorter = _least([*shorter, *(way for way in beam if way[0] < cost)])
        return [steps for _, steps, _ in shorter]

    def _drawn(
        self, kernel: Kernel, technique: str, rng: random.Random
    ) -> tuple[Step, Kernel] | None:
        if len(loops(kernel)) > MOST_LOOPS:
            return None
        if technique == "share":
            found = self._shares(kernel)
            return found[0] if found else None
        if not self._estimates:
            steps_here = steps_of(kernel, technique, self._lanes)
            found = [made for made in steps_here if length(made[1]) <= MOST_UNROLLED]
            return rng.choice(found) if found else None
        # Many kernels are drawn for each one that is kept, so only the drawn steps are carried out.
        steps = possible(kernel, technique, self._lanes)
        rng.shuffle(steps)
        for step in steps:
            try:
                after = step.apply(kernel)
            except NotApplicableError:
                continue
            if length(after) <= MOST_STATEMENTS:
                return step, after
        return None

    def _shares(self, kernel: Kernel) -> list[tuple[Step, Kernel]]:
        """Loops to share, those for which threads are woken least often first."""
        found = steps_of(kernel, "share", self._lanes, self._threads)
        return sorted(found, key=lambda share: regions(kernel, share[0].loop))


_Begun = tuple[MenuOption, list[tuple[Step, Kernel]], Kernel]
"""The option of a plan, its first steps, and the kernel after them."""

_Way = tuple[float, list[tuple[Step, Kernel]], Kernel]
"""An estimate, the steps, and the kernel."""


def _least(ways: Iterable[_Way]) -> list[_Way]:
    """The kernels with the shortest estimates. Of kernels with the same estimate, which are mostly
    equal, only the first."""
    alike: dict[str, _Way] = {}
    for way in ways:
        alike.setdefault(f"{way[0]:.3g}", way)
    return sorted(alike.values(), key=lambda way: way[0])[:BEAM]

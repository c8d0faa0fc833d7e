"""Draws sequences of steps with a good estimate."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from tilewright.core.records import History, MenuOption
from tilewright.proposers.descent import descended
from tilewright.proposers.learning import Evidence, evidence
from tilewright.proposers.nki.estimate.cost import CHAINED
from tilewright.proposers.nki.ir import Kernel, Loop, Op, size_of
from tilewright.proposers.nki.planning.everywhere import Made, is_large, swept
from tilewright.proposers.nki.planning.masked_plans import MASKED, masked_sequences
from tilewright.proposers.nki.planning.moves import DOES_NOT_FIT, Moves, carried_out, cost_of
from tilewright.proposers.nki.planning.polishing import Latency, polished
from tilewright.proposers.nki.planning.steps import FACTORS, Step, possible
from tilewright.proposers.nki.rewrites.precision import operands_by_product
from tilewright.proposers.wrong_steps import NOTHING_LEARNED, Lessons

POOL = 2
"""Number of drafts for each requested plan."""
DEEPEST = 30
"""Number of steps of the longest sequence."""
SAMPLE, EVERY = 12, 1 << 20
"""Number of steps that are compared before one is taken: for most drafts, and for those that take
the best of all."""
COMPARED, LEAST_SAMPLE = 1500, 3
"""Maximum number of statements of all kernels that are compared before a step of a draft is taken,
and the minimum number of steps. This limits the time for a step of a search."""
ESTIMATES = (CHAINED, 0.3)
"""Weight of the longest chain when complete sequences are chosen."""
SPLIT = 8
"""Number of transfers into which one transfer of many rows is split."""
UNDOING = ("roll", "loosen", "refold", "whole-scan", "jam")
"""Techniques that undo the schedule of a kernel, each followed by complete sequences."""
LAST = ("narrow", "engine")
"""Techniques that are excluded while the best of all steps are taken first: types that the check
may refuse, and the choice of engines, which depends on everything else."""


@dataclass(frozen=True, slots=True)
class Draft:
    """Steps for one option, the resulting kernel, and its estimate in ns."""

    option: MenuOption
    steps: tuple[Step, ...]
    kernel: Kernel
    cost: float

    def allowed_by(self, lessons: Lessons) -> bool:
        """Whether the run has not shown that these steps make wrong results."""
        return lessons.allows([str(step) for step in self.steps])


def draw(
    kernel: Kernel,
    menu: Sequence[MenuOption],
    follow_ups: Sequence[str],
    history: History,
    count: int,
    rng: random.Random,
    soon: bool = False,
    latency: Latency | None = None,
    lessons: Lessons = NOTHING_LEARNED,
    whole_menu: Sequence[MenuOption] = (),
) -> Iterator[Draft]:
    """Up to `count` drafts that begin with an option of the menu.

    `whole_menu` is the menu before dropout, from which a complete sequence gets its option if the
    menu has none for it. Otherwise, dropout could leave a kernel without complete sequences.

    With `soon`, the first complete sequence that lowers the estimate is returned as soon as it is
    known, because the others take several seconds. With `latency`, the next draft is the complete
    sequence with the lowest modelled latency, with further steps that lower it. Steps that made
    wrong results are not repeated. Unproven techniques are used in one draft, the complete sequence
    with the lowest estimate of those that have them.

    Some of the others take the best of all steps repeatedly. For the rest, options are drawn
    according to their gains in this run, and half of them continue with steps that lower the
    estimate as long as there are any. Of the drafts that are kept, half have the lowest estimates,
    and one of the others is a complete sequence. Hidden columns are removed only in complete
    sequences, because the resulting kernels are large.
    """
    learned = evidence(history)
    complete, first_of_all, risky = list[Draft](), list[Draft](), list[Draft]()
    menus = menu, whole_menu
    for draft in _complete(kernel, menus, follow_ups):
        if not draft.allowed_by(lessons):
            continue
        if lessons.has_unproven(map(str, draft.steps)):
            risky.append(draft)
            continue
        complete.append(draft)
        if soon and count > 1 and not first_of_all and draft.cost < cost_of(kernel):
            first_of_all.append(draft)
            yield draft
    if latency is not None and count > len(first_of_all):
        made = [((), kernel), *((draft.steps, draft.kernel) for draft in complete)]
        found = polished(made, follow_ups, latency)
        for draft in _drafted(menus, *found) if found is not None else ():
            if draft not in first_of_all:
                first_of_all.append(draft)
                yield draft
    fitting = [draft for draft in risky if draft.cost < min(cost_of(kernel), DOES_NOT_FIT)]
    if fitting and lessons.may_risk and count > len(first_of_all):
        first_of_all.append(min(fitting, key=lambda draft: draft.cost))
        yield first_of_all[-1]
    count -= len(first_of_all)
    left_out = {"", MASKED, *lessons.unproven}
    menu = [o for o in menu if o.technique not in left_out]
    follow_ups = [technique for technique in follow_ups if technique not in left_out]
    openers = {o.id: _shuffled(kernel, o.technique, rng) for o in menu}
    pool: dict[str, Draft] = {"; ".join(map(str, draft.steps)): draft for draft in complete}
    for attempt in range(4 * POOL * count):
        if len(pool) >= POOL * count or not openers:
            break
        option = max(
            (o for o in menu if o.id in openers),
            key=lambda o: learned.get(o.id, Evidence()).sampled_value(rng),
        )
        first = _next(kernel, openers[option.id])
        if first is None:
            del openers[option.id]
            continue
        steps: tuple[Step, ...] = (first[0],)
        after = first[1]
        if attempt % 4:
            longest = DEEPEST if attempt % 2 else 3
            steps, after = extended(steps, after, follow_ups, rng, longest)
        draft = Draft(option, steps, after, cost_of(after))
        pool.setdefault("; ".join(map(str, steps)), draft)
    fitting = [
        draft
        for draft in pool.values()
        if draft.cost < DOES_NOT_FIT and draft not in first_of_all and draft.allowed_by(lessons)
    ]
    ranked = sorted(fitting, key=lambda draft: draft.cost)
    chosen = ranked[: -(-count // 2)]
    others = [draft for draft in complete if draft in fitting and draft not in chosen]
    if others and len(chosen) < count:
        chosen.append(rng.choice(others))
    rest = [draft for draft in ranked if draft not in chosen]
    yield from chosen
    yield from rng.sample(rest, min(len(rest), count - len(chosen)))


def _complete(
    kernel: Kernel, menus: Sequence[Sequence[MenuOption]], techniques: Sequence[str]
) -> Iterator[Draft]:
    """Complete sequences, each for the option of its first technique that a menu offers."""
    for steps, after in complete_sequences(kernel, techniques):
        yield from _drafted(menus, steps, after)


def _drafted(
    menus: Sequence[Sequence[MenuOption]], steps: tuple[Step, ...], after: Kernel
) -> Iterator[Draft]:
    """A draft for the option of the first technique that the first menu offers, or else the next
    menu, if any offers one."""
    used = dict.fromkeys(step.technique for step in steps)
    options = (o for menu in menus for name in used for o in menu if o.technique == name)
    option = next(options, None)
    if option is not None:
        yield Draft(option, steps, after, cost_of(after))


def complete_sequences(
    kernel: Kernel, techniques: Sequence[str]
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """Complete sequences. Those that remove what a mask hides come first.

    The following ones take the best of all steps repeatedly, by each of the `ESTIMATES`: see
    `_by_one_estimate`. The first step determines where a sequence ends, so two estimates lead to
    two ends. A kernel whose loops are written out is changed at all similar places at once, and
    once more after these are loops again. Each sequence is followed by the same one with large
    transfers split.
    """
    if MASKED in techniques:
        yield from masked_sequences(kernel, techniques)
        techniques = tuple(t for t in techniques if t != MASKED)
    for first, start in _starts(kernel, techniques):
        for chained in ESTIMATES:
            one_way = _swept if is_large(start) else _by_one_estimate
            for more, after in one_way(start, techniques, chained):
                steps = (*first, *more)
                yield steps, after
                if "pieces" in techniques and (split := in_pieces(steps, after)) != (steps, after):
                    yield split


def _starts(kernel: Kernel, techniques: Sequence[str]) -> Iterator[Made]:
    """The kernel, and the same with more and more decisions undone that fit only its schedule."""
    steps: tuple[Step, ...] = ()
    yield steps, kernel
    for technique in UNDOING:
        before = kernel
        for step in _undoing(kernel, technique) if technique in techniques else ():
            after = carried_out(kernel, step)
            if after is not None and (technique != "jam" or cost_of(after) < DOES_NOT_FIT):
                steps, kernel = (*steps, step), after
        if kernel is not before:
            yield steps, kernel


def _undoing(kernel: Kernel, technique: str) -> list[Step]:
    """All steps of a technique from the last place to the first, so that earlier places keep their
    numbers, or of `jam` those that run all iterations of inner loops together, the innermost
    first."""
    if technique != "jam":
        return possible(kernel, technique)[::-1]
    inner = [(len(p), s.variable) for p, s in kernel.statements() if isinstance(s, Loop)]
    inner.sort(key=lambda found: -found[0])
    return [Step("jam", (name, "0")) for depth, name in inner if depth > 1]


def in_pieces(steps: tuple[Step, ...], kernel: Kernel) -> tuple[tuple[Step, ...], Kernel]:
    """The kernel with transfers of many rows in loops split, because the estimate does not model
    what they delay.

    Transfers are split from the last to the first, so that the numbers of earlier ones stay the
    same.
    """
    depths = [len(path) for path, statement in kernel.statements() if isinstance(statement, Op)]
    for step in reversed(possible(kernel, "pieces")):
        number, count = map(int, step.arguments)
        if count == SPLIT and depths[number - 1] > 1:
            after = carried_out(kernel, step)
            if after is not None:
                steps, kernel = (*steps, step), after
    return steps, kernel


def _swept(
    kernel: Kernel, techniques: Sequence[str], chained: float
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """Changes at all similar places at once, then the same with the operands of all products in
    bfloat16."""
    starts: list[tuple[tuple[Step, ...], Kernel]] = [((), kernel)]
    if "narrow" in techniques:
        every = frozenset[str]().union(*operands_by_product(kernel))
        starts.append(_narrowed((), kernel, every))
    for narrowed, start in starts:
        more, after = swept(start, techniques, partial(cost_of, chained=chained))
        if narrowed or more:
            yield (*narrowed, *more), after


def _by_one_estimate(
    kernel: Kernel, techniques: Sequence[str], chained: float
) -> Iterator[tuple[tuple[Step, ...], Kernel]]:
    """The best of all steps without those in `LAST`, followed by the choice of engines.

    The first half of each sequence is also returned, because the estimate may be wrong for many
    steps and right for few. From there, the operands of some products are converted to bfloat16: of
    each product, of all others, and of all. The check may refuse this for one product and allow it
    for another.
    """
    steps: tuple[Step, ...] = ()
    wide = tuple(t for t in techniques if t != "narrow")
    for more in (tuple(t for t in wide if t not in LAST), wide):
        longer, after = _descended(more, steps, kernel, chained)
        if longer != steps:
            half = (len(longer) - len(steps)) // 2
            if half:
                yield longer[: len(steps) + half], _after(kernel, longer[len(steps) :][:half])
            steps, kernel = longer, after
            yield steps, kernel
    if "narrow" not in techniques:
        return
    for chosen in some_of(operands_by_product(kernel)):
        narrowed, after = _narrowed(steps, kernel, chosen)
        if narrowed != steps:
            yield _descended(wide, narrowed, after, chained)


def _after(kernel: Kernel, steps: Sequence[Step]) -> Kernel:
    """The kernel after steps that apply."""
    for step in steps:
        kernel = step.apply(kernel)
    return kernel


def _descended(
    techniques: Sequence[str], steps: tuple[Step, ...], kernel: Kernel, chained: float
) -> tuple[tuple[Step, ...], Kernel]:
    """The best of all steps, repeated as long as one lowers the estimate."""
    return descended(Moves(techniques, chained), steps, kernel, random.Random(0), DEEPEST, EVERY)


def some_of(groups: Sequence[frozenset[str]]) -> list[frozenset[str]]:
    """Each group, all groups except each, and all of them; each set once."""
    every = frozenset[str]().union(*groups)
    chosen = [*groups, *(every - group for group in groups), every]
    return [names for names in dict.fromkeys(chosen) if names]


def _narrowed(
    steps: tuple[Step, ...], kernel: Kernel, names: frozenset[str]
) -> tuple[tuple[Step, ...], Kernel]:
    """The kernel with these tiles in bfloat16, as far as possible."""
    for step in possible(kernel, "narrow"):
        if step.arguments[0] in names:
            after = carried_out(kernel, step)
            if after is not None:
                steps, kernel = (*steps, step), after
    return steps, kernel


def extended(
    steps: tuple[Step, ...],
    kernel: Kernel,
    techniques: Sequence[str],
    rng: random.Random,
    most: int,
) -> tuple[tuple[Step, ...], Kernel]:
    """The steps with others, up to `most` steps, each the best of a few and an improvement."""
    compared = max(LEAST_SAMPLE, min(SAMPLE, COMPARED // size_of(kernel)))
    return descended(Moves(techniques), steps, kernel, rng, most, compared)


def varied(
    steps: Sequence[Step], kernel: Kernel, rng: random.Random
) -> tuple[tuple[Step, ...], Kernel] | None:
    """The steps with another number of iterations in one `jam`; None if one no longer applies.

    The estimate distinguishes similar numbers less reliably than techniques.
    """
    places = [n for n, step in enumerate(steps) if step.technique == "jam"]
    if not places:
        return None
    place = rng.choice(places)
    loop, number = steps[place].arguments
    other = rng.choice([factor for factor in FACTORS if str(factor) != number])
    made = (*steps[:place], Step("jam", (loop, str(other))), *steps[place + 1 :])
    for step in made:
        after = carried_out(kernel, step)
        if after is None:
            return None
        kernel = after
    return (made, kernel) if cost_of(kernel) < DOES_NOT_FIT else None


def _shuffled(kernel: Kernel, technique: str, rng: random.Random) -> list[Step]:
    places = possible(kernel, technique)
    rng.shuffle(places)
    return places


def _next(kernel: Kernel, waiting: list[Step]) -> tuple[Step, Kernel] | None:
    """The next step that applies. Steps that were taken are not offered again."""
    while waiting:
        step = waiting.pop()
        after = carried_out(kernel, step)
        if after is not None:
            return step, after
    return None

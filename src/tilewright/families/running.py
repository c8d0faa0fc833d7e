"""Optimises a workload for a set of shapes, and writes one C file that chooses by size.

Each shape is an ordinary run of the project, which reuses the schedules of the runs before it. The
whole file is then evaluated on every shape of the set, and on two shapes outside of it.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from tilewright.core.config import Settings
from tilewright.core.errors import InputError, TilewrightError
from tilewright.core.files import read_text
from tilewright.core.records import Failed, Measured, Outcome
from tilewright.core.roles import ProvidesHeaders
from tilewright.core.tasks import OpenTask, open_workload
from tilewright.core.text import counted
from tilewright.evaluating import evaluate_kernel
from tilewright.families.dispatch import Fallback, Member, called_with, dispatch_source, sizes_of
from tilewright.families.generic import generic_source
from tilewright.run import open_project, optimize
from tilewright.search.events import Event, OnEvent
from tilewright.search.summary import Summary

MOST_SHAPES = 64
_MOST_BYTES = 1 << 16
_SAMPLES = 3
_PRIMES = (127, 131, 101, 71, 109, 103, 113, 79, 73, 137, 83, 97, 151, 89, 67, 139, 149, 107)
"""Sizes for which starting kernels are generated, in order to derive a kernel for any sizes from
them. None is a multiple of a tile, so these kernels contain all the code for partial tiles. Their
order is such that the difference of two sizes is not the same in all samples, because the length of
an array with borders is found as a size plus a constant.
"""
_SMALL_PRIMES = (29, 31, 37, 17, 23, 19)
"""The same for all but the last two sizes, if the arrays would otherwise be too large. The last two
are those that targets divide into the widest tiles, such as the channels of a convolution.
"""


@dataclass(frozen=True, slots=True)
class Row:
    """A shape, and the results of the file for it. `best` is the latency of the run's best kernel,
    or None for a shape outside the set. Latencies are in `unit`. `dispatched` is the latency of the
    call through the dispatch function, or a `Failed` if this call is wrong.
    """

    workload: str
    start: float
    best: float | None
    dispatched: float | Failed
    unit: str
    quantity: str

    @property
    def speedup(self) -> float | None:
        """The latency of a call through the dispatch function relative to the starting kernel."""
        return None if isinstance(self.dispatched, Failed) else self.start / self.dispatched


@dataclass(frozen=True, slots=True)
class ShapeSetResult:
    """The file, its results for the shapes of the set and for others, and the reason why it refuses
    other shapes, if it does.

    `headers` are the texts of the target's headers that a compiler needs for the file, by their
    names.
    """

    source: str
    inside: tuple[Row, ...]
    outside: tuple[Row, ...]
    refusal: str
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def speedup(self) -> float | None:
        """Geometric mean over the set; None if the file fails for a shape."""
        found = [row.speedup for row in self.inside]
        if not found or not all(found):
            return None
        return math.exp(sum(math.log(s or 1.0) for s in found) / len(found))


@dataclass(frozen=True, slots=True)
class ShapeSet:
    """Workloads of one pattern. `names` are the names of the sizes, in the order of the `sizes` of
    each workload.
    """

    pattern: str
    names: tuple[str, ...]
    sizes: Mapping[str, tuple[int, ...]]

    def named(self, sizes: Sequence[int]) -> str:
        """The name of the workload with these sizes."""
        target, _, spec = self.pattern.partition(":")
        for name, size in zip(self.names, sizes, strict=True):
            spec = spec.replace(name, str(size), 1)
        return f"{target}:{spec}"


def read_shape_set(task: str, file: Path, settings: Settings) -> ShapeSet:
    """The workload and those that a file lists, one in each line; `InputError` if they are not a
    set of shapes.
    """
    if Path(task).is_dir():
        raise InputError(
            f"{task} is a folder, whose kernel has fixed sizes. With --shapes, give the name of a "
            "workload, such as gemmini:gemm-256x256x256."
        )
    try:
        lines = read_text(file, _MOST_BYTES).split("\n")
    except OSError as error:
        raise InputError(
            f"shapes file {file} cannot be read ({error.strerror}). Give a text file with one "
            "workload on each line."
        ) from error
    named = [line.partition("#")[0].strip() for line in lines]
    target_name, colon, _ = task.partition(":")
    full = [n if ":" in n or not colon else f"{target_name}:{n}" for n in filter(None, named)]
    opened = [_opened(name, settings) for name in dict.fromkeys([task, *full])]
    workloads = list(dict.fromkeys(one.name for one in opened))
    if not 2 <= len(workloads) <= MOST_SHAPES:
        raise InputError(
            f"shapes file {file} and {task} name {counted(len(workloads), 'workload')}. Give 2 to "
            f"{MOST_SHAPES} shapes, one on each line."
        )
    target = opened[0].target
    for one in opened:
        if one.target.name != target.name:
            raise InputError(
                f"shapes file {file} names {one.name}, but {workloads[0]} is for {target.name}. "
                "All shapes of a set must be for the same target."
            )
    if target.brief().language.name != "C":
        raise InputError(
            f"--shapes writes a C file, and kernels of {target.name} are written in "
            f"{target.brief().language.name}: optimise each shape by itself."
        )
    listed = list(target.workloads())
    shorter = [
        re.sub(r"[a-z]+[A-Z]+$", "", name) for name in listed
    ]  # the last size may be omitted
    for pattern in (*listed, *shorter):
        found = {w: sizes_of(w.partition(":")[2], pattern) for w in workloads}
        if all(found.values()):
            sizes = {w: tuple((of or {}).values()) for w, of in found.items()}
            names = tuple(found[workloads[0]] or ())
            return ShapeSet(f"{target.name}:{pattern}", names, sizes)
    raise InputError(
        f"{' and '.join(workloads[:2])} are not shapes of one pattern. Name workloads that differ "
        "in their sizes only (`tilewright workloads` lists the patterns)."
    )


def _nothing(event: Event) -> None:
    """A listener that ignores all events."""


def optimize_shape_set(
    shapes: ShapeSet,
    settings: Settings,
    *,
    project: Path,
    workers: int | None = None,
    listen: Callable[[], AbstractContextManager[OnEvent]] = lambda: nullcontext(_nothing),
    on_run: Callable[[Summary], None] = lambda summary: None,
    began: float | None = None,
) -> ShapeSetResult | None:
    """Search for each shape, then write and check the file; None after Ctrl-C.

    Each shape has the whole budget of the settings. The time of the first shape is counted from
    `began` (`time.monotonic`), by default from the start of its search. `listen` returns a listener
    for the run of each shape. The same call continues after an interruption.
    """
    found: dict[str, tuple[Summary, str]] = {}
    for workload in shapes.sizes:
        with listen() as on_event:
            summary = optimize(
                workload,
                settings,
                project=project,
                workers=workers,
                on_event=on_event,
                began=began,
            )
        began = None
        on_run(summary)
        if summary.status == "interrupted" and not summary.is_out_of_time:
            return None
        with closing(open_project(project)) as storage:
            best = storage.history(summary.run_id).best
        assert best is not None, "a finished run has measured its starting kernel"
        found[workload] = (summary, best.candidate.source)
    return _checked(shapes, settings, project, found)


def _checked(
    shapes: ShapeSet, settings: Settings, project: Path, found: Mapping[str, tuple[Summary, str]]
) -> ShapeSetResult:
    opened = {workload: _opened(workload, settings) for workload in found}
    arguments = next(iter(opened.values())).task.workload.arguments
    members = [Member(shapes.sizes[w], source) for w, (_, source) in found.items()]
    about = _about(shapes, {w: summary for w, (summary, _) in found.items()})
    fallback = _fallback(shapes, settings)

    def text(general: Fallback | None) -> str:
        return dispatch_source(about, shapes.names, arguments, members, general)

    def call(source: str, one: OpenTask, sizes: Sequence[int]) -> Outcome:
        calling = called_with(source, one.task.start, sizes, arguments)
        return evaluate_kernel(calling, one.name, settings, project=project).outcome

    outside: list[Row] = []
    refusal = "" if fallback else "the starting kernel is not the same for all sizes"
    for sizes in _outside(shapes, fallback) if fallback else ():
        one = _opened(shapes.named(sizes), settings)
        start = evaluate_kernel(one.task.start, one.name, settings, project=project).outcome
        if not isinstance(start, Measured):
            continue
        row = _row(one.name, start, None, call(text(fallback), one, sizes))
        if isinstance(row.dispatched, Failed):
            fallback, outside = None, []
            refusal = f"the starting kernel for any sizes is wrong on {one.name}"
            break
        outside.append(row)
    source = text(fallback)
    inside = []
    for workload, (summary, _) in found.items():
        with closing(open_project(project)) as storage:
            start = storage.history(summary.run_id)[0].outcome
        assert isinstance(start, Measured), "a finished run has measured its starting kernel"
        outcome = call(source, opened[workload], shapes.sizes[workload])
        inside.append(_row(workload, start, summary.best_latency, outcome))
    target = next(iter(opened.values())).target
    headers = target.headers() if isinstance(target, ProvidesHeaders) else {}
    return ShapeSetResult(source, tuple(inside), tuple(outside), refusal, headers)


def _row(workload: str, start: Measured, best: float | None, outcome: Outcome) -> Row:
    dispatched = outcome.latency if isinstance(outcome, Measured) else outcome
    return Row(workload, start.latency, best, dispatched, start.unit, start.quantity)


def _fallback(shapes: ShapeSet, settings: Settings) -> Fallback | None:
    """The starting kernel for any sizes; None if no such kernel can be derived. Sizes that are
    equal in the whole set, such as those of a filter, may remain fixed.
    """
    first, *others = shapes.sizes.values()
    shared = tuple(n for n in range(len(first)) if all(sizes[n] == first[n] for sizes in others))
    for fixed, small in itertools.product(dict.fromkeys([(), shared]), (False, True)):
        free = [n for n in range(len(first)) if n not in fixed]
        samples = [
            tuple({**dict(enumerate(first)), **dict(zip(free, drawn, strict=True))}.values())
            for drawn in _drawn(len(free), small=small)
        ]
        named = [dict(zip(shapes.names, sizes, strict=True)) for sizes in samples]
        try:
            texts = [_opened(shapes.named(sizes), settings).task.start for sizes in samples]
        except TilewrightError:
            continue
        source = generic_source(texts, named) if len(samples) > 1 else None
        if source is not None:
            return Fallback(source, {shapes.names[n]: first[n] for n in fixed})
    return None


def _drawn(count: int, *, small: bool) -> list[tuple[int, ...]]:
    """Different primes for so many sizes of each sample."""
    primes, few = iter(_PRIMES), iter(_SMALL_PRIMES)
    places = [few if small and place < count - 2 else primes for place in range(count)]
    return list(zip(*places, strict=False))[:_SAMPLES]


def _outside(shapes: ShapeSet, fallback: Fallback) -> list[tuple[int, ...]]:
    """Sizes below those of the smallest shape, for which the set has no kernel; at least 2, so that
    the kernel's arrays have every stride.
    """
    least = min(shapes.sizes.values(), key=math.prod)
    named = list(zip(shapes.names, least, strict=True))
    found = [
        tuple(s if n in fallback.only else max(2, s * a // b + c) for n, s in named)
        for a, b, c in ((3, 4, 1), (1, 2, 1))
    ]
    return [sizes for sizes in found if sizes not in shapes.sizes.values()]


def _opened(name: str, settings: Settings) -> OpenTask:
    return open_workload(name, replace(settings, schedule_from="").recorded())


def _about(shapes: ShapeSet, summaries: Mapping[str, Summary]) -> str:
    sizes = ", ".join(f"size_{name}" for name in shapes.names)
    lines = [f"// {shapes.pattern}, written by tilewright optimize --shapes; by {sizes}:"]
    for workload, summary in summaries.items():
        gain = f"{summary.gain:.2f}x over" if summary.gain else "no faster than"
        lines.append(
            f"//   {workload}: {gain} its start ({summary.quantity}), run {summary.run_id}"
        )
    return "\n".join(lines)

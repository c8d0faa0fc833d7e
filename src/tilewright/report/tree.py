"""Computes the layout of the beam as a tree, with iterations as columns and lines from parent to
child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.report.views import TrialState, TrialView

MIN_COLUMN, MAX_COLUMN = 40.0, 150.0
ROW_PITCH = 11.0
"""Vertical distance of neighbours, in units in which a node has the radius 4."""
TOP, SIDE = 34.0, 30.0
SMALLEST_HEIGHT = 150.0
WANTED_WIDTH = 680.0
MOST_NODES = 700
"""Maximum number of nodes of a drawn tree. More could not be distinguished, and would take a
browser long to draw.
"""


@dataclass(frozen=True, slots=True)
class Node:
    """The position of a trial in the tree."""

    x: float
    y: float
    trial: TrialView


@dataclass(frozen=True, slots=True)
class Edges:
    """The curves from parents to all children of one kind, as one SVG path."""

    path: str
    state: TrialState
    winning: bool


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of an iteration."""

    x: float
    label: str


@dataclass(frozen=True, slots=True)
class BeamTree:
    """The tree. The edges of the winning schedule are last, so that they are drawn on top.

    Edges of one kind are one path, because a browser draws one long path faster than many.
    """

    width: float
    height: float
    columns: tuple[Column, ...]
    nodes: tuple[Node, ...]
    edges: tuple[Edges, ...]


def drawn_trials(views: Sequence[TrialView]) -> list[TrialView]:
    """The trials that a tree shows: all, or the most important ones if there are too many.

    The order of importance is: steps of the winning schedule, kernels from which others were
    derived, kernels that were faster than their parents, and the newest kernels. The parents of all
    shown trials are shown.
    """
    if len(views) <= MOST_NODES:
        return list(views)
    parents = {view.parent for view in views}
    order = sorted(
        views,
        key=lambda v: (not v.winning, v.index not in parents, v.state != "kept", -v.index),
    )
    by_index = {view.index: view for view in views}
    chosen: set[int] = set()
    for view in order:
        chain, at = [], view
        while at.index not in chosen:
            chain.append(at.index)
            if at.parent is None:
                break
            at = by_index[at.parent]
        if len(chosen) + len(chain) > MOST_NODES:
            continue
        chosen.update(chain)
        if len(chosen) == MOST_NODES:
            break
    return [view for view in views if view.index in chosen]


def beam_tree(trials: Sequence[TrialView]) -> BeamTree:
    """Position all trials in columns by iteration, and in a column by parent and latency."""
    by_iteration: dict[int, list[TrialView]] = {}
    for trial in trials:
        column = 0 if trial.parent is None else max(1, trial.iteration)
        by_iteration.setdefault(column, []).append(trial)
    tallest = max((len(column) for column in by_iteration.values()), default=1)
    height = max(SMALLEST_HEIGHT, TOP + (tallest + 1) * ROW_PITCH)
    pitch = WANTED_WIDTH / max(1, len(by_iteration))
    pitch = min(MAX_COLUMN, max(MIN_COLUMN, pitch))
    placed: dict[int, Node] = {}
    columns = []
    for position, iteration in enumerate(sorted(by_iteration)):
        x = round(SIDE + position * pitch, 1)
        columns.append(Column(x, "start" if iteration == 0 else str(iteration)))
        _place_column(by_iteration[iteration], x, height, placed)
    paths: dict[tuple[TrialState, bool], str] = {}
    for trial in trials:
        if trial.parent is not None:
            kind = (trial.state, trial.winning)
            paths[kind] = paths.get(kind, "") + _edge(placed[trial.parent], placed[trial.index])
    return BeamTree(
        width=2 * SIDE + (len(columns) - 1) * pitch,
        height=height,
        columns=tuple(columns),
        nodes=tuple(placed[t.index] for t in trials),
        edges=tuple(
            Edges(path, state, winning)
            for (state, winning), path in sorted(
                paths.items(), key=lambda kind: _importance(*kind[0])
            )
        ),
    )


def _place_column(
    column: Sequence[TrialView], x: float, height: float, placed: dict[int, Node]
) -> None:
    """Centre `column` at `x`. Children of one parent are adjacent, the fastest first."""

    def order(trial: TrialView) -> tuple[float, float, int]:
        parent_y = placed[trial.parent].y if trial.parent in placed else 0.0
        latency = trial.latency if trial.latency is not None else float("inf")
        return parent_y, latency, trial.index

    first = TOP + (height - TOP - (len(column) - 1) * ROW_PITCH) / 2
    for row, trial in enumerate(sorted(column, key=order)):
        placed[trial.index] = Node(x, round(first + row * ROW_PITCH, 1), trial)


def _edge(parent: Node, child: Node) -> str:
    middle = round((parent.x + child.x) / 2, 1)
    start, end = f"{parent.x:g} {parent.y:g}", f"{child.x:g} {child.y:g}"
    return f"M{start}C{middle:g} {parent.y:g} {middle:g} {child.y:g} {end}"


def _importance(state: TrialState, winning: bool) -> int:
    return 2 if winning else int(state == "kept")

"""Estimates the time of a kernel whose units work in parallel, with a coarse timeline over loops.

The core issues commands in order. Loads, products and stores wait in their own queues and start
when their unit is free and their operands are available. Two iterations of a loop are simulated,
the first and a later one, and the time of the later one is multiplied. Therefore, full queues that
block the core, late operands, and slots that are not free yet are counted where they occur. Times
are cycles of a machine that multiplies and moves one row per cycle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

LATENCY = 80.0
"""Latency from the end of a load's last row to its use, and from a product to the store of its
result."""
COLD = 40.0
"""Cycles of the core to fetch the code of a command when it is issued for the first time."""
PRODUCTS, LOADS, STORES = 9.0, 10.0, 5.0
"""Number of commands in a unit, in its queue and in progress, before the core waits."""


@dataclass(frozen=True, slots=True)
class Event:
    """One command: its unit, the busy times of the unit and of the core, and the accessed buffers.

    `reads` and `writes` are buffers by number, and `alone` are those of them with a single slot.
    `ahead` says that the products of this iteration do not need a load, and `delayed` that a store
    is for the previous iteration.
    """

    unit: str
    busy: float
    core: float
    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    ahead: bool = False
    delayed: bool = False
    alone: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop: its iterations, the core's time for each, and the buffers that iterations use in
    turn.

    `ahead` are buffers that are loaded one iteration ahead, and `delayed` those that are stored one
    iteration later. `prefetched` are buffers that are loaded for what follows the loop.
    """

    name: str
    times: float
    core: float
    body: tuple[Node, ...]
    ahead: tuple[int, ...] = ()
    delayed: tuple[int, ...] = ()
    prefetched: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """A test with one body for the first iteration of the named loops, and another for later
    ones."""

    first: frozenset[str]
    later: frozenset[str]
    body: tuple[Node, ...]
    orelse: tuple[Node, ...]


Node: TypeAlias = Event | Repeat | Choice


@dataclass(slots=True)
class Timeline:
    """The times at which each unit is free, and at which each buffer was filled, used and
    stored."""

    buffers: int
    core: float = 0.0
    free: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_QUEUES, 0.0))
    ready: list[float] = field(init=False)
    coming: list[float] = field(init=False)
    used: list[float] = field(init=False)
    left: list[float] = field(init=False)
    stored: list[float] = field(init=False)
    last: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_QUEUES, 0.0))
    first: dict[str, bool] = field(default_factory=dict)
    fetched: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ready, self.coming, self.used, self.left, self.stored = (
            [0.0] * self.buffers for _ in range(5)
        )

    @property
    def end(self) -> float:
        """The time at which everything is finished."""
        return max(self.core, *self.free.values())

    def run(self, nodes: Sequence[Node]) -> None:
        """Process the nodes in order."""
        for node in nodes:
            if isinstance(node, Event):
                self._issue(node)
            elif isinstance(node, Repeat):
                self._repeat(node)
            else:
                self.run(node.body if self._holds(node) else node.orelse)

    def _holds(self, choice: Choice) -> bool:
        return all(self.first.get(n, True) for n in choice.first) and all(
            not self.first.get(n, True) for n in choice.later
        )

    def _repeat(self, loop: Repeat) -> None:
        for later in range(min(2, int(loop.times))):
            self.first[loop.name] = not later
            before = self._times() if later else []
            for buffer in loop.ahead:
                self.ready[buffer] = self.coming[buffer]
            for buffer in loop.delayed:
                self.left[buffer] = self.used[buffer]
            self.core += loop.core
            self.run(loop.body)
            if later and loop.times > 2:
                self._advance(before, loop.times - 2)
        self.first.pop(loop.name, None)
        for buffer in loop.prefetched:
            self.ready[buffer] = self.coming[buffer]

    def _times(self) -> list[float]:
        buffers = (self.ready, self.coming, self.used, self.left, self.stored)
        return [self.core, *self.free.values(), *(time for times in buffers for time in times)]

    def _advance(self, before: Sequence[float], times: float) -> None:
        """Advance each time as in the last iteration. A full queue blocks the core.

        A unit that was idle before the last iteration is advanced from the time at which the core
        began that iteration.
        """
        units, begun = len(self.free), before[0]
        after = [
            now + times * max(0.0, now - max(then, begun))
            for then, now in zip(before, self._times(), strict=True)
        ]
        self.free = dict(zip(self.free, after[1:], strict=False))
        self.core = max(
            after[0], *(self.free[u] - held * self.last[u] for u, held in _QUEUES.items())
        )
        count = self.buffers
        self.ready, self.coming, self.used, self.left, self.stored = (
            after[1 + units + n * count : 1 + units + (n + 1) * count] for n in range(5)
        )

    def _issue(self, event: Event) -> None:
        self.core += event.core if id(event) in self.fetched else event.core + COLD
        self.fetched.add(id(event))
        if event.unit == "sync":
            self.core = self.end + LATENCY
            return
        if event.unit not in _QUEUES or not (event.busy or event.reads or event.writes):
            return
        start = max(self.core, self.free[event.unit])
        if event.unit == "execute":
            for buffer in (*event.reads, *event.writes):
                start = max(start, self.ready[buffer])
                if buffer in event.writes and buffer in event.alone:
                    start = max(start, self.stored[buffer])
        elif event.unit == "load":
            for buffer in event.writes:
                if buffer in event.alone:
                    start = max(start, self.used[buffer], self.stored[buffer])
        else:
            used = self.left if event.delayed else self.used
            start = max(start, *(used[buffer] + LATENCY for buffer in event.reads), 0.0)
        end = self.free[event.unit] = start + event.busy
        for buffer in event.writes if event.unit == "load" else ():
            self.coming[buffer] = end + LATENCY
            if not event.ahead:
                self.ready[buffer] = end + LATENCY
        for buffer in (*event.reads, *event.writes) if event.unit == "execute" else ():
            self.used[buffer] = end
        for buffer in event.reads if event.unit == "store" else ():
            self.stored[buffer] = end
        self.last[event.unit] = event.busy or self.last[event.unit]
        self.core = max(self.core, end - _QUEUES[event.unit] * self.last[event.unit])


_QUEUES: Mapping[str, float] = {"execute": PRODUCTS, "load": LOADS, "store": STORES}

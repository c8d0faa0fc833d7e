"""Dynamic gradient descent over tile sizes (ICS'24), as a search that is asked and told."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.cost_model import CostModel
from tilewright.tuner.space import TileSpace


@dataclass(frozen=True)
class GradientSettings:
    """Parameters of the descent; the defaults are the paper's.

    `initial` random points are measured first. A base point's neighbours are ranked by predicted
    throughput, one group of `hops` after the other, and measured `window` at a time. A group ends
    when the next prediction is below `tolerance` of the base's own, or when, with at least
    `patience` of its neighbours seen, a window's best is below `tolerance` of the best measured.

    With a `pool`, starts are not random: of that many random points those are taken that the model
    predicts to be fastest, `apart` hops from each other at least. That needs a model which knows
    something before the first measurement.
    """

    initial: int = 64
    pool: int = 0
    apart: int = 4
    window: int = 3
    hops: tuple[tuple[int, ...], ...] = ((1, 2), (3,))
    tolerance: float = 0.6
    patience: int = 9


PRETRAINED = GradientSettings(initial=16, pool=4096)
"""For a model that knows other workloads: few starts, predicted, leave trials to the descent."""


class GradientSearch:
    """Moves to the first window with a faster neighbour; restarts where there is none.

    The base points to descend from are the initial points, fastest first, then further starts. The
    cost model learns once for each base point, not for each window: all windows of a base point
    are known when the first is measured, so the next can be built meanwhile.
    """

    def __init__(
        self,
        space: TileSpace,
        model: CostModel,
        trials: int,
        seed: int = 0,
        settings: GradientSettings | None = None,
        starts: Candidates | None = None,
    ) -> None:
        """`starts` (what is known of similar workloads) are measured first, as initial points."""
        self._space = space
        self._model = model
        self._left = trials
        self._settings = settings or GradientSettings()
        self._rng = np.random.default_rng(seed)
        self._measured: dict[bytes, float] = {}
        self._unlearned: list[tuple[Candidates, list[float | None]]] = []
        self._none = space.nothing
        self._upcoming = self._none
        self._steps = self._run(starts if starts is not None else self._none)
        self._pending = next(self._steps, self._none)

    def ask(self) -> Candidates:
        """The next window (or the initial points, or a random start); empty at the end."""
        return self._pending

    def upcoming(self) -> Candidates:
        """The window that follows if the pending one holds no faster point."""
        return self._upcoming

    def tell(self, seconds: Sequence[float | None]) -> None:
        """Times of the pending batch; moves the search on."""
        if len(seconds) != len(self._pending):
            raise ValueError(f"{len(seconds)} times told of {len(self._pending)} candidates asked")
        for key, value in zip(self._pending.row_keys(), seconds, strict=True):
            self._measured[key] = float("inf") if value is None else value
        self._unlearned.append((self._pending, list(seconds)))
        self._left -= len(seconds)
        self._pending = next(self._steps, self._none)

    def _run(self, starts: Candidates) -> Generator[Candidates, None, None]:
        """Yields batches to measure; what they took is in `_measured` when it goes on."""
        bases = self._initial(starts)
        if len(bases) == 0:
            return
        yield bases
        bases = bases[np.argsort(self._times(bases), kind="stable")]
        visited: set[bytes] = set()
        while self._left > 0:
            if len(bases):
                base, bases = bases[:1], bases[1:]
                if base.row_keys()[0] in visited:
                    continue
            else:
                if self._settings.pool:
                    self._learn()
                base = self._draw(1, frozenset(self._measured))
                if len(base) == 0:
                    return
                self._upcoming = self._none
                yield base
            at: Candidates | None = base
            while at is not None and self._left > 0:
                visited.add(at.row_keys()[0])
                self._learn()
                at = yield from self._descend(at, visited)

    def _initial(self, starts: Candidates) -> Candidates:
        """Given starts without repetition, filled up with drawn points."""
        count = min(self._settings.initial, self._left)
        first = {key: row for row, key in reversed(list(enumerate(starts.row_keys())))}
        starts = starts[sorted(first.values())][:count]
        more = self._draw(count - len(starts), frozenset(starts.row_keys()))
        return Candidates.concatenate([starts, more])

    def _draw(self, count: int, exclude: frozenset[bytes]) -> Candidates:
        """Up to `count` new points: random ones, or the best predicted of a random pool."""
        if self._settings.pool == 0 or count == 0:
            return self._space.random(count, self._rng, exclude)
        pool = self._space.random(self._settings.pool, self._rng, exclude)
        pool = pool[np.argsort(-self._model.predict(pool), kind="stable")]
        taken = pool[:0]
        while len(taken) < count and len(pool):
            best, pool = pool[:1], pool[1:]
            taken = Candidates.concatenate([taken, best])
            far = self._space.distance(pool, best[np.zeros(len(pool), dtype=np.int64)])
            pool = pool[far >= self._settings.apart]
        return taken

    def _descend(
        self, base: Candidates, visited: set[bytes]
    ) -> Generator[Candidates, None, Candidates | None]:
        """One step from a base point: yields windows, returns the next base point or None."""
        settings = self._settings
        base_time = self._times(base)[0]
        threshold = settings.tolerance * self._model.predict(base)[0]
        for hops in settings.hops:
            ranked = self._ranked(base, hops, threshold)
            for at in range(0, len(ranked), settings.window):
                window = ranked[at : at + settings.window]
                fresh = self._new(window)[: self._left]
                self._upcoming = self._new(ranked[at + settings.window : at + 2 * settings.window])
                if len(fresh):
                    yield fresh
                times = self._times(window)
                best = int(np.argmin(times))
                if times[best] < base_time and window.row_keys()[best] not in visited:
                    return window[[best]]
                if self._left <= 0:
                    return None
                seen = at + len(window)
                if seen >= settings.patience and times[best] > self._slow():
                    break
        return None

    def _ranked(self, base: Candidates, hops: tuple[int, ...], threshold: float) -> Candidates:
        """Neighbours predicted to reach the threshold, best first."""
        near = Candidates.concatenate([self._space.neighbours(base, hop) for hop in hops])
        scores = self._model.predict(near)
        order = np.argsort(-scores, kind="stable")
        return near[order[scores[order] >= threshold]]

    def _slow(self) -> float:
        """Seconds above which a window's best is too far from the best measured."""
        return min(self._measured.values()) / self._settings.tolerance

    def _times(self, candidates: Candidates) -> Floats:
        """Measured seconds of each candidate, infinite where it failed or was not measured."""
        return np.array([self._measured.get(key, np.inf) for key in candidates.row_keys()])

    def _new(self, candidates: Candidates) -> Candidates:
        """Those of the candidates that were not measured yet."""
        return candidates[
            [n for n, key in enumerate(candidates.row_keys()) if key not in self._measured]
        ]

    def _learn(self) -> None:
        """Give the model what was measured since it last learned."""
        if self._unlearned:
            batches = [batch for batch, _ in self._unlearned]
            times = [time for _, told in self._unlearned for time in told]
            self._unlearned = []
            self._model.update(Candidates.concatenate(batches), times)

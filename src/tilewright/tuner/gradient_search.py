"""Dynamic gradient descent over tile sizes (ICS'24), as a search with `ask` and `tell`."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.cost_model import CostModel
from tilewright.tuner.space import TileSpace


@dataclass(frozen=True)
class GradientSettings:
    """Parameters of the descent. The defaults are those of the paper.

    First, `initial` random points are measured. The neighbours of a base point are ranked by
    predicted throughput, for each number of `hops` in turn, and measured in windows of `window`
    points. A group ends when the next prediction is below `tolerance` times the base's prediction.
    It also ends when at least `patience` neighbours were measured and the best of a window is below
    `tolerance` times the best measured throughput.

    With a `pool`, the starting points are not random. They are the points with the best predictions
    among that many random points, at least `apart` hops from each other. This requires a model that
    was trained before the first measurement.
    """

    initial: int = 64
    pool: int = 0
    apart: int = 4
    window: int = 3
    hops: tuple[tuple[int, ...], ...] = ((1, 2), (3,))
    tolerance: float = 0.6
    patience: int = 9


PRETRAINED = GradientSettings(initial=16, pool=4096)
"""Parameters for a model that was trained on other workloads: a few predicted starting points,
so that most trials are left for the descent.
"""


class GradientSearch:
    """Moves to the best point of the first window with a faster neighbour, and restarts if there is
    none.

    The base points are the initial points, fastest first, and then further starting points. The
    cost model is trained once for each base point and not for each window. Therefore, all windows
    of a base point are known when the first is measured, and the next one can be built meanwhile.
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
        """`starts` are points found for similar workloads; they are measured first, as initial
        points."""
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
        """The next window, the initial points or a random starting point; empty at the end."""
        return self._pending

    def upcoming(self) -> Candidates:
        """The window that follows if the pending one contains no faster point."""
        return self._upcoming

    def tell(self, seconds: Sequence[float | None]) -> None:
        """Pass the times of the pending batch to the search."""
        if len(seconds) != len(self._pending):
            raise ValueError(f"{len(seconds)} times were given for {len(self._pending)} candidates")
        for key, value in zip(self._pending.row_keys(), seconds, strict=True):
            self._measured[key] = float("inf") if value is None else value
        self._unlearned.append((self._pending, list(seconds)))
        self._left -= len(seconds)
        self._pending = next(self._steps, self._none)

    def _run(self, starts: Candidates) -> Generator[Candidates, None, None]:
        """Yields batches to measure. When it continues, their times are in `_measured`."""
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
        """The given starting points without duplicates, and random ones up to the required
        number."""
        count = min(self._settings.initial, self._left)
        first = {key: row for row, key in reversed(list(enumerate(starts.row_keys())))}
        starts = starts[sorted(first.values())][:count]
        more = self._draw(count - len(starts), frozenset(starts.row_keys()))
        return Candidates.concatenate([starts, more])

    def _draw(self, count: int, exclude: frozenset[bytes]) -> Candidates:
        """Up to `count` new points: random ones, or those of a random pool with the best
        predictions."""
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
        """One step from a base point: yields windows, and returns the next base point or None."""
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
        """Neighbours whose prediction reaches the threshold, best first."""
        near = Candidates.concatenate([self._space.neighbours(base, hop) for hop in hops])
        scores = self._model.predict(near)
        order = np.argsort(-scores, kind="stable")
        return near[order[scores[order] >= threshold]]

    def _slow(self) -> float:
        """The time above which the best of a window is too slow compared to the best measured
        time."""
        return min(self._measured.values()) / self._settings.tolerance

    def _times(self, candidates: Candidates) -> Floats:
        """Measured seconds of each candidate; infinite if it failed or was not measured."""
        return np.array([self._measured.get(key, np.inf) for key in candidates.row_keys()])

    def _new(self, candidates: Candidates) -> Candidates:
        """The candidates that have not been measured yet."""
        return candidates[
            [n for n, key in enumerate(candidates.row_keys()) if key not in self._measured]
        ]

    def _learn(self) -> None:
        """Train the model with the measurements made since its last training."""
        if self._unlearned:
            batches = [batch for batch, _ in self._unlearned]
            times = [time for _, told in self._unlearned for time in told]
            self._unlearned = []
            self._model.update(Candidates.concatenate(batches), times)

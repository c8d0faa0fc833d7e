"""Dynamic gradient descent on an analytical landscape: determinism, budget, rules."""

from collections.abc import Sequence

import numpy as np
import pytest

from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.gradient_search import PRETRAINED, GradientSearch, GradientSettings
from tilewright.tuner.search import RandomSearch, TileSearch
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import Structure
from tilewright.tuner.workload import matmul

SPACE = TileSpace(matmul(64, 96, 32), Structure("SSRSRS"))


def landscape(points: Candidates) -> Floats:
    """A smooth valley: one plus the distance of log tiles from a fixed tiling."""
    wanted = np.array([[2.0, 4.0, 2.0, 4.0], [2.0, 2.0, 6.0, 4.0], [8.0, 4.0, 1.0, 1.0]])
    return 1.0 + np.abs(np.log2(points.tiles) - np.log2(wanted)).sum(axis=(1, 2))


class Oracle:
    """A cost model that knows the landscape, and counts how often it was taught."""

    def __init__(self) -> None:
        self.updates: list[int] = []

    def update(self, candidates: Candidates, seconds: Sequence[float | None]) -> None:
        assert len(candidates) == len(seconds)
        self.updates.append(len(seconds))

    def predict(self, candidates: Candidates) -> Floats:
        return 1.0 / landscape(candidates)


class Flat(Oracle):
    """Predicts the same of every point."""

    def predict(self, candidates: Candidates) -> Floats:
        return np.ones(len(candidates))


def drive(search: TileSearch, fail: int | None = None, peek: bool = False) -> list[bytes]:
    """Measure until the search ends; every `fail`-th candidate fails."""
    asked: list[bytes] = []
    while len(batch := search.ask()):
        if peek:
            search.upcoming()
            assert search.ask().row_keys() == batch.row_keys()
        times: list[float | None] = [float(time) for time in landscape(batch)]
        for row in range(len(times)):
            if fail and (len(asked) + row) % fail == 0:
                times[row] = None
        asked += batch.row_keys()
        search.tell(times)
    return asked


def times_of(keys: list[bytes]) -> Floats:
    tiles = np.array([np.frombuffer(key, dtype=np.int64) for key in keys]).reshape(-1, 3, 4)
    return landscape(Candidates(tiles, np.zeros((len(tiles), 0), dtype=np.int64)))


def test_same_seed_same_trajectory_whether_or_not_anybody_looks_ahead() -> None:
    one = drive(GradientSearch(SPACE, Oracle(), 100, seed=3))
    two = drive(GradientSearch(SPACE, Oracle(), 100, seed=3), peek=True)
    other = drive(GradientSearch(SPACE, Oracle(), 100, seed=4))
    assert one == two
    assert one != other


@pytest.mark.parametrize("settings", [GradientSettings(), PRETRAINED])
@pytest.mark.parametrize("trials", [1, 5, 64, 65, 150])
def test_exactly_the_trials_are_spent_on_distinct_points(
    trials: int, settings: GradientSettings
) -> None:
    asked = drive(GradientSearch(SPACE, Oracle(), trials, settings=settings))
    assert len(asked) == trials
    assert len(set(asked)) == trials


def test_descent_beats_the_initial_points_and_reaches_the_valley() -> None:
    times = times_of(drive(GradientSearch(SPACE, Oracle(), 150)))
    assert times[64:].min() < times[:64].min()
    assert times.min() == 1.0


def test_failed_candidates_do_not_stop_the_search() -> None:
    asked = drive(GradientSearch(SPACE, Oracle(), 120), fail=4)
    assert len(set(asked)) == 120


def test_all_candidates_failing_ends_with_the_budget() -> None:
    assert len(drive(GradientSearch(SPACE, Oracle(), 70), fail=1)) == 70


def test_what_is_upcoming_is_asked_unless_the_window_improves() -> None:
    search = GradientSearch(SPACE, Oracle(), 400)
    followed = total = 0
    while len(batch := search.ask()):
        promised = search.upcoming().row_keys()
        search.tell([9e9] * len(batch) if len(batch) <= 3 else [float(t) for t in landscape(batch)])
        if promised and len(search.ask()):
            total += 1
            followed += search.ask().row_keys() == promised[: len(search.ask())]
    assert total > 20
    # A window far from the best measured may end its group: only then is the promise not kept.
    assert followed / total > 0.6


def test_the_model_learns_once_for_each_base_point() -> None:
    model = Oracle()
    drive(GradientSearch(SPACE, model, 150))
    assert model.updates[0] == 64
    assert sum(model.updates) <= 150
    assert all(count >= 1 for count in model.updates)


@pytest.mark.parametrize(("tolerance", "neighbours"), [(1.0, False), (0.3, True)])
def test_neighbours_predicted_below_the_tolerance_are_not_measured(
    tolerance: float, neighbours: bool
) -> None:
    best = SPACE.nearest(
        np.array([[[2, 4, 2, 4], [2, 2, 6, 4], [8, 4, 1, 1]]]), np.zeros((1, 0), dtype=np.int64)
    )
    settings = GradientSettings(initial=1, hops=((1,),), tolerance=tolerance)
    search = GradientSearch(SPACE, Oracle(), 30, settings=settings, starts=best)
    search.tell([float(landscape(best)[0])])
    asked = search.ask()
    assert bool((SPACE.distance(asked, SPACE.nearest(best.tiles, best.knobs)) == 1).all()) == (
        neighbours
    )


@pytest.mark.parametrize(("neighbour_s", "measured"), [(1.5, None), (1.7, 9)])
def test_a_group_ends_when_a_window_is_far_slower_than_the_best_measured(
    neighbour_s: float, measured: int | None
) -> None:
    """Far is 1 / tolerance = 1.67 times as slow, once `patience` = 9 neighbours are known."""
    settings = GradientSettings(initial=1, hops=((1,),))
    start = SPACE.random(1, np.random.default_rng(0))
    near = SPACE.neighbours(start, 1).row_keys()
    assert len(near) > 9
    search = GradientSearch(SPACE, Flat(), 60, settings=settings, starts=start)
    search.tell([1.0])
    count = 0
    while set(batch := search.ask().row_keys()) <= set(near):
        count += len(batch)
        search.tell([neighbour_s] * len(batch))
    assert count == (measured or len(near))


def test_a_neighbour_that_was_descended_from_is_passed_over() -> None:
    """The fastest neighbour of the second start is the first start: its others are still asked."""
    settings = GradientSettings(initial=2, hops=((1,),))
    first = SPACE.random(1, np.random.default_rng(0))
    second = SPACE.neighbours(first, 1)[:1]
    near = {*SPACE.neighbours(first, 1).row_keys(), *SPACE.neighbours(second, 1).row_keys()}
    starts = Candidates.concatenate([first, second])
    search = GradientSearch(SPACE, Flat(), 200, settings=settings, starts=starts)
    search.tell([1.0, 1.5])
    while search.ask().row_keys()[0] in near:
        near -= set(search.ask().row_keys())
        search.tell([1.5] * len(search.ask()))
    assert near <= {*first.row_keys(), *second.row_keys()}


def test_given_starts_are_measured_first_and_once() -> None:
    starts = SPACE.random(3, np.random.default_rng(9))
    doubled = Candidates.concatenate([starts, starts])
    search = GradientSearch(SPACE, Oracle(), 40, starts=doubled)
    first = search.ask().row_keys()
    assert first[:3] == starts.row_keys()
    assert len(first) == len(set(first)) == 40


def test_predicted_starts_are_good_and_apart() -> None:
    settings = GradientSettings(initial=8, pool=2000)
    first = GradientSearch(SPACE, Oracle(), 100, settings=settings).ask()
    pool = SPACE.random(2000, np.random.default_rng(0))
    assert len(first) == 8
    assert landscape(first).max() < np.median(landscape(pool))
    assert landscape(first).min() == landscape(pool).min()  # the same seed draws the same pool
    for row in range(len(first)):
        others = first[[n for n in range(len(first)) if n != row]]
        assert (SPACE.distance(others, first[[row] * len(others)]) >= settings.apart).all()


def test_predicted_starts_are_drawn_again_by_a_model_that_knows_all_that_was_measured() -> None:
    settings = GradientSettings(initial=2, pool=60, hops=((1,),))
    told: list[int] = []
    learned_at_draws: list[tuple[int, int]] = []

    class Watched(Flat):
        def predict(self, candidates: Candidates) -> Floats:
            if len(candidates) == settings.pool:
                learned_at_draws.append((sum(self.updates), sum(told)))
            return super().predict(candidates)

    search = GradientSearch(SPACE, Watched(), 80, settings=settings)
    while len(batch := search.ask()):
        told.append(len(batch))
        search.tell([1.0] * len(batch))  # nothing is ever faster than its base
    assert sum(told) == 80
    assert len(learned_at_draws) > 1
    assert all(learned == measured for learned, measured in learned_at_draws)


@pytest.mark.parametrize("settings", [GradientSettings(), PRETRAINED])
def test_a_small_space_is_exhausted_without_hanging(settings: GradientSettings) -> None:
    space = TileSpace(matmul(4, 2, 3), Structure("SSRSRS"))
    search = GradientSearch(space, Flat(), 10_000, settings=settings)
    asked = 0
    while len(batch := search.ask()):
        asked += len(batch)
        search.tell([1.0] * len(batch))
    assert asked == space.size


def test_telling_the_wrong_number_of_times_is_a_defect_of_the_caller() -> None:
    search = GradientSearch(SPACE, Oracle(), 10)
    with pytest.raises(ValueError, match="1 times were given for 10"):
        search.tell([1.0])


def test_random_search_asks_what_it_promised() -> None:
    search = RandomSearch(SPACE, 100, seed=1, batch=16)
    seen: list[bytes] = []
    while len(batch := search.ask()):
        promised = search.upcoming().row_keys()
        seen += batch.row_keys()
        search.tell([None] * len(batch))
        assert search.ask().row_keys() == promised
    assert len(set(seen)) == 100

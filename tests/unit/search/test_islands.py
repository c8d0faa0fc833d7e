"""Islands: places are shared out, ideas that differ survive, and the best ones travel."""

from __future__ import annotations

from tilewright.core.records import Candidate, History, Measured, Trial, Verdict
from tilewright.search.beam import BeamSearch
from tilewright.search.islands import EXCHANGE_EVERY, ISLANDS, Islands, largest_cause

WIDTH = 2 * ISLANDS


def trial(
    index: int, latency: float, parent: int | None, iteration: int, cause: str = "a"
) -> Trial:
    outcome = Measured(
        latency, "cycles", "simulated", 0.5, Verdict(()), breakdown={cause: 9.0, "zz": 1.0}
    )
    parent_id = None if parent is None else Candidate(f"k{parent}").id
    return Trial(index, iteration, Candidate(f"k{index}", parent_id), outcome)


def selected(trials: list[Trial], width: int = WIDTH) -> set[int]:
    return {t.index for t in Islands(width).select(History(trials))}


def test_what_takes_most_time_binds() -> None:
    assert largest_cause(trial(0, 10.0, None, 0, "dma")) == "dma"


def test_descendants_of_a_slower_child_survive_on_an_island_of_their_own() -> None:
    """Where a beam would hold only the descendants of the fastest child."""
    trials = [trial(0, 1000.0, None, 0)]
    trials += [trial(n, 900.0 - 100 * n, 0, 1) for n in (1, 2, 3)]  # one for each island
    trials += [trial(n, 500.0 - 20 * n, 3, 2) for n in range(4, 4 + WIDTH)]
    beam = {t.index for t in BeamSearch(WIDTH).select(History(trials))}
    assert 1 not in beam
    assert {1, 2} <= selected(trials)


def test_a_kernel_that_another_cause_binds_keeps_a_place() -> None:
    trials = [trial(0, 1000.0, None, 0), trial(1, 700.0, 0, 1, "array"), trial(2, 600.0, 0, 1)]
    trials += [
        trial(3, 990.0, 0, 1),
        trial(4, 500.0, 1, 2, "array"),
        trial(5, 450.0, 4, 2, "array"),
    ]
    trials += [trial(6, 650.0, 1, 2, "dma")]
    found = [t.index for t in Islands(WIDTH).select(History(trials))]
    assert found[0] == 5
    assert 6 in found  # before 4, which is faster but bound as 5 is
    assert 4 not in found


def test_the_best_kernel_of_an_island_has_children_on_the_next_one() -> None:
    trials = [trial(0, 1000.0, None, 0)]
    trials += [trial(n, 900.0 - 100 * n, 0, 1) for n in (1, 2, 3)]
    usual = [trial(4, 300.0, 3, 2), trial(5, 200.0, 3, 2), trial(6, 100.0, 3, 2)]
    exchanged = [trial(t.index, t.latency or 0.0, 3, EXCHANGE_EVERY) for t in usual]
    assert 1 in selected(trials + usual)  # the island of 1 holds it and the start alone
    pairs = Islands(WIDTH).select(History(trials + exchanged))
    assert [t.index for t in pairs[:3]] == [6, 2, 3]  # 3 leads its island; its children moved


def test_fewer_places_than_islands_are_fewer_islands() -> None:
    trials = [trial(0, 1000.0, None, 0), *(trial(n, 900.0 - n * 50, 0, 1) for n in (1, 2, 3, 4))]
    for width in range(1, 9):
        assert 1 <= len(Islands(width).select(History(trials))) <= width
    assert Islands(1).select(History(trials)) == BeamSearch(1).select(History(trials))

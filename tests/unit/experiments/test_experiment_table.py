"""What the table of an experiment says, on made-up runs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tilewright.core.budget import Budget
from tilewright.core.config import Settings
from tilewright.experiments.definition import Experiment
from tilewright.experiments.output import page, table_csv
from tilewright.experiments.running import CellResult, Point
from tilewright.experiments.table import evaluations_to, interval, table


def result(
    arm: str, bests: Sequence[float | None], *, workload: str = "w", seed: int = 0
) -> CellResult:
    points = tuple(
        Point(n + 1, 2 * n, 0.5 * n, 10.0 * n, latency) for n, latency in enumerate(bests)
    )
    start, best = bests[0], bests[-1]
    return CellResult(
        *(workload, arm, seed, f"{arm}{seed}", "finished", "over", "cycles", "simulated"),
        *(start, best, len(bests), 0, 2 * len(bests), 1.5, 30.0, points),
    )


def test_speedups_are_geometric_means_over_workloads_and_seeds() -> None:
    runs = [
        result("full", [100, 50], workload="a"),
        result("full", [100, 50 / 4], workload="a", seed=1),
        result("full", [100, 100], workload="b"),
    ]
    row = table(runs, "full")[0]
    assert row.speedup == pytest.approx(2.0)  # 4 on a, 1 on b
    assert row.worst == pytest.approx(1.0)
    assert row.ratio == pytest.approx(1.0)
    assert row.spread == pytest.approx(0.75)
    assert (row.runs, row.failed, row.evaluations, row.calls) == (3, 0, 2, 4)


def test_an_arm_is_compared_with_the_same_workload_and_seed_of_the_baseline() -> None:
    runs = [
        result("full", [100, 90, 50]),
        result("other", [100, 40, 25]),
        result("full", [100, 20, 10], seed=1),
        result("other", [100, 10, 10], seed=1),
        result("other", [100, 1], seed=2),
    ]
    row = table(runs, "full")[1]
    assert row.pairs == 2
    assert row.ratio == pytest.approx(2**0.5)
    assert (row.reached, row.evaluations_to) == (2, 2)
    assert table(runs, "full")[0].evaluations_to == 3


def test_a_run_whose_start_failed_counts_as_failed() -> None:
    row = table([result("full", [None]), result("full", [10, 5], seed=1)], "full")[0]
    assert (row.runs, row.failed, row.speedup) == (2, 1, pytest.approx(2.0))


def test_the_interval_holds_the_mean_and_needs_two_seeds() -> None:
    assert interval({"a": [2.0], "b": [3.0]}) == (None, None)
    low, high = interval({"a": [1.0, 2.0, 4.0], "b": [3.0, 3.0, 3.0]})
    assert low is not None
    assert high is not None
    assert low < (2.0 * 3.0) ** 0.5 < high
    assert interval({"a": [2.0, 2.0]}) == (2.0, 2.0)
    assert interval({"a": [1.0, 2.0, 4.0]}) == interval({"a": [1.0, 2.0, 4.0]})


def test_evaluations_are_counted_until_a_latency_is_reached() -> None:
    points = result("full", [100, 90, 50]).points
    assert evaluations_to(points, 90) == 2
    assert evaluations_to(points, 1) is None


def test_names_reach_the_page_as_text() -> None:
    runs = [result("full", [100, 50], workload="<script>")]
    experiment = Experiment("<b>", "", ("<script>",), (0,), Budget(3), "full", {"full": Settings()})
    html = page(experiment, table(runs, "full"), runs)
    assert "<script>" not in html
    assert "<b>" not in html
    assert html.count("<svg") == 4
    assert table_csv(table(runs, "full")).startswith("arm,runs,failed,speedup")

"""The cost model ranks what it was shown and says what to install where xgboost is missing."""

import sys

import numpy as np
import pytest

from tilewright.core.errors import ToolchainMissingError
from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.cost_model import BoostedTrees
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import Structure
from tilewright.tuner.training_set import TrainingSet
from tilewright.tuner.workload import matmul

SPACE = TileSpace(matmul(64, 96, 32), Structure("SSRSRS"))


class LogTiles:
    """Features: logarithms of all tiles."""

    names = ("tiles",)

    def __call__(self, candidates: Candidates) -> Floats:
        return np.log2(candidates.tiles.reshape(len(candidates), -1))


def times(points: Candidates) -> list[float | None]:
    return [float(t) for t in 1 + np.abs(np.log2(points.tiles[:, :, 2:])).sum(axis=(1, 2))]


def test_unseen_candidates_are_ranked_better_than_by_chance() -> None:
    pytest.importorskip("xgboost", reason="needs the extra [tune]")
    points = SPACE.random(400, np.random.default_rng(0))
    model = BoostedTrees(LogTiles())
    model.update(points[:100], times(points[:100]))
    model.update(points[100:300], times(points[100:300]))
    unseen = points[300:]
    order = np.argsort(-model.predict(unseen))
    actual = np.array(times(unseen), dtype=float)[order]
    assert actual[:20].mean() < np.sort(actual)[:50].mean()


def test_failures_count_as_no_throughput() -> None:
    pytest.importorskip("xgboost", reason="needs the extra [tune]")
    points = SPACE.random(64, np.random.default_rng(0))
    told = times(points)
    model = BoostedTrees(LogTiles())
    model.update(points, [None if n % 2 else t for n, t in enumerate(told)])
    scores = model.predict(points)
    assert scores[::2].mean() > scores[1::2].mean()
    broken = BoostedTrees(LogTiles())
    broken.update(points, [None] * 64)
    assert np.isfinite(broken.predict(points)).all()


def test_predictions_are_those_of_all_trees_up_to_the_best() -> None:
    """Their weighted error on what was learned is the least that training saw."""
    pytest.importorskip("xgboost", reason="needs the extra [tune]")
    points = SPACE.random(40, np.random.default_rng(0))
    told = np.array(times(points), dtype=float)
    labels = told.min() / told
    rows, names = LogTiles()(points), ("other",) * len(points)
    for known in (None, TrainingSet(("tiles",), names, rows, 1 - labels)):
        model = BoostedTrees(LogTiles(), known=known)
        model.update(points, list(told))
        squares = (model.predict(points) - labels) ** 2
        error = np.sqrt(np.average(squares, weights=np.maximum(labels, 0.1)))
        assert error == pytest.approx(model._booster.best_score, rel=1e-3)


def test_predictions_repeat_for_a_seed_and_start_at_zero() -> None:
    pytest.importorskip("xgboost", reason="needs the extra [tune]")
    points = SPACE.random(64, np.random.default_rng(0))
    models = [BoostedTrees(LogTiles(), seed=7) for _ in range(2)]
    assert (models[0].predict(points) == 0).all()
    for model in models:
        model.update(points, times(points))
    assert np.array_equal(models[0].predict(points), models[1].predict(points))


def test_a_pretrained_model_ranks_at_once_and_corrects_itself() -> None:
    pytest.importorskip("xgboost", reason="needs the extra [tune]")
    points = SPACE.random(800, np.random.default_rng(0))
    taught, unseen = points[:400], points[400:]
    actual = np.array(times(unseen), dtype=float)
    relative = 1 / np.array(times(taught), dtype=float)
    rows, names = LogTiles()(taught), ("other",) * len(taught)
    known = TrainingSet(("tiles",), names, rows, relative / relative.max())
    model = BoostedTrees(LogTiles(), known=known)
    first = model.predict(unseen)
    assert actual[np.argsort(-first)[:20]].mean() < np.sort(actual)[:50].mean()
    # This workload is the other way round for half of the points: told some of them, the model
    # follows for the rest of that half and keeps what it knew of the other.
    odd = unseen.tiles[:, 0, 3] > 2
    told = np.flatnonzero(odd)[: odd.sum() // 2]
    rest = np.setdiff1d(np.flatnonzero(odd), told)
    model.update(unseen[told], [0.1] * len(told))
    second = model.predict(unseen)
    assert (second[rest] > first[rest]).mean() > 0.9
    assert len(model.predict(unseen[:0])) == 0


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(ToolchainMissingError, match=r"tilewright\[tune\]"):
        BoostedTrees(LogTiles())

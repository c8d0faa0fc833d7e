"""Predicts the throughput of candidates from their features with gradient-boosted trees, as in the
paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from tilewright.core.errors import ToolchainMissingError
from tilewright.tuner.candidates import Candidates, Floats
from tilewright.tuner.training_set import TrainingSet


class Features(Protocol):
    """Closed-form features of candidates."""

    names: tuple[str, ...]

    def __call__(self, candidates: Candidates) -> Floats:
        """Features of each candidate, (n, len(names))."""
        ...


class CostModel(Protocol):
    """Predicts throughput, and learns from measurements."""

    def update(self, candidates: Candidates, seconds: Sequence[float | None]) -> None:
        """Add measurements (`None` if a candidate failed) and train on all measurements so far."""
        ...

    def predict(self, candidates: Candidates) -> Floats:
        """Predicted throughput of each candidate relative to the best one seen, (n,)."""
        ...


# Parameters of the paper's code (and of the auto-scheduler it extends).
_PARAMETERS = {
    "max_depth": 10,
    "gamma": 0.001,
    "min_child_weight": 0,
    "eta": 0.2,
    "objective": "reg:squarederror",
    "eval_metric": "rmse",
    "verbosity": 0,
}
_MOST_ROUNDS = 10_000
_STOPPING_ROUNDS = 50
# Failed candidates would have no weight, and the model would lead the search back to them.
_LEAST_WEIGHT = 0.1
# For the model of other workloads: each tree sees part of the data and has fewer leaves, because
# the model must generalise to workloads it has not seen. The parameters were chosen by
# cross-validation that leaves out one workload of the shipped set at a time.
_PRETRAINED_PARAMETERS = {
    **_PARAMETERS,
    "max_depth": 8,
    "min_child_weight": 5,
    "eta": 0.05,
    "subsample": 0.7,
    "colsample_bytree": 0.7,
}
_PRETRAINED_ROUNDS = 200


class BoostedTrees:
    """XGBoost on features. The label is the throughput relative to the best measured one, or 0 for
    a failure.

    Every update trains a new model on all measurements. As in the paper, the weight of a sample is
    its throughput (at least a tenth of the best), so that fast candidates are ranked well. Training
    stops when the error on the training samples has not decreased for 50 rounds.

    With `known`, predictions start from a model of other workloads, and the trees of an update
    learn the difference to it.
    """

    def __init__(
        self,
        features: Features,
        seed: int = 0,
        threads: int = 1,
        known: TrainingSet | None = None,
    ) -> None:
        self._features = features
        self._parameters = {**_PARAMETERS, "seed": seed, "nthread": threads}
        self._rows: list[Floats] = []
        self._seconds: list[float | None] = []
        self._booster: Any = None
        self._xgboost = _load_xgboost()
        self._pretrained = None if known is None else fit_known(known, seed, threads)

    def update(self, candidates: Candidates, seconds: Sequence[float | None]) -> None:
        """Add measurements and train on all of them."""
        if len(candidates) == 0:
            return
        self._rows.append(self._features(candidates))
        self._seconds += seconds
        times = np.array([np.inf if s is None else s for s in self._seconds])
        best = times.min()
        labels = best / times if np.isfinite(best) else np.zeros(len(times))
        rows = np.concatenate(self._rows)
        data = self._xgboost.DMatrix(
            rows,
            label=labels,
            weight=np.maximum(labels, _LEAST_WEIGHT),
            base_margin=self._base(rows),
        )
        self._booster = self._xgboost.train(
            self._parameters,
            data,
            num_boost_round=_MOST_ROUNDS,
            evals=[(data, "train")],
            early_stopping_rounds=_STOPPING_ROUNDS,
            verbose_eval=False,
        )

    def predict(self, candidates: Candidates) -> Floats:
        """Predicted relative throughput, (n,); zeros before any training."""
        if len(candidates) == 0:
            return np.zeros(0)
        rows = self._features(candidates)
        base = self._base(rows)
        if self._booster is None:
            return np.zeros(len(candidates)) if base is None else base
        scores = self._booster.inplace_predict(
            rows, iteration_range=(0, self._booster.best_iteration + 1), base_margin=base
        )
        return np.asarray(scores, dtype=np.float64)

    def _base(self, rows: Floats) -> Floats | None:
        """The prediction of the model of other workloads, (n,); None if there is no such model."""
        if self._pretrained is None:
            return None
        return self._pretrained(rows)


def fit_known(known: TrainingSet, seed: int, threads: int) -> Callable[[Floats], Floats]:
    """Train trees on measured candidates. The result predicts (n,) from features (n, features)."""
    xgboost = _load_xgboost()
    trees = xgboost.train(
        {**_PRETRAINED_PARAMETERS, "seed": seed, "nthread": threads},
        xgboost.DMatrix(
            known.rows,
            label=known.throughput,
            weight=np.maximum(known.throughput, _LEAST_WEIGHT),
        ),
        num_boost_round=_PRETRAINED_ROUNDS,
    )
    return lambda rows: np.asarray(trees.inplace_predict(rows), dtype=np.float64)


def _load_xgboost() -> ModuleType:
    """Import xgboost. The import takes a second, so it happens only when a search needs it."""
    try:
        import xgboost
    except ImportError as error:
        raise ToolchainMissingError(
            "the tuner's cost model needs xgboost. Install the extra with `pip install "
            "'tilewright[tune]'`."
        ) from error
    module: ModuleType = xgboost
    return module

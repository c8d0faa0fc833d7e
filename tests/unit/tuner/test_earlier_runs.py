"""What a cost model learns from the runs that a project stores. No kernel is compiled here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if find_spec("tvm") is None:
    pytest.skip("needs the extra 'tune' (TVM)", allow_module_level=True)

from tilewright.core.errors import StorageError
from tilewright.core.tuning_records import TunedTrial, TuningRecord
from tilewright.storage.project import open_tunings
from tilewright.storage.tunings import SqlTunings
from tilewright.tuner.features.cpu import CpuFeatures
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import cpu_structure
from tilewright.tuner.tvm.setup import Method
from tilewright.tuner.tvm.targets import TuningTarget, parse_target
from tilewright.tuner.workload import matmul
from tilewright.tuning import earlier_runs
from tilewright.tuning.earlier_runs import EarlierRun, nearest_runs, recorded_runs, training_set_of
from tilewright.tuning.stored import learned_from

WORKLOAD = matmul(32, 16, 24)
SPACE = TileSpace(WORKLOAD, cpu_structure(WORKLOAD, restricted=True))
METHOD = Method(pretrained=True)
RUN = TuningRecord("a1", "same", "matmul", "family", (64, 16, 8), "cpu", {}, {})
POINT = {"tiles": [[1, 4, 4, 4], [2, 1, 1, 8], [4, 2, 1, 1]], "knobs": [0, 1]}


def trial(key: str, seconds: float | None, point: dict[str, object] | None = None) -> TunedTrial:
    """Of POINT, or of another one."""
    samples, failure = ((), "wrong") if seconds is None else ((seconds,), None)
    return TunedTrial(key, point or POINT, "[]", samples, 1, failure, "", None, 1.0)


@pytest.fixture(scope="module")
def target() -> TuningTarget:
    return parse_target("cpu", 1)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlTunings]:
    opened = open_tunings(tmp_path)
    yield opened
    opened.close()


def test_candidates_of_another_size_teach_by_the_features_of_that_size(
    target: TuningTarget,
) -> None:
    run = EarlierRun(RUN, [trial("a", 4.0), trial("b", None), trial("c", 2.0)])
    again = EarlierRun(
        replace(RUN, id="b2"), [trial("d", 1.0), replace(trial("e", 1.0), point=None)]
    )
    learned = training_set_of([run, again], SPACE, target, METHOD)
    assert learned is not None
    size = WORKLOAD.resized((64, 16, 8))
    assert set(learned.workloads) == {size.signature}
    assert learned.throughput.tolist() == [0.25, 0.0, 0.5, 1.0]
    features = CpuFeatures(size, SPACE.structure, target.device)  # type: ignore[arg-type]
    point = earlier_runs.points_as_stored(TileSpace(size, SPACE.structure), [POINT])
    assert np.array_equal(learned.rows, np.repeat(features(point), 4, axis=0))


def test_each_size_is_relative_to_its_own_best(target: TuningTarget) -> None:
    other = {"tiles": [[1, 4, 2, 4], [2, 1, 1, 8], [4, 2, 1, 1]], "knobs": [0, 1]}
    runs = [
        EarlierRun(RUN, [trial("a", 4.0)]),
        EarlierRun(replace(RUN, id="b2", extents=(32, 16, 8)), [trial("b", 1.0, other)]),
        EarlierRun(replace(RUN, id="c3", extents=(8, 16, 8)), [trial("c", None)]),
    ]
    learned = training_set_of(runs, SPACE, target, METHOD)
    assert learned is not None
    assert learned.throughput.tolist() == [1.0, 1.0]
    assert training_set_of(runs[2:], SPACE, target, METHOD) is None
    assert training_set_of([], SPACE, target, METHOD) is None


@pytest.mark.parametrize(
    "broken",
    [
        {"tiles": [[1, 4, 4, 2], [2, 1, 1, 8], [4, 2, 1, 1]], "knobs": [0, 1]},
        {"tiles": [[1, -4, -4, 4], [2, 1, 1, 8], [4, 2, 1, 1]], "knobs": [0, 1]},
        {"tiles": [[1, 4, 4, 4], [2, 1, 1, 8], [4, 2, 1, 1]], "knobs": [0, 3]},
        {"tiles": [[1, 4, 4, 4], [2, 1, 1, 8], [4, 2, 1, 1]], "knobs": [0, -1]},
    ],
)
def test_a_point_outside_its_space_is_a_broken_store(
    target: TuningTarget, broken: dict[str, object]
) -> None:
    with pytest.raises(StorageError, match="not one of its run's space"):
        training_set_of([EarlierRun(RUN, [trial("a", 1.0, broken)])], SPACE, target, METHOD)


def test_the_nearest_runs_are_read_until_there_are_enough_candidates(
    store: SqlTunings, target: TuningTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, size in (("far", 512), ("near", 64), ("same", 32)):
        store.start(replace(RUN, id=name, extents=(size, 16, 24), target=target.text))
        store.add(name, [trial("a", 1.0), trial("b", 2.0)])
    found = nearest_runs(store, "family", target, WORKLOAD.extents)
    assert [(run.record.id, len(run.trials)) for run in found] == [
        ("same", 2),
        ("near", 2),
        ("far", 2),
    ]
    monkeypatch.setattr(earlier_runs, "CANDIDATES", 3)
    found = nearest_runs(store, "family", target, WORKLOAD.extents)
    assert [run.record.id for run in found] == ["same", "near"]


def test_a_run_that_goes_on_learns_what_it_learned_before(store: SqlTunings) -> None:
    store.start(RUN)
    store.add("a1", [trial("a", 1.0), trial("b", 2.0)])
    (again,) = recorded_runs(store, {"a1": 1, "gone": 5})
    assert (again.record.id, [t.key for t in again.trials]) == ("a1", ["a"])


@pytest.mark.parametrize("broken", [3, {"a1": "2"}, {"a1": -1}, {"a1": True}])
def test_a_record_that_does_not_say_what_it_learned_from_is_broken(broken: object) -> None:
    assert learned_from(RUN) == {}
    assert learned_from(replace(RUN, settings={"learned_from": {"a1": 2}})) == {"a1": 2}
    with pytest.raises(StorageError, match="what a tuning run learned from"):
        learned_from(replace(RUN, settings={"learned_from": broken}))

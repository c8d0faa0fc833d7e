"""Tuning runs in the project database."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tilewright.core.errors import StorageError
from tilewright.core.tuning_records import KnownKernel, TunedKernel, TunedTrial, TuningRecord
from tilewright.storage.project import open_tunings, tuned_kernels
from tilewright.storage.tunings import SqlTunings

RUN = TuningRecord("a1", "same", "matmul", "family", (64, 64, 64), "cpu", {"seed": 0}, {"tvm": "1"})
TRIAL = TunedTrial(
    "k0", {"tiles": [[1, 2]], "knobs": [0]}, "{}", (2.0, 1.0, 3.0), 4, None, "", 0.5, 1.0
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlTunings]:
    opened = open_tunings(tmp_path)
    yield opened
    opened.close()


def test_the_newest_run_of_an_identity_is_found(store: SqlTunings) -> None:
    assert store.latest("same") is None
    store.start(RUN)
    newer = store.start(replace(RUN, id="b2", starts=({"tiles": [[1]], "knobs": []},)))
    store.start(replace(RUN, id="c3", identity="other"))
    assert store.latest("same") == newer
    assert newer.created_at


def test_trials_come_back_as_they_were_in_order(store: SqlTunings) -> None:
    store.start(RUN)
    failed = replace(TRIAL, key="k1", point=None, samples=(), failure="crashed", log="SIGSEGV")
    store.add("a1", [failed])
    store.add("a1", [TRIAL])
    store.add("a1", [])
    assert store.trials("a1") == [failed, TRIAL]


def test_a_trial_that_is_there_stays_as_it_was(store: SqlTunings) -> None:
    store.start(RUN)
    store.add("a1", [TRIAL])
    store.add("a1", [replace(TRIAL, samples=(9.0,))])
    assert store.trials("a1") == [TRIAL]


def test_the_fastest_kernel_of_each_workload_with_the_same_loops(store: SqlTunings) -> None:
    other = {"workload": "mine", "id": "c3", "family": "another"}
    for run in (RUN, replace(RUN, id="b2", identity="other"), replace(RUN, **other)):
        store.start(run)
        store.add(run.id, [replace(TRIAL, key="bad", samples=(), failure="wrong"), TRIAL])
    best = replace(TRIAL, key="best", samples=(1.5,), trace="[1]")
    store.add("b2", [best])
    assert store.fastest("cpu", (64, 64, 64)) == [
        KnownKernel("b2", "matmul", "[1]", 1.5),
        KnownKernel("c3", "mine", "{}", 2.0),
    ]
    assert store.fastest("gpu", (64, 64, 64)) == []
    assert store.fastest("cpu", (64, 64, 32)) == []


def test_how_a_run_ended_is_kept(store: SqlTunings) -> None:
    store.start(RUN)
    store.end("a1", "interrupted", 12.5)
    found = store.latest("same")
    assert found is not None
    assert (found.status, found.wall_s) == ("interrupted", 12.5)


def test_the_fastest_points_of_the_nearest_shapes_come_first(store: SqlTunings) -> None:
    for name, size in (("far", 1024), ("near", 128), ("same", 64)):
        store.start(replace(RUN, id=name, extents=(size, 64, 64)))
        fast, slow = replace(TRIAL, samples=(1.0,)), replace(TRIAL, key="k1", samples=(2.0,))
        store.add(name, [slow, fast, replace(TRIAL, key="k2", failure="wrong", samples=())])
    found = store.nearest("family", "cpu", (64, 64, 64), shapes=2, each=1)
    assert [(tile.extents[0], tile.seconds) for tile in found] == [(64, 1.0), (128, 1.0)]
    assert store.nearest("another", "cpu", (64, 64, 64)) == []
    assert store.nearest("family", "gpu", (64, 64, 64)) == []


def test_runs_of_the_nearest_sizes_come_first_and_of_equal_ones_the_newest(
    store: SqlTunings,
) -> None:
    for name, size in (("far", 1024), ("near", 128), ("nearer", 32), ("same", 64)):
        store.start(replace(RUN, id=name, extents=(size, 64, 64)))
    store.start(replace(RUN, id="other", family="another"))
    near = store.nearest_runs("family", "cpu", (64, 64, 64))
    assert [run.id for run in near] == ["same", "nearer", "near", "far"]
    assert store.nearest_runs("family", "gpu", (64, 64, 64)) == []
    assert store.run("near") == near[2]
    assert store.run("none") is None


def test_the_kernel_of_the_run_with_the_most_trials_counts_for_each_method(
    store: SqlTunings, tmp_path: Path
) -> None:
    first = TunedKernel("a1", "matmul", "A GPU", "AF-DS", 100, 1e-3, "first")
    for run in ("a1", "b2", "c3", "d4"):
        store.start(replace(RUN, id=run))
    store.keep_kernel(replace(first, source="before"))
    store.keep_kernel(first)
    store.keep_kernel(replace(first, run_id="b2", trials=20, source="second"))
    store.keep_kernel(replace(first, run_id="c3", method="MetaSchedule", trials=1000))
    store.keep_kernel(replace(first, run_id="d4", device="Another GPU", trials=200))
    found = tuned_kernels(tmp_path, "matmul", "A GPU")
    assert found == [first, replace(first, run_id="c3", method="MetaSchedule", trials=1000)]
    assert tuned_kernels(tmp_path / "without database", "matmul", "A GPU") == []
    assert not (tmp_path / "without database").exists()


@pytest.mark.parametrize("wrong", [{"seconds": -1.0}, {"trials": 0}, {"source": ""}])
def test_a_tuned_kernel_that_cannot_be_is_refused(
    store: SqlTunings, tmp_path: Path, wrong: dict[str, Any]
) -> None:
    store.start(RUN)
    store.keep_kernel(
        replace(TunedKernel("a1", "matmul", "A GPU", "AF-DS", 100, 1e-3, "first"), **wrong)
    )
    with pytest.raises(StorageError, match="a tuned kernel"):
        tuned_kernels(tmp_path, "matmul", "A GPU")

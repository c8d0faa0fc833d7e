"""Training sets: what is written is read, what is broken is told, what is shipped is as it says."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import ConfigurationError
from tilewright.tuner.features.cpu import FEATURES
from tilewright.tuner.training_set import (
    TrainingSet,
    read_training_set,
    shipped_training_set,
    write_training_set,
)
from tilewright.tuner.workload import conv2d, matmul

SMALL, LARGE, OTHER = matmul(8, 8, 8), matmul(16, 8, 8), conv2d(1, 8, 8, 8, 8, 3, 1, 1)


def some() -> TrainingSet:
    rows = np.array([[1.5, -2.0], [0.25, 1e-3], [3.0, 4.0]])
    workloads = (SMALL.signature, OTHER.signature, LARGE.signature)
    return TrainingSet(("one", "two"), workloads, rows, np.array([1.0, 0.5, 0.0]))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write_training_set(tmp_path / "set.csv.gz", some())
    again = read_training_set(tmp_path / "set.csv.gz")
    assert (again.names, again.workloads) == (some().names, some().workloads)
    assert np.array_equal(again.rows, some().rows)
    assert np.array_equal(again.throughput, some().throughput)


def test_a_workload_can_be_left_out_whatever_its_name() -> None:
    others = some().without(matmul(16, 8, 8, name="mine"))
    assert others.workloads == (SMALL.signature, OTHER.signature)
    assert others.rows.tolist() == [[1.5, -2.0], [0.25, 1e-3]]
    assert others.throughput.tolist() == [1.0, 0.5]
    assert len(some().without(matmul(16, 8, 4)).rows) == 3


def test_a_family_can_be_left_out_and_sets_can_be_joined() -> None:
    products = some().without_family(OTHER.family)
    assert products.workloads == (SMALL.signature, LARGE.signature)
    assert some().without_family(SMALL.family).workloads == (OTHER.signature,)
    both = TrainingSet.concatenate([products, some()])
    assert (both.names, both.workloads) == (some().names, products.workloads + some().workloads)
    assert np.array_equal(both.rows[2:], some().rows)
    assert both.throughput.tolist() == [1.0, 0.0, 1.0, 0.5, 0.0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "workload,one,throughput\n",
        "workload,one,throughput\na,1,x\n",
        "workload,one,throughput\na,1\n",
        "workload,one,throughput\na,1,1\nb,1,1,1\n",
        "one,throughput\n1,1\n",
        "workload,one,two\na,1,1\n",
    ],
)
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "broken.csv.gz"
    file.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(ConfigurationError, match=r"training set .*broken\.csv\.gz"):
        read_training_set(file)


@pytest.mark.parametrize("kept", [0, 5, 30, -4, -9])
def test_a_file_that_was_cut_off_is_named(tmp_path: Path, kept: int) -> None:
    file = tmp_path / "cut.csv.gz"
    write_training_set(file, some())
    file.write_bytes(file.read_bytes()[:kept])
    with pytest.raises(ConfigurationError, match=r"training set .*cut\.csv\.gz"):
        read_training_set(file)


def test_equal_candidates_are_written_as_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_training_set(tmp_path / name, some())
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.csv cannot be read"):
        read_training_set(tmp_path / "none.csv")


def test_the_shipped_set_is_of_the_features_of_cpus() -> None:
    known = shipped_training_set(FEATURES)
    assert known is not None
    assert len(known.workloads) == len(known.rows) == len(known.throughput) > 1000
    assert np.isfinite(known.rows).all()
    assert ((known.throughput >= 0) & (known.throughput <= 1)).all()
    assert shipped_training_set(("waves",)) is None


def test_the_shipped_set_holds_each_workloads_best() -> None:
    known = shipped_training_set(FEATURES)
    assert known is not None
    best: dict[str, float] = {}
    for name, throughput in zip(known.workloads, known.throughput, strict=True):
        best[name] = max(best.get(name, 0.0), float(throughput))
    assert len(best) > 10
    assert set(best.values()) == {1.0}

"""Training sets: what is written is read, what is broken is told, what is shipped is as it says."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tilewright.core.errors import ConfigurationError
from tilewright.tuner import training_set
from tilewright.tuner.benchmark_set import CONVOLUTIONS, MATMULS
from tilewright.tuner.features.cpu import FEATURES
from tilewright.tuner.training_set import (
    TrainingSet,
    read_training_set,
    shipped_training_set,
    write_training_set,
)

SHIPPED = Path(training_set.__file__).parent / "training_sets" / "cpu.csv"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    rows = np.array([[1.5, -2.0], [0.25, 1e-3], [3.0, 4.0]])
    known = TrainingSet(("one", "two"), rows, np.array([1.0, 0.5, 0.0]))
    write_training_set(tmp_path / "set.csv", known, ["a", "a", "b"])
    again = read_training_set(tmp_path / "set.csv")
    assert again.names == known.names
    assert np.array_equal(again.rows, rows)
    assert np.array_equal(again.throughput, known.throughput)


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
    file = tmp_path / "broken.csv"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match=r"training set .*broken\.csv"):
        read_training_set(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"none\.csv cannot be read"):
        read_training_set(tmp_path / "none.csv")


def test_the_shipped_set_is_of_the_features_of_cpus() -> None:
    known = shipped_training_set(FEATURES)
    assert known is not None
    assert len(known.rows) == len(known.throughput) > 1000
    assert np.isfinite(known.rows).all()
    assert ((known.throughput >= 0) & (known.throughput <= 1)).all()
    assert shipped_training_set(("waves",)) is None


def test_the_shipped_set_holds_each_workloads_best_and_none_of_the_benchmark_set() -> None:
    with SHIPPED.open(newline="") as opened:
        best: dict[str, float] = {}
        for row in csv.DictReader(opened):
            best[row["workload"]] = max(best.get(row["workload"], 0), float(row["throughput"]))
    assert set(best.values()) == {1.0}
    compared = {"matmul-" + "x".join(map(str, sizes)) for sizes in MATMULS.values()} | {
        f"conv2d-1x{inputs}x{size}x{size}-f{filters}k{kernel}s{stride}p{kernel // 2}"
        for filters, inputs, size, kernel, stride in CONVOLUTIONS.values()
    }
    assert len(compared) == 30
    assert not compared & set(best)

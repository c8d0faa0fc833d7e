"""CPU features of a tile by hand, and what they must not depend on."""

import numpy as np
import pytest

from tilewright.tuner.benchmark_set import IDENTIFIERS, benchmark_workload
from tilewright.tuner.candidates import Candidates
from tilewright.tuner.device import CpuDevice
from tilewright.tuner.features.cpu import CpuFeatures
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import cpu_structure
from tilewright.tuner.workload import matmul

DEVICE = CpuDevice(
    "test", cores=2, vector_bytes=64, vector_registers=32, l1_bytes=32768, l2_bytes=1 << 20
)


def features_by_name(tiles: list[list[int]], knobs: list[int]) -> dict[str, float]:
    workload = matmul(512, 768, 256)
    features = CpuFeatures(workload, cpu_structure(workload), DEVICE)
    values = features(Candidates(np.array([tiles]), np.array([knobs])))[0]
    return dict(zip(features.names, values, strict=True))


def test_features_of_one_matmul_tile_by_hand() -> None:
    # Register tile 8x32, L1 tile 16x32 over k=16, L2 tile 64x64 over all of k; 8x12 parallel jobs.
    values = features_by_name([[8, 4, 2, 8], [12, 2, 1, 32], [16, 16, 1, 1]], [2, 1])
    assert values["oi_register"] == pytest.approx(np.log2(8 * 32 / (8 + 32)))
    assert values["oi_l1"] == pytest.approx(
        np.log2(16 * 32 * 16 / (16 * 16 + 16 * 32 + 2 * 16 * 32))
    )
    assert values["oi_l2"] == pytest.approx(
        np.log2(64 * 64 * 256 / (64 * 256 + 256 * 64 + 64 * 64))
    )
    assert values["l1_fit"] == pytest.approx(np.log2((16 * 16 + 16 * 32 + 16 * 32) * 4 / 32768))
    assert values["vector_efficiency"] == 1.0
    assert (values["loop_columns"], values["loop_efficiency"]) == (5.0, 1.0)
    assert values["ilp"] == pytest.approx(np.log2(16 / 8))  # 8 rows of two vectors
    assert values["spill"] == 0.0
    assert values["balance"] == 1.0
    assert values["unroll"] == pytest.approx(np.log2(65))
    assert values["write_cache"] == 1.0
    assert values["pad_band"] == 0.0


def test_ragged_vectors_and_too_many_accumulators_show() -> None:
    ragged = features_by_name([[512, 1, 1, 1], [32, 1, 1, 24], [256, 1, 1, 1]], [0, 0])
    assert ragged["vector_efficiency"] == pytest.approx(24 / 32)
    spilled = features_by_name([[16, 1, 1, 32], [24, 1, 1, 32], [256, 1, 1, 1]], [0, 0])
    assert spilled["spill"] == pytest.approx(np.log2(1 + 64 - 28))
    assert spilled["ilp"] == pytest.approx(np.log2(28 / 8))


def test_a_register_tile_of_one_column_is_seen_with_the_loop_around_it() -> None:
    values = features_by_name([[128, 1, 1, 4], [32, 1, 24, 1], [32, 8, 1, 1]], [0, 0])
    assert values["vector_efficiency"] == pytest.approx(1 / 16)
    assert values["loop_columns"] == pytest.approx(np.log2(24))
    assert values["loop_efficiency"] == pytest.approx(24 / 32)


def test_uneven_work_for_the_cores_shows() -> None:
    values = features_by_name([[1, 8, 8, 8], [3, 4, 2, 32], [256, 1, 1, 1]], [0, 0])
    assert values["balance"] == pytest.approx(3 / 4)


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_every_workload_has_finite_features(identifier: str) -> None:
    workload = benchmark_workload(identifier)
    structure = cpu_structure(workload)
    features = CpuFeatures(workload, structure, DEVICE)
    values = features(TileSpace(workload, structure).random(32, np.random.default_rng(0)))
    assert values.shape == (32, len(features.names))
    assert np.isfinite(values).all()

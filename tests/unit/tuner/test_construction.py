"""Tiles that rules construct: aligned, saturated, and grown where that saves the most traffic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tilewright.tuner.benchmark_set import benchmark_workload
from tilewright.tuner.candidates import Candidates
from tilewright.tuner.construction import ConstructedTiles
from tilewright.tuner.device import CpuDevice
from tilewright.tuner.features.cpu import FEATURES, CpuFeatures
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import cpu_structure
from tilewright.tuner.workload import TensorWorkload, matmul

DEVICE = CpuDevice(
    "test", cores=1, vector_bytes=64, vector_registers=32, l1_bytes=32768, l2_bytes=1 << 20
)


def constructed(workload: TensorWorkload, device: CpuDevice = DEVICE) -> Candidates:
    space = TileSpace(workload, cpu_structure(workload, restricted=True))
    search = ConstructedTiles(space, device, 100, batch=100)
    points = search.ask()
    assert space.valid(points).all()
    assert (points.tiles.prod(axis=2) == workload.extents).all()
    assert len(set(points.row_keys())) == len(points)
    return points


@pytest.mark.parametrize("name", ["M4", "R2", "R7", "R11", "Y8"])
def test_every_tile_fits_and_is_aligned_where_the_extent_allows(name: str) -> None:
    workload = benchmark_workload(name)
    points = constructed(workload)
    assert 5 <= len(points) <= 50
    structure = cpu_structure(workload, restricted=True)
    values = CpuFeatures(workload, structure, DEVICE)(points)
    of = dict(zip(FEATURES, values.T, strict=True))
    assert (of["spill"] == 0).all()
    assert (of["l1_fit"] <= 0).all()
    reduced = points.tiles[:, : workload.spatial, 1].prod(axis=1) > 1  # grown in L2 at all
    assert (of["l2_fit"][reduced] <= 0).all()
    columns = points.tiles[:, workload.vector_loop, 3]
    if workload.extents[workload.vector_loop] % 16 == 0:
        assert (columns % 16 == 0).all()
    assert set(structure.values(points, "write_cache")) == {1}
    if workload.padded:
        assert set(structure.values(points, "pad_band")) == {-1}


def test_a_level_is_left_only_when_no_growth_fits() -> None:
    workload = matmul(64, 64, 64)
    points = constructed(workload)
    rows, columns = points.tiles[:, 0, 3], points.tiles[:, 1, 3]
    assert (2 * rows * columns / 16 > DEVICE.accumulators).all()
    m, n = points.tiles[:, 0, 2:].prod(axis=1), points.tiles[:, 1, 2:].prod(axis=1)
    k = points.tiles[:, 2, 1]
    for left, grown in (
        (m < 64, (2 * m, n, k)),
        (n < 64, (m, 2 * n, k)),
        (k < 64, (m, n, 2 * k)),
    ):
        x, y, z = grown
        assert (4 * (x * y + y * z + x * z) > DEVICE.l1_bytes)[left].all()


def test_the_first_tile_grows_where_a_byte_saves_the_most_traffic() -> None:
    # One row of a vector: more rows save more of the loads of B than more columns save of A's.
    first = constructed(matmul(64, 64, 64))[:1].tiles[0]
    assert first[:2, 3].tolist() == [16, 16]
    # Without registers for a second row or vector the tile stays as it began.
    small = constructed(matmul(64, 64, 64), replace(DEVICE, vector_registers=5))
    assert {tuple(tile) for tile in small.tiles[:, :2, 3].tolist()} == {(1, 16)}


def test_no_tile_takes_the_work_of_a_core() -> None:
    workload = matmul(64, 64, 64)
    whole = constructed(workload).tiles[:, :2, 0].prod(axis=1)
    assert whole.min() == 1
    shared = constructed(workload, replace(DEVICE, cores=4)).tiles[:, :2, 0].prod(axis=1)
    assert shared.min() >= 4


def test_it_is_asked_in_batches_up_to_its_trials() -> None:
    workload = matmul(64, 96, 64)
    space = TileSpace(workload, cpu_structure(workload, restricted=True))
    everything = constructed(workload)
    search = ConstructedTiles(space, DEVICE, 5, batch=3)
    first, second = search.ask(), search.upcoming()
    search.tell([1.0] * len(first))
    assert search.ask().row_keys() == second.row_keys()
    search.tell([None] * len(second))
    assert len(search.ask()) == 0
    asked = Candidates.concatenate([first, second])
    assert asked.row_keys() == everything[:5].row_keys()
    assert np.array_equal(asked.knobs, everything[:5].knobs)

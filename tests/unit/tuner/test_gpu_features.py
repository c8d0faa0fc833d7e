"""GPU features and validity against counting by brute force, lane by lane, element by element."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.tuner.benchmark_set import IDENTIFIERS, benchmark_workload
from tilewright.tuner.candidates import Candidates
from tilewright.tuner.device import GpuDevice, named_device
from tilewright.tuner.features.gpu import FEATURES, GpuFeatures
from tilewright.tuner.features.gpu_published import PublishedGpuFeatures
from tilewright.tuner.space import TileSpace
from tilewright.tuner.structure import gpu_structure
from tilewright.tuner.workload import Access, TensorWorkload, conv2d, matmul

H100 = named_device("h100")
assert isinstance(H100, GpuDevice)
SMALL = (matmul(32, 16, 24), conv2d(1, 6, 9, 9, 8, 3, 1, 1), conv2d(2, 4, 9, 9, 8, 3, 2, 1))


def features_of(workload: TensorWorkload) -> GpuFeatures:
    return GpuFeatures(workload, gpu_structure(workload), H100)


def drawn(workload: TensorWorkload, seed: int, count: int) -> Candidates:
    space = TileSpace(workload, gpu_structure(workload))
    return space.random(count, np.random.default_rng(seed))


def point(workload: TensorWorkload, tiles: list[list[int]], fetch: int = 1) -> Candidates:
    structure = gpu_structure(workload)
    knobs = [k.choices.index(fetch) if k.name.startswith("fetch") else 0 for k in structure.knobs]
    return Candidates(np.array([tiles]), np.array([knobs]))


def elements(access: Access, iterations: list[range]) -> set[tuple[int, ...]]:
    """All index tuples that these iterations of the loops touch."""
    return {
        tuple(sum(c * at[loop] for loop, c in terms) for terms in access.dims)
        for at in itertools.product(*iterations)
    }


def box(access: Access, iterations: list[range]) -> int:
    columns = list(zip(*elements(access, iterations), strict=True))
    return math.prod(max(column) - min(column) + 1 for column in columns)


@given(st.sampled_from(SMALL), st.integers(0, 2**32))
@settings(max_examples=25)
def test_shared_tiles_cover_what_a_block_touches_in_one_step(
    workload: TensorWorkload, seed: int
) -> None:
    one = drawn(workload, seed, 1)
    shape = features_of(workload).shape(one)
    spatial = workload.spatial
    block = [
        range(int(row[1:].prod() if loop < spatial else row[1] * row[2]))
        for loop, row in enumerate(one.tiles[0])
    ]
    expected = [box(access, block) for access in workload.inputs]
    assert [int(s.prod()) for s in shape.shared_shapes] == expected
    stages = gpu_structure(workload).values(one, "stages")[0]
    assert shape.shared_bytes[0] == 4 * sum(expected) * stages
    # Blocks, threads, register tiles and steps together do every multiply-accumulate once.
    parts = (shape.grid, shape.threads, shape.register_tile, shape.inner_reduction, shape.steps)
    assert math.prod(int(part[0]) for part in parts) == workload.macs


@given(st.sampled_from(SMALL), st.integers(0, 2**32))
@settings(max_examples=25)
def test_bank_conflicts_match_a_simulated_warp(workload: TensorWorkload, seed: int) -> None:
    one = drawn(workload, seed, 1)
    features = features_of(workload)
    terms = features.terms(one)
    spatial = range(workload.spatial)
    threads = [int(one.tiles[0, loop, 2]) for loop in spatial]
    for position, access in enumerate(workload.inputs):
        extents = terms.shape.shared_shapes[position][0]
        words_of: dict[int, set[int]] = {}
        for lane in range(min(32, math.prod(threads))):
            at = np.unravel_index(lane, threads)
            index = [
                sum(
                    c * int(at[loop]) * int(one.tiles[0, loop, 3] * one.tiles[0, loop, 4])
                    for loop, c in terms_of_dim
                    if loop in spatial
                )
                for terms_of_dim in access.dims
            ]
            word = int(np.ravel_multi_index(index, [int(e) for e in extents]))
            words_of.setdefault(word % 32, set()).add(word)
        assert terms.degrees[position][0] == max(len(words) for words in words_of.values())


def test_features_of_one_matmul_tile_by_hand() -> None:
    workload = matmul(512, 1024, 4096)
    # i: 8 blocks, 16 threads, 4 outputs. j: 16 blocks, 16 threads, 2 vthreads of 2. k: 256 of 16.
    one = point(workload, [[8, 1, 16, 2, 2], [16, 2, 16, 2, 1], [256, 4, 4, 1, 1]])
    oi_global, oi_shared, reuse, ilp, wlp, occupancy, wave = features_of(workload)(one)[0][:7]
    assert ilp == 16
    # A tile 64x16 and a tile 16x64: 1024 elements each, 4 fetches by each of 256 threads.
    assert oi_global == pytest.approx(2**31 / (32 * 128 * 8 * (256 * 8 + 16)))
    # Lanes 0-15 share a row of A: 2 rows 64 words apart collide in one bank; the 16 threads along
    # j read B 2 words apart: no conflict. Each thread reads 4x16 elements of A and of B.
    assert oi_shared == pytest.approx(256 * 16 * 16 / (32 * 8 * (2 * 64 + 1 * 64)))
    assert reuse == pytest.approx(1 / (1 / 4 + 1 / 4 + 1 / 4096))
    # 49 registers x 256 threads: 5 blocks of 8 warps (threads would allow 8, shared memory 24).
    assert wlp == 5 * 8
    assert occupancy == pytest.approx(40 / 64)
    assert wave == pytest.approx(128 / (132 * 5))


def test_wider_fetches_raise_only_global_intensity() -> None:
    workload = matmul(512, 1024, 4096)
    tiles = [[8, 1, 16, 2, 2], [16, 2, 16, 2, 1], [256, 4, 4, 1, 1]]
    narrow = features_of(workload)(point(workload, tiles, fetch=1))[0]
    wide = features_of(workload)(point(workload, tiles, fetch=4))[0]
    assert wide[0] > narrow[0]
    assert (wide[1:] == narrow[1:]).all()


def test_stages_multiply_shared_memory_and_the_restricted_space_has_none() -> None:
    workload = matmul(512, 1024, 4096)
    features = features_of(workload)
    one = point(workload, [[8, 1, 16, 2, 2], [16, 2, 16, 2, 1], [256, 4, 4, 1, 1]])
    staged = Candidates(one.tiles, one.knobs.copy())
    staged.knobs[0, features.structure.knob("stages")] = 2
    assert features.shape(staged).shared_bytes[0] == 4 * features.shape(one).shared_bytes[0]
    assert features.names[-2:] == ("unroll", "stages")
    restricted = GpuFeatures(workload, gpu_structure(workload, restricted=True), H100)
    assert len(restricted.names) == 7


@pytest.mark.parametrize(
    ("tiles", "valid"),
    [
        ([[8, 1, 16, 2, 2], [16, 2, 16, 2, 1], [256, 4, 4, 1, 1]], True),
        ([[32, 1, 4, 2, 2], [128, 2, 4, 1, 1], [256, 4, 4, 1, 1]], False),  # 16 threads
        ([[8, 1, 64, 1, 1], [16, 2, 32, 1, 1], [256, 4, 4, 1, 1]], False),  # 2048 threads
        ([[8, 1, 16, 2, 2], [16, 2, 16, 2, 1], [16, 64, 4, 1, 1]], False),  # 128 KiB shared
        ([[2, 1, 16, 4, 4], [8, 1, 16, 4, 2], [1024, 2, 2, 1, 1]], True),  # 128 accumulators
        ([[2, 1, 16, 4, 4], [2, 1, 16, 16, 2], [1024, 2, 2, 1, 1]], False),  # 512 accumulators
        ([[8, 1, 16, 2, 2], [4, 16, 16, 1, 1], [256, 4, 4, 1, 1]], False),  # 16 vthreads
    ],
)
def test_validity_by_hand(tiles: list[list[int]], valid: bool) -> None:
    workload = matmul(512, 1024, 4096)
    assert features_of(workload).valid(point(workload, tiles))[0] == valid


def test_a_single_step_is_not_pipelined() -> None:
    workload = matmul(512, 1024, 32)
    one = point(workload, [[32, 1, 16, 1, 1], [64, 1, 16, 1, 1], [1, 8, 4, 1, 1]])
    features = features_of(workload)
    assert features.valid(one)[0]
    one.knobs[0, features.structure.knob("stages")] = 1
    assert not features.valid(one)[0]


def test_devices_before_compute_capability_8_get_no_asynchronous_stages() -> None:
    workload = matmul(512, 1024, 4096)
    one = point(workload, [[8, 1, 16, 2, 2], [16, 2, 16, 2, 1], [1024, 2, 2, 1, 1]])
    old = GpuFeatures(workload, gpu_structure(workload), replace(H100, arch="sm_75"))
    assert old.valid(one)[0]
    one.knobs[0, old.structure.knob("stages")] = 1
    assert features_of(workload).valid(one)[0]
    assert not old.valid(one)[0]


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_every_workload_has_valid_points_with_finite_features(identifier: str) -> None:
    workload = benchmark_workload(identifier)
    structure = gpu_structure(workload)
    for features in (
        GpuFeatures(workload, structure, H100),
        PublishedGpuFeatures(workload, structure, H100),
    ):
        space = TileSpace(workload, structure, features.valid)
        values = features(space.random(32, np.random.default_rng(0)))
        assert values.shape == (32, len(features.names))
        assert np.isfinite(values).all()
        assert (values >= 0).all()


def test_a_batch_is_the_same_as_one_by_one() -> None:
    workload = SMALL[1]
    batch = drawn(workload, 5, 20)
    for features in (
        features_of(workload),
        PublishedGpuFeatures(workload, gpu_structure(workload), H100),
    ):
        together = features(batch)
        assert np.array_equal(together, np.concatenate([features(batch[[n]]) for n in range(20)]))


def test_published_features_of_one_matmul_tile_by_hand() -> None:
    workload = matmul(512, 1024, 4096)
    features = PublishedGpuFeatures(workload, gpu_structure(workload), H100)
    one = point(workload, [[8, 1, 16, 2, 2], [16, 1, 16, 2, 2], [128, 8, 4, 1, 1]])
    values = dict(zip(features.names, features(one)[0], strict=True))
    assert values["wave"] == pytest.approx(128 / 132)
    # 1024 // 256 blocks by threads, 49152 // 16384 by shared memory, 65536 // 21524 by registers.
    assert values["occupancy"] == pytest.approx(8 * 3 / 64)
    assert values["wlp"] == pytest.approx(65536 / ((16 + 8 + 25) * 256))
    assert values["wlp_ilp"] == pytest.approx(16 * values["wlp"])
    corrected = dict(zip(FEATURES, features_of(workload)(one)[0], strict=False))
    assert values["oi_shared"] == pytest.approx(corrected["oi_shared"])
    assert values["reg_reuse"] == corrected["reg_reuse"]

"""The registered workloads of `cuda`, their reduced sizes and their oracles."""

from __future__ import annotations

import numpy as np
import pytest

from tilewright.core.errors import UnknownNameError, WorkloadError
from tilewright.targets.cuda.problems import create_problem
from tilewright.targets.cuda.shapes import KINDS, REGISTERED, parse_shape
from tilewright.targets.cuda.target import CudaTarget


@pytest.mark.parametrize("name", REGISTERED)
def test_a_registered_workload_opens_and_is_checked_at_smaller_sizes(name: str) -> None:
    shape = parse_shape(name)
    reduced = shape.reduced()
    assert shape.name == name
    assert reduced.operations < 1 << 26
    assert all(r <= s for r, s in zip(reduced.sizes.values(), shape.sizes.values(), strict=True))
    start = CudaTarget().starting_kernel(shape)
    assert "{" + "R}" not in start
    assert "PARAMETERS" not in start
    assert ("Timed and checked at the sizes" in start) == (reduced.sizes == shape.sizes)
    for size, value in shape.sizes.items():
        assert f"int {size} = {value}" in start


def test_the_eight_problems_of_the_paper_have_their_published_shapes() -> None:
    published = {text: name for name, text in REGISTERED.items() if "KernelBench" in text}
    assert len(published) == 8
    outputs = {
        text.rpartition(" ")[2]: parse_shape(name).arguments[-1].shape
        for text, name in published.items()
    }
    assert outputs == {
        "1": (4096, 4096),
        "2": (2048, 4096),
        "6": (256, 256),
        "9": (32768, 32768),
        "10": (16, 1024, 768),
        "50": (256, 96, 55, 55),
        "54": (16, 64, 62, 62, 62),
        "56": (8, 128, 508, 250),
    }


@pytest.mark.parametrize("size", [1, 77, 128, 300, 1000, 4096])
def test_reduced_sizes_keep_their_remainders(size: int) -> None:
    reduced = parse_shape(f"gemm-{size}x{size}x{size}").reduced()
    for value in reduced.sizes.values():
        assert value == size or value % 128 == size % 128


def test_what_is_no_workload_is_told() -> None:
    with pytest.raises(UnknownNameError, match="gemm-MxNxK"):
        parse_shape("gem-1x2x3")
    with pytest.raises(WorkloadError, match="malformed"):
        parse_shape("gemm-1x2")
    with pytest.raises(WorkloadError, match="no output"):
        parse_shape("conv2d-1x1x4x4x1-k5x5s1p0")
    with pytest.raises(WorkloadError, match="terms"):
        parse_shape("gemm-2x2x2000000")
    with pytest.raises(WorkloadError, match="GiB"):
        parse_shape("gemm-999999x999999x8")


def convolved(images: np.ndarray, filters: np.ndarray, stride: int, padding: int) -> np.ndarray:
    """By the definition, one output after the other."""
    wide = np.pad(images, [(0, 0), (0, 0), (padding, padding), (padding, padding)])
    rows, columns = filters.shape[2:]
    height = (wide.shape[2] - rows) // stride + 1
    width = (wide.shape[3] - columns) // stride + 1
    found = np.zeros((len(images), len(filters), height, width))
    for y in range(height):
        for x in range(width):
            at = wide[:, :, y * stride : y * stride + rows, x * stride : x * stride + columns]
            found[:, :, y, x] = np.tensordot(at, filters, ([1, 2, 3], [1, 2, 3]))
    return found


def test_the_oracle_of_a_convolution_is_its_definition() -> None:
    shape = parse_shape("conv2dbias-2x3x9x8x4-k3x2s2p1")
    rng = np.random.default_rng(1)
    inputs = {a.name: rng.standard_normal(a.shape) for a in shape.arguments if a.role == "input"}
    problem = create_problem(shape)
    found = problem.formula(problem.operands(inputs))["Y"]
    expected = convolved(inputs["X"], inputs["F"], 2, 1) + inputs["bias"][:, None, None]
    np.testing.assert_allclose(found.reshape(expected.shape), expected, atol=1e-12)


def test_the_oracle_in_three_dimensions_is_one_of_planes() -> None:
    shape = parse_shape("conv3d-2x3x5x6x7x4-k3")
    rng = np.random.default_rng(2)
    X, F = (rng.standard_normal(a.shape) for a in shape.arguments[:2])
    problem = create_problem(shape)
    found = problem.formula(problem.operands({"X": X, "F": F}))["Y"].reshape(2, 4, 3, 4, 5)
    for depth in range(3):
        planes = sum(convolved(X[:, :, depth + d], F[:, :, d], 1, 0) for d in range(3))
        np.testing.assert_allclose(found[:, :, depth], planes, atol=1e-12)


def test_the_menu_has_the_paper_s_number_of_options_and_each_kind_has_some() -> None:
    brief = CudaTarget().brief()
    assert len(brief.menu) >= 65
    kinds = {kind for option in brief.menu for kind in option.kinds}
    assert kinds <= set(KINDS)
    named = {option for example in brief.examples for option in example.options}
    assert named <= {option.id for option in brief.menu}


@pytest.mark.parametrize("name", ["gemm-256x512x128", "conv2dbias-2x16x24x24x64-k3x3s1p1"])
def test_errors_of_few_digits_are_counted_on_all_outputs(name: str) -> None:
    shape = parse_shape(name)
    rng = np.random.default_rng(3)
    inputs = {a.name: rng.standard_normal(a.shape) for a in shape.arguments if a.role == "input"}
    counts = []
    for lowest in ("", "tf32-like"):
        problem = create_problem(shape, lowest)
        sample = problem.sample(problem.operands(inputs), rng)
        counts.append(sum(found.size for found in problem.formula(sample).values()))
    written = next(a for a in shape.arguments if a.role == "output")
    assert counts[0] < counts[1] == np.prod(written.shape)

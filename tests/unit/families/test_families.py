"""What is a set of shapes, and what is refused in a sentence."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tilewright.core.config import Settings
from tilewright.core.errors import TilewrightError
from tilewright.families import running
from tilewright.families.running import read_shape_set

TASK = "gemmini:gemm-64x64x64"


@pytest.fixture
def shapes(tmp_path: Path) -> Path:
    return tmp_path / "shapes.txt"


def test_the_workload_and_those_of_the_file_are_the_set(shapes: Path) -> None:
    shapes.write_text(
        "# two more\ngemm-32x48x64  # small\n\ngemmini:gemm-96x64x64\ngemm-64x64x64\n"
    )
    found = read_shape_set(TASK, shapes, Settings())
    assert found.names == ("M", "N", "K")
    assert list(found.sizes.values()) == [(64, 64, 64), (32, 48, 64), (96, 64, 64)]
    assert found.named((1, 2, 3)) == "gemmini:gemm-1x2x3"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "name 1 workload"),
        ("gemm-64x64x64", "name 1 workload"),
        ("32x32x32", "unknown gemmini workload '32x32x32'"),
        ("conv-1x8x8x16x16-k3s1", "not shapes of one pattern"),
        ("host-c:gemm-16x16x32", "names host-c:gemm-16x16x32, but gemmini:gemm-"),
        ("\0", "gemmini"),
        ("\n".join(f"gemm-16x16x{n}" for n in range(1, 80)), "2 to 64 shapes"),
    ],
)
def test_what_is_no_set_is_refused(shapes: Path, text: str, said: str) -> None:
    shapes.write_text(text)
    with pytest.raises(TilewrightError, match=said):
        read_shape_set(TASK, shapes, Settings())


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, shapes: Path) -> None:
    with pytest.raises(TilewrightError, match="is a folder, whose kernel"):
        read_shape_set(str(tmp_path), shapes, Settings())
    for file in (shapes, tmp_path):
        with pytest.raises(TilewrightError, match="cannot be read"):
            read_shape_set(TASK, file, Settings())


def test_kernels_in_another_language_are_refused(shapes: Path) -> None:
    shapes.write_text("rmsnorm-512x2048")
    with pytest.raises(TilewrightError, match="--shapes writes a C file"):
        read_shape_set("trainium:rmsnorm-512x4096", shapes, Settings())


def test_the_start_for_any_sizes_is_found_and_keeps_what_the_set_shares(shapes: Path) -> None:
    shapes.write_text("gemm-32x48x64")
    found = running._fallback(read_shape_set(TASK, shapes, Settings()), Settings())
    assert found is not None
    assert found.only == {}
    assert "A[size_M][size_K]" in found.source


@pytest.mark.parametrize(
    ("task", "other", "only", "text"),
    [
        (
            "gemmini:conv-1x8x8x16x16-k3s1",
            "conv-2x16x9x32x48-k3s1",
            {"R": 3, "S": 1},
            "input[size_N][(size_H + 2)][(size_W + 2)][size_C]",
        ),
        (
            "host-c:conv-1x8x8x16x16-k3s1",
            "conv-2x16x9x32x48-k3s1",
            {},
            "input[size_N][(size_H + 2)][(size_W + 2)][size_C]",
        ),
        ("host-c:layernorm-8x16", "layernorm-16x16", {}, "mean = mean / (float)size_C;"),
        ("host-c:rmsnorm-8x16", "rmsnorm-16x16", {}, "(float)size_C"),
    ],
)
def test_starts_with_borders_or_means_have_a_form_for_any_sizes(
    shapes: Path, task: str, other: str, only: dict[str, int], text: str
) -> None:
    shapes.write_text(other)
    found = running._fallback(read_shape_set(task, shapes, Settings()), Settings())
    assert found is not None
    assert found.only == only
    assert text in found.source


@pytest.mark.parametrize(
    ("count", "small"), [*((n, False) for n in range(2, 8)), *((n, True) for n in range(3, 6))]
)
def test_two_sizes_of_the_samples_do_not_always_differ_by_the_same_number(
    count: int, small: bool
) -> None:
    samples = running._drawn(count, small=small)
    assert len(samples) >= 2
    for one, other in itertools.combinations(range(count), 2):
        assert len({sizes[one] - sizes[other] for sizes in samples}) > 1


def test_shapes_outside_have_every_stride(shapes: Path) -> None:
    shapes.write_text("conv-2x16x9x32x48-k3s1")
    found = read_shape_set("gemmini:conv-1x8x8x1x16-k3s1", shapes, Settings())
    fallback = running._fallback(found, Settings())
    assert fallback is not None
    outside = running._outside(found, fallback)
    assert len(outside) == 2
    assert all(min(sizes[:5]) >= 2 for sizes in outside)

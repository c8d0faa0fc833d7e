"""What ptxas reports is read, and occupancy follows from it by the documented limits."""

from __future__ import annotations

import pytest

from tilewright.targets.cuda.emulation import Launch
from tilewright.targets.cuda.nvcc import Resources, read_resources
from tilewright.targets.cuda.occupancy import architectures, occupancy
from tilewright.targets.cuda.resources import in_words, refused_launch

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z5tiledILi16EEvPKfPfi' for 'sm_90'
ptxas info    : Function properties for _Z5tiledILi16EEvPKfPfi
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 2048 bytes smem, 380 bytes cmem[0]
ptxas info    : Compiling entry function 'plain' for 'sm_90'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 12 registers, used 0 barriers, 356 bytes cmem[0]
"""
TILED = Resources("_Z5tiledILi16EEvPKfPfi", 40, 20, 2048)


def test_a_report_has_the_resources_of_every_function() -> None:
    assert read_resources(REPORT) == (TILED, Resources("plain", 12, 0, 0))
    assert read_resources("") == ()


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "warps", "limit"),
    [
        ("sm_90", 256, 32, 0, 64, "warps"),
        ("sm_90", 256, 128, 0, 16, "registers"),
        ("sm_90", 256, 255, 0, 8, "registers"),
        ("sm_90", 128, 32, 48 << 10, 16, "shared memory"),
        ("sm_90", 32, 16, 0, 32, "blocks"),
        ("sm_86", 1024, 32, 0, 32, "warps"),
        ("sm_89", 256, 64, 0, 32, "registers"),
    ],
)
def test_occupancy_is_the_tightest_of_four_limits(
    name: str, threads: int, registers: int, shared: int, warps: int, limit: str
) -> None:
    """By hand: sm_90 has 64 warps, 32 blocks, 65536 registers, and 228 KiB, 1 KiB lost a block."""
    found = occupancy(architectures()[name], threads, registers, shared)
    assert (found.warps, found.limit) == (warps, limit)
    assert found.share == warps / architectures()[name].warps


def test_every_architecture_from_sm_80_to_sm_120_is_described() -> None:
    assert {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"} <= set(architectures())
    for found in architectures().values():
        assert found.block_shared_kib <= found.shared_kib
        assert found.gpus


def test_a_launch_is_told_with_what_it_needs() -> None:
    launch = Launch("tiled", 7, (4, 4, 1), (16, 16, 1), 1024)
    words = in_words([TILED], [launch], architectures()["sm_90"])
    assert "40 registers" in words
    assert "20 bytes spilled" in words
    assert "3072 bytes of shared memory" in words
    assert "occupancy 75%" in words


def test_a_launch_that_no_multiprocessor_holds_is_refused_with_its_line() -> None:
    launch = Launch("tiled", 7, (1, 1, 1), (1024, 1, 1), 0)
    greedy = Resources(TILED.symbol, 128, 0, 0)
    refused = refused_launch([greedy], [launch], architectures()["sm_90"])
    assert refused is not None
    assert (refused.kind, refused.line) == ("launch_failure", 7)
    assert refused_launch([TILED], [launch], architectures()["sm_90"]) is None


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z7softmaxPKfPfi", "softmax"),
        ("plain", "plain"),
        ("_ZN3abc4tileEPf", "_ZN3abc4tileEPf"),
        ("_Z5tiledILi16EEvPKfPfi", "_Z5tiledILi16EEvPKfPfi"),
    ],
)
def test_a_function_is_named_as_in_the_source(symbol: str, name: str) -> None:
    assert Resources(symbol, 32, 0, 0).name == name

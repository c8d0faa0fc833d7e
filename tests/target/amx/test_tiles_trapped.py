"""The instructions themselves, as compiled for hardware, carried out where the CPU lacks them."""

from __future__ import annotations

import platform
import shutil

import pytest

from tilewright.targets.amx import create_bf16_target, create_int8_target
from tilewright.targets.amx.elements import BF16, INT8, Element
from tilewright.targets.amx.support import missing_feature

pytestmark = [
    pytest.mark.skipif(
        shutil.which("gcc") is None or platform.machine() != "x86_64",
        reason="no C compiler for x86-64",
    ),
    pytest.mark.skipif(missing_feature(INT8) is None, reason="this CPU has tiles: nothing traps"),
]
TARGETS = {INT8: create_int8_target, BF16: create_bf16_target}


@pytest.mark.parametrize("element", TARGETS, ids=lambda e: e.name)
@pytest.mark.parametrize(
    ("name", "products"),
    [("gemm-32x48x128", 12), ("gemm-32x48x128-packed", 12), ("conv-1x3x28x64x16-k3s1", 54)],
)
def test_naive_kernels_compile_to_right_instructions(
    trapped, element: Element, name: str, products: int
) -> None:  # type: ignore[no-untyped-def]
    task = TARGETS[element]().open(name, {})
    right, ran = trapped(task.start, name, element)
    assert right
    products *= 64 // element.depth
    assert ran["product"] == products
    assert ran["load"] == 2 * products
    assert ran["loadconfig"] == ran["release"] == 1


@pytest.mark.parametrize("order", ["{immintrin}{tiles}", "{tiles}{immintrin}"])
def test_other_intrinsics_may_stand_beside_tiles(trapped, order: str) -> None:  # type: ignore[no-untyped-def]
    """In either order, with tile numbers that are macros."""
    name = "gemm-16x16x64-packed"
    tiles = '#include "tiles.h"\n'
    start = create_int8_target().open(name, {}).start
    text = order.format(immintrin="#include <immintrin.h>\n", tiles=tiles) + "#define SUMS 0\n"
    source = start.replace(tiles, text).replace("_tile_zero(0)", "_tile_zero(SUMS)")
    right, ran = trapped(source, name, INT8)
    assert right
    assert ran["zero"] == 1

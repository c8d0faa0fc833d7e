"""Kernels are read, and printed so that they do the same."""

from __future__ import annotations

from pathlib import Path

import nki_kernels as world
import pytest

from tilewright.core.records import Argument
from tilewright.proposers.nki.printing import print_kernel
from tilewright.proposers.nki.reading.kernel import read, read_kernel
from tilewright.proposers.nki.reading.values import UnsupportedError
from tilewright.targets.trainium.trace import Instruction


def instruction(found: Instruction) -> tuple[object, ...]:
    return (
        found.opcode,
        found.engine,
        dict(found.attributes),
        *(
            (a.tensor.memory, a.tensor.dtype, a.start_partition, a.partitions, a.offset,
             _dims(a.pattern.dims), a.partition_step)
            for a in (*found.reads, *found.writes)
        ),
    )  # fmt: skip


def _dims(dims: object) -> list[tuple[int, int]]:
    return [(step, count) for step, count in dims if count > 1]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", world.SMALL)
def test_a_printed_kernel_has_the_trace_of_the_one_read(name: str) -> None:
    kernel = world.naive(name)
    before, after = (
        world.traced(name, source) for source in (world.opened(name).start, print_kernel(kernel))
    )
    assert [instruction(i) for i in after.instructions] == [
        instruction(i) for i in before.instructions
    ]
    assert read_kernel(print_kernel(kernel), world.opened(name).workload.arguments) == kernel


HEAD = "import nki\nimport nki.isa as nisa\nimport nki.language as nl\n"
X = (Argument("x", (256, 64), "float32", "input"), Argument("out", (256, 64), "float32", "output"))


def printed(body: str, before: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    source = f"{HEAD}{before}\n@nki.jit\ndef kernel(x):\n{lines}    return out\n"
    return print_kernel(read_kernel(source, X))


COPY = """
out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
for r in nl.affine_range(x.shape[0] // 128):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(t, x[r * 128 : (r + 1) * 128])
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, :], src=t)
"""


def test_arguments_may_be_given_in_their_order() -> None:
    assert "nisa.dma_copy(dst=t, src=x[r * 128 : r * 128 + 128, 0:64])" in printed(COPY)


def test_functions_of_the_file_are_read_where_they_are_called() -> None:
    helper = "def load(t, x, r):\n    nisa.dma_copy(t, x[nl.ds(r * 128, 128), :])\n"
    body = COPY.replace("nisa.dma_copy(t, x[r * 128 : (r + 1) * 128])", "load(t, x, r)")
    assert printed(body, helper) == printed(COPY)


@pytest.mark.parametrize(
    ("rows", "trips"),
    [
        ("min(48, 256 - r * 48)", 5),
        ("min(48, 16 + r * 48)", 5),
        ("min(min(48, 16 + r * 48), 256 - r * 48)", 4),
    ],
)
def test_iterations_that_differ_are_set_apart(rows: str, trips: int) -> None:
    """The last one, the first one, or both: no more than must be."""
    body = f"""
out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
for r in nl.affine_range(6):
    rows = {rows}
    t = nl.ndarray((rows, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[r * 48 : r * 48 + rows, :])
    nisa.dma_copy(dst=out[r * 48 : r * 48 + rows, :], src=t)
"""
    text = printed(body)
    assert f"for r in nl.affine_range({trips}):" in text
    assert ("src=x[240 : 256, 0:64]" in text) == ("256" in rows)
    assert ("src=x[0 : 16, 0:64]" in text) == ("16" in rows)


@pytest.mark.parametrize(
    ("body", "reason", "line"),
    [
        ("while True:\n    pass", "`while True:` is not understood", 7),
        ("out = nl.rand((128, 64))", "nl.rand is not understood", 7),
        ("for r in nl.affine_range(n):\n    pass", "n has no value that is known", 7),
        ("nisa.frobnicate(dst=x)", "nisa.frobnicate is not understood", 7),
        ("out = nl.ndarray((64,), nl.float32, buffer=nl.sbuf)", "a tile has only one axis", 7),
    ],
)
def test_what_is_not_understood_is_named_with_its_line(body: str, reason: str, line: int) -> None:
    with pytest.raises(UnsupportedError) as caught:
        printed(body)
    assert (caught.value.reason, caught.value.line) == (reason, line)


FOREIGN = sorted((Path(__file__).parents[1] / "trainium" / "foreign").glob("*.txt"))


@pytest.mark.parametrize("path", FOREIGN, ids=lambda path: path.stem)
def test_kernels_in_foreign_styles_are_read(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    name = source.partition("\n")[0].removeprefix("# ")
    kernel = read(source, world.opened(name).workload, world.TARGET.brief().language)
    printed = print_kernel(kernel)
    assert "neuronxcc" not in printed
    assert world.is_right(name, printed, 0.05 if "bfloat16" in printed else 1e-4)


LISTS = """
out = nl.ndarray(x.shape, x.dtype, buffer=nl.shared_hbm)
tiles, other = [], []
for r in range(2):
    t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=t, src=x[r * 128 : (r + 1) * 128])
    tiles.append(t)
for r, t in enumerate(tiles):
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128, :], src=t)
"""


def test_lists_of_tiles_grow_in_loops() -> None:
    text = printed(LISTS)
    assert "src=x[128 : 256, 0:64]" in text
    assert "dst=out[128 : 256, 0:64], src=t_2" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tiles, other = [], []", "tiles = []\nother = tiles"),
        ("tiles, other = [], []", "tiles = []\nother = [tiles]"),
    ],
)
def test_lists_with_two_names_are_not_read(old: str, new: str) -> None:
    with pytest.raises(UnsupportedError, match="another name"):
        printed(LISTS.replace(old, new))


def test_functions_do_not_make_their_callers_lists_longer() -> None:
    helper = "def keep(tiles, t):\n    tiles.append(t)\n"
    with pytest.raises(UnsupportedError, match="another name"):
        printed(LISTS.replace("tiles.append(t)", "keep(tiles, t)"), helper)

"""Copies a row to all partitions with the tensor engine instead of with one transfer for each
partition."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.analysis.widening import MOST_PRODUCT_COLUMNS
from tilewright.proposers.nki.ir import Alloc, Kernel, Op, Path, Region, Statement, Tensor, spliced
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.copies import skip_copy
from tilewright.proposers.nki.rewrites.uses import op_at

MOST_COLUMNS = 4096
"""Maximum length of the row, limited by the float32 numbers that fit into PSUM."""


def spread(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which a load of one row into many partitions is a product with ones.

    The row is loaded once, into one partition. A column of ones times the row gives exactly the row
    in every partition of PSUM. Readers use it there, which makes sums and products of two tiles
    faster. If a reader cannot use PSUM, the row is copied to its original destination.
    """
    load, tensors = op_at(kernel, path), kernel.tensors()
    source = load.get("src")
    if load.name != "dma_copy" or not isinstance(source, Region):
        raise NotApplicableError("the instruction is not a load")
    target = load.region("dst")
    (step, rows), columns = source.dims[0], source.columns
    if step or rows < 2 or tensors[source.tensor].on_chip or not tensors[target.tensor].on_chip:
        raise NotApplicableError("the instruction does not load one row into many partitions")
    if {tensors[r.tensor].dtype for r in (source, target)} != {"float32"}:
        raise NotApplicableError("the row is not float32")
    if columns > MOST_COLUMNS or target.columns != columns:
        raise NotApplicableError("the row does not fit into PSUM")
    names = Names(kernel)
    ones = Tensor(names.fresh("ones"), (1, rows), "float32", "sbuf")
    row = Tensor(names.fresh("row"), (1, columns), "float32", "sbuf")
    wide = Tensor(names.fresh("wide"), (rows, columns), "float32", "psum")
    every = Region(ones.name, Linear(), ((rows, 1), (1, rows)))
    given = Region(source.tensor, source.offset, ((0, 1), *source.dims[1:]))
    whole = Region(row.name, Linear(), ((columns, 1), (1, columns)))
    made: list[Statement] = [
        Alloc(row), Op("dma_copy", (("dst", _shaped(whole, given)), ("src", given))), Alloc(wide)
    ]  # fmt: skip
    for start in range(0, columns, MOST_PRODUCT_COLUMNS):
        width = min(MOST_PRODUCT_COLUMNS, columns - start)
        product = Region(wide.name, Linear(start), ((columns, rows), (1, width)))
        moving = Region(row.name, Linear(start), ((columns, 1), (1, width)))
        made.append(
            Op("nc_matmul", (("dst", product), ("stationary", every), ("moving", moving),
                             ("is_stationary_onezero", True)))
        )  # fmt: skip
    copied = Region(wide.name, Linear(), ((columns, rows), (1, columns)))
    made.append(Op("tensor_copy", (("dst", target), ("src", _shaped(copied, target)))))
    after = spliced(kernel.body, path, tuple(made))
    copy = (*path[:-1], path[-1] + len(made) - 1)
    spread_out = replace(kernel, body=after)
    with suppress(NotApplicableError):
        spread_out = skip_copy(spread_out, copy)
    first = Op("memset", (("dst", every), ("value", 1.0)))
    return replace(spread_out, body=(Alloc(ones), first, *spread_out.body))


def _shaped(region: Region, like: Region) -> Region:
    """A contiguous row with the shape of another region."""
    dims, step = [], 1
    for _, count in reversed(like.dims[1:]):
        dims.append((step, count))
        step *= count
    return Region(region.tensor, region.offset, (region.dims[0], *reversed(dims)))

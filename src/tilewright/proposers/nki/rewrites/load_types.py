"""Loads data in the type that they have in HBM, if a transfer made them wider without need.

Before:                                   After:

    mask = float32                            mask = uint8
    load(mask, x)        # x is uint8         load(mask, x)
    scaled = 9984 * mask                      scaled = 9984 * mask

Engines compute in float32, whatever the types of their operands are, and float32 can represent
every value of these types, so results do not change. The transfer moves fewer bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import ITEM_BYTES, Kernel, Op, Path, Tensor
from tilewright.proposers.nki.rewrites.precision import retyped
from tilewright.proposers.nki.rewrites.renaming import with_own_tile
from tilewright.proposers.nki.rewrites.uses import op_at, uses

_HELD = ("bfloat16", "float16", "uint8", "int8", "uint16", "int16")
"""Types of which float32 can represent every value."""
_READ_AS: dict[str, tuple[str, ...]] = {
    "tensor_copy": ("src",), "tensor_scalar": ("data",), "activation": ("data",),
    "tensor_tensor": ("data1", "data2"), "scalar_tensor_tensor": ("data", "operand1"),
}  # fmt: skip
"""Operands that may have any type."""
_BITWISE = ("bitwise", "shift", "invert", "logical")


def stored_type(kernel: Kernel, path: Path) -> Kernel:
    """The kernel in which the tile of the load at `path` has the type of its source."""
    load = op_at(kernel, path)
    if load.name != "dma_copy":
        raise NotApplicableError("the instruction is not a transfer")
    tensors = kernel.tensors()
    source, tile = tensors[load.region("src").tensor], tensors[load.region("dst").tensor]
    if source.on_chip or tile.memory != "sbuf" or tile.dtype != "float32":
        raise NotApplicableError("the instruction does not load a tile of float32")
    if source.dtype not in _HELD:
        raise NotApplicableError("the data have no smaller type in HBM")
    assert ITEM_BYTES[source.dtype] < ITEM_BYTES[tile.dtype]
    kernel = with_own_tile(kernel, path, tile.name)
    tensors, found = kernel.tensors(), uses(kernel, tile.name)
    for place in found.written:
        op = op_at(kernel, place)
        if op.name != "dma_copy" or tensors[op.region("src").tensor].dtype != source.dtype:
            raise NotApplicableError(f"{tile.name} also holds other data")
    for place in found.read:
        _require_any_type(op_at(kernel, place), tile, tensors)
    return replace(kernel, body=retyped(kernel.body, {tile.name}, source.dtype))


def _require_any_type(op: Op, tile: Tensor, tensors: Mapping[str, Tensor]) -> None:
    """Raises `NotApplicableError` for an instruction whose result depends on the tile's type."""
    read = [key for key, region in op.regions if region.tensor == tile.name]
    if any(key not in _READ_AS.get(op.name, ()) for key in read):
        raise NotApplicableError(f"{op.name} needs {tile.name} in float32")
    names = [str(value) for key, value in op.arguments if key in ("op", "op0", "op1")]
    if any(word in name for name in names for word in _BITWISE):
        raise NotApplicableError(f"{op.name} works on bits")
    others = [tensors[r.tensor] for _, r in op.regions if r.tensor != tile.name]
    if any("float" not in other.dtype for other in others) or len(read) > 1:
        raise NotApplicableError(f"{op.name} could then compute with integers")

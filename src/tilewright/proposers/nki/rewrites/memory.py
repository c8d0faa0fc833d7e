"""Moves a tile to PSUM or to SBUF. If one operand is in PSUM, sums of tiles are faster."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.ir import Kernel, Memory, Tensor, mapped_ops, ops, with_tensor
from tilewright.proposers.nki.rewrites.copies import may_read_psum, without_pool

_PSUM_BYTES = 8 << 10
"""Maximum size of a tile that is moved to PSUM, which is half of it."""
_NO_PSUM = (
    "dma_copy", "dma_add", "dma_transpose", "gather", "scatter", "iota", "affine_select",
    "nc_stream_shuffle", "topk", "select_reduce", "range_select", "dropout",
)  # fmt: skip
_COLUMNS = ("operand0", "operand1", "bias", "scale", "initial", "reduce_res")


def require_psum(tensor: Tensor) -> None:
    """Raises `NotApplicableError` for a tile that does not fit into PSUM, or is not float32."""
    if tensor.dtype != "float32" or tensor.partition_bytes > _PSUM_BYTES:
        raise NotApplicableError(f"{tensor.name} is not float32, or too large for PSUM")


def place(kernel: Kernel, name: str, memory: Memory) -> Kernel:
    """The kernel with a tile in another memory, which all its uses must be able to access."""
    tensor = kernel.tensors().get(name)
    if tensor is None or tensor.memory == memory or not tensor.on_chip:
        raise NotApplicableError(f"{name} is not on chip, or already in this memory")
    if memory == "psum":
        require_psum(tensor)
    tensors = {**kernel.tensors(), name: replace(tensor, memory=memory)}
    for op in ops(kernel.body):
        keys = [key for key, region in op.regions if region.tensor == name]
        if not keys:
            continue
        if memory == "sbuf" and "dst" in keys and op.name in ("nc_matmul", "nc_transpose"):
            raise NotApplicableError("PE can write only to PSUM")
        if memory == "psum" and op.name in _NO_PSUM:
            raise NotApplicableError(f"{op.name} cannot access PSUM")
        tile = op.name == "scalar_tensor_tensor"
        if memory == "psum" and any(k in _COLUMNS and not (tile and k == "operand1") for k in keys):
            raise NotApplicableError("operands that are columns must be in SBUF")
        if not may_read_psum(without_pool(op), tensors):
            raise NotApplicableError(f"{op.name} does not read these operands from PSUM")
    body = with_tensor(kernel.body, tensors[name])
    if memory == "psum":
        body = mapped_ops(
            body, lambda op: without_pool(op) if name in {r.tensor for _, r in op.regions} else op
        )
    return replace(kernel, body=body)

"""Moves an instruction to another engine, if necessary as another instruction."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.estimate.cost import engine_of
from tilewright.proposers.nki.ir import Alloc, Kernel, Op, Path, Region, Tensor, spliced, whole
from tilewright.proposers.nki.names import Names
from tilewright.proposers.nki.rewrites.copies import may_read_psum
from tilewright.proposers.nki.rewrites.uses import op_at, replaced_op

ENGINES = ("vector", "scalar", "gpsimd")
_PLACES = {
    "tensor_copy": ("vector", "gpsimd"),
    "tensor_scalar": ("vector", "scalar"),
    "tensor_tensor": ("vector", "gpsimd"),
    "memset": ("vector", "gpsimd"),
}
"""Engines that an instruction may name on the smallest chip."""


def move(kernel: Kernel, path: Path, engine: str) -> Kernel:
    """The kernel with an instruction on another engine."""
    op, tensors = op_at(kernel, path), kernel.tensors()
    now = {"dve": "vector", "act": "scalar", "pool": "gpsimd"}.get(engine_of(op))
    if now == engine:
        raise NotApplicableError("the instruction already runs on this engine")
    if engine in _PLACES.get(op.name, ()):
        made = op.having(engine=f"nisa.engine.{engine}")
        psum = any(tensors[r.tensor].memory == "psum" for _, r in op.regions)
        if engine == "gpsimd" and psum:
            raise NotApplicableError("Pool cannot access PSUM")
        return replaced_op(kernel, path, made)
    if engine == "scalar":
        return _on_act(kernel, path, op)
    if engine == "vector" and op.name == "activation":
        return replaced_op(kernel, path, _on_dve(kernel, op))
    raise NotApplicableError(f"{op.name} does not run on this engine")


def on_any_engine(kernel: Kernel, op: Op) -> Op:
    """The instruction without a choice of its engine. A copy on ACT may then run on DVE."""
    if op.name == "activation" and op.get("op") == "nl.copy":
        return _on_dve(kernel, op)
    return op.having(engine=None) if op.name in _PLACES else op


def _on_act(kernel: Kernel, path: Path, op: Op) -> Kernel:
    if op.name == "tensor_copy":
        made = Op("activation", (
            ("dst", op.region("dst")), ("op", "nl.copy"), ("data", op.region("src"))))  # fmt: skip
        return replaced_op(kernel, path, made)
    if op.name == "tensor_reduce" and op.get("op") == "nl.add" and not op.get("negate"):
        data, total = op.region("data"), op.region("dst")
        if total.columns != 1:
            raise NotApplicableError("ACT can only sum whole rows")
        shape = (data.dims[0][1], data.columns)
        tensor = Tensor(Names(kernel).fresh("unused"), shape, "bfloat16", "sbuf")
        target = replace_dims(whole(tensor), data)
        made = Op("activation", (
            ("dst", target), ("op", "nl.copy"), ("data", data), ("reduce_op", "nl.add"),
            ("reduce_res", total), ("reduce_cmd", "nisa.reduce_cmd.reset_reduce")))  # fmt: skip
        return replace(kernel, body=spliced(kernel.body, path, (Alloc(tensor), made)))
    if op.name == "tensor_scalar" and op.get("op0") == "nl.multiply" and op.get("op1") is None:
        scale = op.get("operand0")
        assert scale is not None
        made = Op("activation", (
            ("dst", op.region("dst")), ("op", "nl.copy"), ("data", op.region("data")),
            ("scale", scale)))  # fmt: skip
        return replaced_op(kernel, path, made)
    raise NotApplicableError(f"{op.name} does not run on this engine")


def replace_dims(target: Region, data: Region) -> Region:
    """A whole tile with the shape of another region."""
    dims, step = [], 1
    for _, count in reversed(data.dims[1:]):
        dims.append((step, count))
        step *= count
    return Region(target.tensor, target.offset, (target.dims[0], *reversed(dims)))


def _on_dve(kernel: Kernel, op: Op) -> Op:
    if op.get("bias") is not None or op.get("reduce_cmd") is not None:
        raise NotApplicableError("the activation has a bias or a sum")
    data, target = op.region("data"), op.region("dst")
    if op.get("op") == "nl.square" and op.get("scale") is None:
        made = Op("tensor_tensor", (
            ("dst", target), ("data1", data), ("data2", data), ("op", "nl.multiply")))  # fmt: skip
    elif op.get("op") == "nl.copy" and op.get("scale") is None:
        made = Op("tensor_copy", (("dst", target), ("src", data)))
    elif op.get("op") == "nl.copy":
        scale = op.get("scale")
        assert scale is not None
        made = Op(
            "tensor_scalar",
            (("dst", target), ("data", data), ("op0", "nl.multiply"), ("operand0", scale)),
        )
    else:
        raise NotApplicableError("DVE has no such function")
    if not may_read_psum(made, kernel.tensors()):
        raise NotApplicableError("the instruction's operands are in PSUM")
    return made

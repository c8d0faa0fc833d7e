"""Prints a kernel as Python in NKI 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilewright.parts.languages.python import literal
from tilewright.proposers.nki.analysis.places import printed
from tilewright.proposers.nki.ir import (
    Alloc,
    Body,
    Kernel,
    Loop,
    Op,
    Region,
    Setting,
    Tensor,
)
from tilewright.proposers.nki.linear import Linear
from tilewright.proposers.nki.reversing import as_written

WIDTH = 100


def print_kernel(kernel: Kernel) -> str:
    """The source. Reading it again gives the same kernel."""
    tensors, trips = kernel.tensors(), kernel.trips()
    constants = any(tensor.values for tensor in tensors.values())
    numpy = ["import numpy as np"] if constants else []
    lines = [
        "import nki", "import nki.isa as nisa", "import nki.language as nl", *numpy, "", "",
        "@nki.jit", kernel.head,
    ]  # fmt: skip
    lines += _body(kernel.body, tensors, trips, "    ")
    lines.append(f"    return {', '.join(kernel.returned)}")
    return "\n".join(lines) + "\n"


def _body(
    body: Body, tensors: Mapping[str, Tensor], trips: Mapping[str, int], indent: str
) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, Loop):
            yield f"{indent}for {statement.variable} in nl.{statement.kind}({statement.trips}):"
            yield from _body(statement.body, tensors, trips, indent + "    ")
        elif isinstance(statement, Alloc):
            yield indent + _alloc(statement.tensor)
        else:
            yield from _op(statement, tensors, trips, indent)


def _alloc(tensor: Tensor) -> str:
    if tensor.values:
        return f"{tensor.name} = {tensor.values}"
    shape = ", ".join(map(str, tensor.shape)) + ("," if len(tensor.shape) == 1 else "")
    buffer = f"buffer=nl.{tensor.memory}"
    return f"{tensor.name} = nl.ndarray(({shape}), dtype=nl.{tensor.dtype}, {buffer})"


def _op(
    op: Op, tensors: Mapping[str, Tensor], trips: Mapping[str, int], indent: str
) -> Iterator[str]:
    parts = []
    op = as_written(op)
    name, by_rows = op.name, _BY_ROWS.get(op.name)
    for key, value in op.arguments:
        if key == "draw":
            continue
        if op.name == "topk" and key == "dst":
            key = "val_dst"
        if by_rows and key in ("rows", "pattern", "offset", "axis", "adds"):
            continue
        if key == by_rows:
            name = "dma_copy"
            parts.append(f"{key}={_table(op, key, tensors, trips)}")
        elif isinstance(value, Region):
            parts.append(f"{key}={printed(value, tensors[value.tensor], trips)}")
        else:
            parts.append(f"{key}={_setting(value)}")
    if name == "dma_add" or op.get("adds"):
        name, (to, source) = "dma_compute", (part.partition("=")[2] for part in parts)
        parts = [f"dst={to}", f"srcs=[{to}, {source}]", "reduce_op=nl.add"]
    line = f"{indent}nisa.{name}({', '.join(parts)})"
    if len(line) <= WIDTH:
        yield line
        return
    yield f"{indent}nisa.{name}("
    for part in parts:
        yield f"{indent}    {part},"
    yield f"{indent})"


_BY_ROWS = {"gather": "src", "scatter": "dst"}
"""The operand of an instruction whose rows are given by a tile."""


def _table(op: Op, key: str, tensors: Mapping[str, Tensor], trips: Mapping[str, int]) -> str:
    rows, pattern, offset = op.region("rows"), op.get("pattern"), op.get("offset")
    assert isinstance(pattern, tuple)
    start = "" if offset == Linear() or not isinstance(offset, Linear) else f"{offset.text()}"
    parts = [
        f"pattern={_setting(pattern)}",
        *([f"offset={start}"] if start else []),
        f"vector_offset={printed(rows, tensors[rows.tensor], trips)}",
        f"indirect_dim={op.get('axis')}",
    ]
    return f"{op.region(key).tensor}.ap({', '.join(parts)})"


def _setting(value: Setting) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Linear):
        return value.text()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_setting, value))}]"
    return literal(value)

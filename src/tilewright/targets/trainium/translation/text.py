"""Writes loops and instructions as text in NKI 2."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping, Sequence

from tilewright.targets.trainium.program import Call
from tilewright.targets.trainium.trace import Tensor, Trace
from tilewright.targets.trainium.translation.clipping import Dims
from tilewright.targets.trainium.translation.lines import ADDING, ONES, Affine, ByRows, Line
from tilewright.targets.trainium.translation.rolling import Item, Made, Rolled


def _names(tensors: Sequence[Tensor]) -> dict[int, str]:
    """The kernel's names of its tensors, if they are valid names and used only once."""
    found = {number: f"ones_{dtype}" for dtype, number in ONES.items()}
    found |= {tensor.id: tensor.name for tensor in tensors if tensor.kind == "input"}
    taken = {*found.values(), *keyword.kwlist, "nki", "nisa", "nl", "np"}
    for tensor in tensors:
        if tensor.kind != "input":
            name = tensor.name if tensor.name.isidentifier() else "tile"
            is_free = name not in taken and name != "tile" and not _TAKEN.fullmatch(name)
            found[tensor.id] = name if is_free else f"{name}_{tensor.id}"
            taken.add(name)
    return found


_TAKEN = re.compile(r".*_\d+|i\d+|part\d+|kernel")
"""Names similar to those that are created here."""


def text(body: Sequence[Item], trace: Trace, call: Call, more_names: Mapping[int, str]) -> str:
    """The whole file. `more_names` are the names of tensors that the trace does not contain."""
    names = {**_names(trace.tensors), **more_names}
    given = ", ".join(argument.name for argument in call.inputs)
    returned = ", ".join(names[number] for number in trace.outputs)
    lines = list(printed(body, names, "    "))
    numpy = ["import numpy as np"] if any("np." in line for line in lines) else []
    return "\n".join(
        [
            "import nki", "import nki.isa as nisa", "import nki.language as nl", *numpy, "", "",
            "@nki.jit", f"def kernel({given}):", *lines,
            f"    return {returned}", "",
        ]
    )  # fmt: skip


def printed(body: Sequence[Item], names: Mapping[int, str], indent: str) -> Iterator[str]:
    """The lines of statements, with the names of their tensors."""
    for item in body:
        if isinstance(item, Made) and item.form[0] == "constant":
            yield f"{indent}{names.get(item.tensor)} = {item.form[1]}"
        elif isinstance(item, Made):
            shape, dtype, memory = (
                ((1, 128), names.get(item.tensor, "").removeprefix("ones_"), "sbuf")
                if item.form == ("ones",)
                else item.form
            )
            yield (
                f"{indent}{names.get(item.tensor)} = "
                f"nl.ndarray({shape}, dtype=nl.{dtype}, buffer=nl.{memory})"
            )
        elif isinstance(item, Rolled):
            yield f"{indent}for i{item.depth} in nl.{item.kind}_range({item.trips}):"
            yield from printed(item.body, names, indent + "    ")
        else:
            yield indent + _line(item, names)


def _line(line: Line, names: Mapping[int, str]) -> str:
    tensors, numbers = iter(line.tensors), iter(line.numbers)

    def region(dims: Dims) -> str:
        pattern = ", ".join(f"[{step}, {count}]" for step, count in dims)
        name, offset = names.get(next(tensors)), _number(next(numbers))
        return f"{name}.ap(pattern=[{pattern}], offset={offset}"

    parts = []
    for key, value in line.arguments:
        if isinstance(value, str):
            parts.append(f"{key}={value}")
        elif value is None:
            parts.append(f"{key}={_number(next(numbers))}")
        elif isinstance(value, ByRows):
            table, rows = region(value.dims), region(value.rows)
            parts.append(f"{key}={table}, vector_offset={rows}), indirect_dim={value.axis})")
        else:
            parts.append(f"{key}={region(value)})")
    if line.name == ADDING:
        to, source = (part.partition("=")[2] for part in parts)
        parts = [f"dst={to}", f"srcs=[{to}, {source}]", "reduce_op=nl.add"]
    return f"nisa.{line.name}({', '.join(parts)})"


def _number(number: Affine) -> str:
    constant, factors = number
    return " + ".join([str(constant), *(f"i{depth} * {factor}" for depth, factor in factors)])

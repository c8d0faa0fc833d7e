"""The instructions of NKI 2 with the effect of a recorded instruction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from tilewright.parts.languages.python import literal
from tilewright.targets.trainium.recording import Recorded
from tilewright.targets.trainium.tiles.index import Index, Mask
from tilewright.targets.trainium.tiles.view import View
from tilewright.targets.trainium.translation.clipping import Dims, Place, UntranslatableError

ONES: Mapping[str, int] = {"float32": -1, "bfloat16": -2, "float16": -3}
"""Rows of ones by type. A kernel has at most one such tensor for each type."""
Affine = tuple[int, tuple[tuple[int, int], ...]]
"""A constant, and factors of loop variables by their depth."""
Value = Place | int | str
"""A region, a number that may differ between iterations, or a text."""


@dataclass(frozen=True, slots=True)
class ByRows:
    """A region whose partitions begin at the numbers of a tile, counted along an axis: the
    dimensions of both."""

    dims: Dims
    rows: Dims
    axis: int


Written: TypeAlias = Dims | ByRows | str | None


@dataclass(frozen=True, slots=True)
class Line:
    """One instruction. `numbers` are offsets of its regions and other numbers, in order.

    An argument is the dimensions of a region, None for a number, or a text. A region by rows has
    two tensors and two offsets.
    """

    name: str
    arguments: tuple[tuple[str, Written], ...]
    tensors: tuple[int, ...]
    numbers: tuple[Affine, ...]


def lines(
    entry: Recorded, reads: Sequence[Place], writes: Sequence[Place], accumulates: bool | None
) -> Iterator[Line]:
    """The lines for an instruction. `accumulates` is the argument of a product; None omits it.

    Raises `UntranslatableError`.
    """
    copies = entry.instruction.opcode == "tensor_copy" and entry.instruction.engine != "act"
    if any(p.falls for p in writes) or (any(p.falls for p in reads) and not copies):
        raise UntranslatableError("an index that counts down, other than in the source of a copy")
    if any(p.rows for p in (*reads, *writes)) and entry.instruction.opcode != "dma_copy":
        raise UntranslatableError("an index that is read from a tile, other than in a copy")
    translate = _LINES.get(entry.instruction.opcode)
    if translate is None:
        raise UntranslatableError(f"{entry.instruction.name} ({entry.instruction.opcode})")
    if entry.instruction.opcode == "nc_matmul":
        yield _product(entry, reads, writes, accumulates)
        return
    for name, arguments in translate(entry, reads, writes):
        yield line_of(name, arguments)


def line_of(name: str, given: Mapping[str, Value | None]) -> Line:
    """An instruction of NKI 2 with these arguments, without those that are None."""
    arguments: list[tuple[str, Written]] = []
    tensors: list[int] = []
    numbers: list[Affine] = []
    for key, value in given.items():
        if isinstance(value, Place):
            rows = value.rows
            by_rows = None if rows is None else ByRows(value.dims, rows.dims, value.axis)
            arguments.append((key, by_rows or value.dims))
            for place in (value,) if rows is None else (value, rows):
                tensors.append(place.tensor)
                numbers.append((place.offset, ()))
        elif isinstance(value, int):
            arguments.append((key, None))
            numbers.append((value, ()))
        elif value is not None:
            arguments.append((key, value))
    return Line(name, tuple(arguments), tuple(tensors), tuple(numbers))


def _operator(name: object) -> str:
    return f"nl.{name}"


_ENGINES = {"dve": "nisa.vector_engine", "act": "nisa.scalar_engine", "pool": "nisa.gpsimd_engine"}


def _engine(entry: Recorded) -> str | None:
    """The engine, if the kernel chose one."""
    return _ENGINES.get(entry.instruction.engine)


Given = tuple[Recorded, Sequence[Place], Sequence[Place]]
Made = Iterator[tuple[str, dict[str, Value | None]]]


def _product(
    entry: Recorded, reads: Sequence[Place], writes: Sequence[Place], accumulates: bool | None
) -> Line:
    attributes = entry.instruction.attributes
    if len(reads) == 1:  # a row that is repeated over partitions, as a product with ones
        row, result = reads[0], writes[0]
        dtype = entry.reads[0].dtype.name
        if dtype not in ONES:
            raise UntranslatableError(f"a row of {dtype} that is repeated over partitions")
        ones = Place(ONES[dtype], 0, ((128, 1), (1, result.dims[0][1])))
        return line_of("nc_matmul", {"dst": result, "stationary": ones, "moving": row})
    return line_of(
        "nc_matmul",
        {
            "dst": writes[0], "stationary": reads[0], "moving": reads[1],
            "is_transpose": "True" if attributes.get("is_transpose") else None,
            "accumulate": None if accumulates is None else str(accumulates),
        },
    )  # fmt: skip


ADDING = "dma_compute"
"""A transfer that adds `src` to `dst`, which NKI 2 calls a sum of two sources."""


def _copied(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    name = ADDING if entry.instruction.attributes.get("accumulate") else "dma_copy"
    yield name, {"dst": writes[0], "src": reads[0]}


def _transposed(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    """The source is recorded with its axes in the order of the result."""
    source = reads[0]
    if len(source.dims) == 1:
        source = Place(source.tensor, source.offset, (*source.dims, (1, 1)))
    rows, columns = source.dims
    yield "dma_transpose", {
        "dst": writes[0], "src": Place(source.tensor, source.offset, (columns, rows)),
    }  # fmt: skip


def _tensor_copy(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    if entry.instruction.engine == "act":
        yield "activation", {"dst": writes[0], "op": "nl.copy", "data": reads[0]}
    else:
        yield "tensor_copy", {"dst": writes[0], "src": reads[0], "engine": _engine(entry)}


def _memset(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    value: Any = entry.instruction.attributes["value"]
    if not entry.writes[0].dtype.is_float:
        value = int(value)
    yield "memset", {"dst": writes[0], "value": literal(value), "engine": _engine(entry)}


def _transpose(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    engine = "nisa.vector_engine" if entry.instruction.engine == "dve" else None
    yield "nc_transpose", {"dst": writes[0], "data": reads[0], "engine": engine}


def _tensor_tensor(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    attributes = entry.instruction.attributes
    engine = "nisa.gpsimd_engine" if entry.instruction.engine == "pool" else None
    yield "tensor_tensor", {
        "dst": writes[0], "data1": reads[0], "data2": reads[1],
        "op": _operator(attributes["op"]), "engine": engine,
    }  # fmt: skip


def _operands(entry: Recorded, columns: Sequence[Place]) -> list[Value]:
    """Scalar operands: numbers as texts, tiles in order."""
    waiting, found = list(columns), list[Value]()
    given: Any = entry.settings["operands"]
    for operand in given:
        found.append(waiting.pop(0) if isinstance(operand, View) else _number(entry, operand))
    return found


def _number(entry: Recorded, number: Any) -> str:
    """A number. Engines compute in float32, except between integers."""
    return literal(float(number) if entry.reads[0].dtype.is_float else number)


_EITHER_WAY = ("add", "multiply", "maximum", "minimum")


def _reversed(entry: Recorded, number: int) -> str | None:
    """Whether the operands are exchanged, if this matters."""
    given: Any = entry.settings["reverse"]
    swaps = given[number] and entry.instruction.attributes[f"op{number}"] not in _EITHER_WAY
    return "True" if swaps else None


def _tensor_scalar(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    attributes, operands = entry.instruction.attributes, _operands(entry, reads[1:])
    found: dict[str, Value | None] = {
        "dst": writes[0], "data": reads[0], "op0": _operator(attributes["op0"]),
        "operand0": operands[0], "reverse0": _reversed(entry, 0),
    }  # fmt: skip
    if attributes["op1"]:
        found |= {
            "op1": _operator(attributes["op1"]), "operand1": operands[1],
            "reverse1": _reversed(entry, 1),
        }  # fmt: skip
    yield "tensor_scalar", found | {"engine": _engine(entry)}


def _scalar_tensor_tensor(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    attributes = entry.instruction.attributes
    yield "scalar_tensor_tensor", {
        "dst": writes[0], "data": reads[0], "op0": _operator(attributes["op0"]),
        "operand0": _operands(entry, reads[2:])[0], "op1": _operator(attributes["op1"]),
        "operand1": reads[1], "reverse0": _reversed(entry, 0), "reverse1": _reversed(entry, 1),
    }  # fmt: skip


def _tensor_scalar_reduce(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    attributes = entry.instruction.attributes
    yield "tensor_scalar_reduce", {
        "dst": writes[0], "data": reads[0], "op0": _operator(attributes["op0"]),
        "operand0": _operands(entry, reads[1:])[0],
        "reduce_op": _operator(attributes["reduce_op"]), "reduce_res": writes[1],
        "reverse0": _reversed(entry, 0),
    }  # fmt: skip


def _tensor_reduce(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    """NKI 2 reduces the last axes, so the data are read in this order."""
    axes: Any = entry.settings["axes"]
    view, data = entry.reads[0], reads[0]
    free = [axis for axis, size in enumerate(view.shape) if axis and size != 1]
    if len(free) != len(data.dims) - 1:  # cut to one index of an axis, or a column
        if data.columns > 1:
            raise UntranslatableError("a reduction under this mask")
        yield "tensor_copy", {"dst": writes[0], "src": data}
        return
    pairs = dict(zip(free, data.dims[1:], strict=True))
    kept = [pairs[axis] for axis in free if axis not in axes]
    reduced = [pairs[axis] for axis in free if axis in axes]
    place = Place(data.tensor, data.offset, (data.dims[0], *kept, *(reduced or [(1, 1)])))
    first = 1 + len(kept)
    axis = [*range(first, first + max(1, len(reduced)))]
    yield "tensor_reduce", {
        "dst": writes[0], "op": _operator(entry.instruction.attributes["op"]), "data": place,
        "axis": str(axis[0] if len(axis) == 1 else axis),
        "negate": "True" if entry.settings["negate"] else None,
    }  # fmt: skip


def _over_partitions(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    yield "tensor_partition_reduce", {
        "dst": writes[0], "op": _operator(entry.instruction.attributes["op"]), "data": reads[0],
    }  # fmt: skip


def _scan(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    attributes = entry.instruction.attributes
    yield "tensor_tensor_scan", {
        "dst": writes[0], "data0": reads[0], "data1": reads[1],
        "initial": _operands(entry, reads[2:])[0], "op0": _operator(attributes["op0"]),
        "op1": _operator(attributes["op1"]), "reverse0": _reversed(entry, 0),
        "reverse1": _reversed(entry, 1),
    }  # fmt: skip


def _activation(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    attributes, columns = entry.instruction.attributes, list(reads[1:])
    bias = None if entry.settings["bias"] is None else columns.pop(0)
    scale: Any = entry.settings["scale"]
    scales = columns.pop(0) if isinstance(scale, View) else None if scale == 1 else literal(scale)
    command = attributes.get("reduce_command")
    yield "activation", {
        "dst": writes[0], "op": _operator(attributes["op"]), "data": reads[0], "bias": bias,
        "scale": scales, "reduce_op": "nl.add" if command else None,
        "reduce_res": writes[1] if len(writes) > 1 else None,
        "reduce_cmd": f"nisa.reduce_cmd.{command}" if command else None,
    }  # fmt: skip


def _select(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    """`nl.where`: the second choice everywhere, then the first one where the predicate is true."""
    chooser, tiles = reads[0], list(reads[1:])
    x, y = entry.settings["x"], entry.settings["y"]
    first: Value = tiles.pop(0) if x is None else literal(x)
    if y is None:
        yield "tensor_copy", {"dst": writes[0], "src": tiles.pop(0)}
    else:
        yield "memset", {"dst": writes[0], "value": literal(y)}
    yield "tensor_copy_predicated", {"dst": writes[0], "src": first, "predicate": chooser}


def _predicated(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    number = entry.settings["src"]
    source: Value = reads[0] if number is None else literal(number)
    yield "tensor_copy_predicated", {
        "dst": writes[0], "src": source, "predicate": reads[1 if number is None else 0],
        "reverse_pred": "True" if entry.settings["reverse_pred"] else None,
    }  # fmt: skip


def _dropout(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    if not reads:
        raise UntranslatableError("random numbers of nl.rand")
    chance = _operands(entry, reads[1:])[0]
    yield "dropout", {"dst": writes[0], "data": reads[0], "prob": chance}


def _reduced(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> dict[str, Value]:
    """The arguments with which a selection reduces its rows, if it does."""
    name, continues = cast("tuple[str, bool]", entry.settings["reduce"])
    if len(writes) < 2:
        return {}
    if continues:
        raise UntranslatableError("a reduction that continues from its column")
    if reads[0].columns != entry.reads[0].columns:
        raise UntranslatableError("a reduction under this mask")
    return {"reduce_op": _operator(name), "reduce_res": writes[1],
            "reduce_cmd": "nisa.reduce_cmd.reset_reduce"}  # fmt: skip


def _select_reduce(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    yield "select_reduce", {
        "dst": writes[0], "predicate": reads[1], "on_true": reads[0],
        "on_false": _operands(entry, reads[2:])[0], **_reduced(entry, reads, writes),
        "reverse_pred": "True" if entry.settings["reverse_pred"] else None,
    }  # fmt: skip


def _range_select(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    if reads[0].columns != entry.reads[0].columns:
        raise UntranslatableError("a selection of positions under a mask")
    low, high, start = _operands(entry, reads[1:])
    first, second = cast("tuple[str, str]", entry.settings["compare"])
    yield "range_select", {
        "dst": writes[0], "on_true_tile": reads[0], "comp_op0": _operator(first),
        "comp_op1": _operator(second), "bound0": low, "bound1": high,
        **_reduced(entry, reads, writes), "range_start": start,
        "on_false_value": literal(cast("float", entry.settings["otherwise"])),
    }  # fmt: skip


def _topk(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    count = literal(cast("int", entry.instruction.attributes["n"]))
    yield "topk", {"val_dst": writes[0], "idx_dst": writes[1], "src": reads[0], "n": count}


def _iota(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    yield "iota", {"dst": writes[0], **_pattern(entry, writes[0], entry.settings.get("index"))}


def _affine_select(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    settings, compare, index = entry.settings, "", None
    if "compare" in settings:
        compare = str(settings["compare"])
    else:
        holds: Any = settings["holds"]
        assert isinstance(holds, Mask)
        if holds.always is not None:
            if holds.always:
                yield "tensor_copy", {"dst": writes[0], "src": reads[0]}
            else:
                yield "memset", {"dst": writes[0], "value": literal(settings["otherwise"])}
            return
        if holds.comparison is None:
            raise UntranslatableError("a selection by several comparisons")
        symbol, index = holds.comparison
        compare = COMPARISONS[symbol]
        index = index.extended(len(entry.reads[0].shape))
    yield "affine_select", {
        "dst": writes[0], **_pattern(entry, reads[0], index), "on_true_tile": reads[0],
        "on_false_value": literal(settings["otherwise"]), "cmp_op": _operator(compare),
    }  # fmt: skip


COMPARISONS: Mapping[str, str] = {
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal",
    "!=": "not_equal",
}  # fmt: skip
"""The operator of each comparison with 0."""


def _pattern(entry: Recorded, tile: Place, index: object) -> dict[str, Value | None]:
    """The arguments that assign a number to each element."""
    if index is None:
        settings: Any = entry.settings
        pairs = [list(pair) for pair in settings["pattern"]]
        offset, multiplier = settings["offset"], settings["multiplier"]
    else:
        shape = (entry.reads or entry.writes)[0].shape
        if not isinstance(index, Index) or not index.is_affine or len(index.steps) != len(shape):
            raise UntranslatableError("an index that is not affine")
        if tile.columns * tile.dims[0][1] != _size(shape):
            raise UntranslatableError("a selection under a mask")
        pairs = [[s, n] for s, n in zip(index.steps[1:], shape[1:], strict=True)]
        offset, multiplier = index.offset, index.steps[0]
    return {
        "pattern": str(pairs or [[0, 1]]), "offset": int(offset),
        "channel_multiplier": str(multiplier),
    }  # fmt: skip


def _size(shape: Sequence[int]) -> int:
    total = 1
    for count in shape:
        total *= count
    return total


def _shuffle(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    yield "nc_stream_shuffle", {
        "dst": writes[0], "src": reads[0], "shuffle_mask": str(entry.settings["order"]),
    }  # fmt: skip


def _found(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    """An instruction on eight values of each partition, and what they are replaced by, if any."""
    number = entry.settings.get("imm")
    yield entry.instruction.opcode, {
        "dst": writes[0], "data": reads[0], "vals": reads[1],
        "imm": None if number is None else literal(number),
    }  # fmt: skip


def _gathered(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
    """A gather by each partition's own numbers, or by those that 16 partitions share."""
    counts = {name: str(count) for name, count in entry.settings.items()}
    if counts:
        yield (
            "local_gather",
            {"dst": writes[0], "src_buffer": reads[0], "index": reads[1], **counts},
        )
    else:
        yield "nc_n_gather", {"dst": writes[0], "data": reads[0], "indices": reads[1]}


def _plain(name: str, data: str) -> Callable[..., Made]:
    def translate(entry: Recorded, reads: Sequence[Place], writes: Sequence[Place]) -> Made:
        yield name, {"dst": writes[0], data: reads[0]}

    return translate


_LINES: Mapping[str, Callable[..., Made]] = {
    "dma_copy": _copied, "dma_transpose": _transposed, "tensor_copy": _tensor_copy,
    "memset": _memset, "nc_matmul": _plain("nc_matmul", ""), "nc_transpose": _transpose,
    "tensor_tensor": _tensor_tensor, "tensor_scalar": _tensor_scalar,
    "scalar_tensor_tensor": _scalar_tensor_tensor, "tensor_scalar_reduce": _tensor_scalar_reduce,
    "tensor_reduce": _tensor_reduce, "tensor_tensor_scan": _scan, "activation": _activation,
    "select": _select, "tensor_copy_predicated": _predicated, "iota": _iota,
    "affine_select": _affine_select, "nc_stream_shuffle": _shuffle,
    "reciprocal": _plain("reciprocal", "data"), "bn_stats": _plain("bn_stats", "data"),
    "bn_aggr": _plain("bn_aggr", "data"), "max8": _plain("max8", "src"),
    "tensor_partition_reduce": _over_partitions,
    "dropout": _dropout, "select_reduce": _select_reduce, "range_select": _range_select,
    "topk": _topk, "nc_find_index8": _found, "nc_match_replace8": _found, "local_gather": _gathered,
}  # fmt: skip

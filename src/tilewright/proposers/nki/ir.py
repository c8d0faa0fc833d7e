"""A kernel as loops of instructions on regions of tensors. Every size is a number.

Everything is immutable. A place is a path of positions in bodies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal, TypeAlias

from tilewright.proposers.nki.linear import Linear

Memory = Literal["hbm", "shared_hbm", "sbuf", "psum"]
ITEM_BYTES: Mapping[str, int] = {
    "float32": 4, "tfloat32": 4, "int32": 4, "uint32": 4,
    "bfloat16": 2, "float16": 2, "int16": 2, "uint16": 2,
    "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3": 1, "float8_e5m2": 1,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """An argument or an allocation. On the chip, the first axis is the partition."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    memory: Memory
    values: str = ""
    """The expression of a constant in HBM."""

    @property
    def on_chip(self) -> bool:
        """Whether it is in SBUF or PSUM."""
        return self.memory in ("sbuf", "psum")

    @property
    def row(self) -> int:
        """Number of elements for one index of the first axis."""
        return math.prod(self.shape[1:])

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements from one index of each axis to the next."""
        return tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))

    @property
    def partition_bytes(self) -> int:
        """Bytes in each partition."""
        return self.row * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Region:
    """Elements of a tensor: from `offset`, in elements of the whole tensor, along `dims`.

    Each dimension is a step in elements and a count. On the chip, the first one is the partition.
    """

    tensor: str
    offset: Linear
    dims: tuple[tuple[int, int], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of elements in each dimension."""
        return tuple(count for _, count in self.dims)

    @property
    def columns(self) -> int:
        """Number of elements for each index of the first dimension."""
        return math.prod(count for _, count in self.dims[1:])

    @property
    def extent(self) -> int:
        """One past the last element, relative to the offset; steps are not negative."""
        return 1 + sum(step * (count - 1) for step, count in self.dims)

    @property
    def falls(self) -> bool:
        """Whether the elements of a partition are in reverse order."""
        return any(step < 0 for step, _ in self.dims)


Setting: TypeAlias = "str | int | float | bool | Linear | tuple[Setting, ...]"
"""A value that is not a region: Python text (`nl.add`, a parameter), numbers, and lists of them."""


@dataclass(frozen=True, slots=True)
class Alloc:
    """The creation of a tensor, with undefined values."""

    tensor: Tensor


@dataclass(frozen=True)
class Op:
    """One instruction of `nki.isa`: its arguments by name, in the order they are printed.

    Properties that planning needs repeatedly are computed once.
    """

    name: str
    arguments: tuple[tuple[str, Region | Setting], ...]

    def get(self, name: str) -> Region | Setting | None:
        """An argument; None if it is missing."""
        return next((value for key, value in self.arguments if key == name), None)

    def region(self, name: str) -> Region:
        """An argument that is a region."""
        found = self.get(name)
        assert isinstance(found, Region), (self.name, name)
        return found

    def having(self, **values: Region | Setting | None) -> Op:
        """The instruction with other arguments; None removes one."""
        kept = [(k, values.get(k, v)) for k, v in self.arguments]
        kept += [(k, v) for k, v in values.items() if self.get(k) is None]
        return Op(self.name, tuple((k, v) for k, v in kept if v is not None))

    @cached_property
    def regions(self) -> tuple[tuple[str, Region], ...]:
        """All of its regions, by argument."""
        return tuple((k, v) for k, v in self.arguments if isinstance(v, Region))

    @cached_property
    def writes(self) -> tuple[Region, ...]:
        """The regions that it writes."""
        return tuple(region for name, region in self.regions if name in WRITTEN)

    @cached_property
    def reads(self) -> tuple[Region, ...]:
        """The regions that it reads, including those that it changes in place."""
        kept = tuple(region for name, region in self.regions if name not in WRITTEN)
        return kept + (self.writes if self.name in CHANGES else ())

    @property
    def accumulates(self) -> bool:
        """Whether it adds to the contents of its destination."""
        return self.name == "nc_matmul" and self.get("accumulate") is None


WRITTEN = ("dst", "reduce_res", "idx_dst")
"""Arguments that an instruction writes. For `topk`, `dst` has the name `val_dst` in the text."""
CHANGES = (
    "nc_matmul", "tensor_copy_predicated", "nc_stream_shuffle", "nc_match_replace8", "scatter",
    "dma_add",
)  # fmt: skip
"""Instructions that keep a part of their destination, or add to it."""


@dataclass(frozen=True, slots=True)
class Loop:
    """`variable` runs from 0 to `trips` - 1; `kind` is the name of its range in `nl`."""

    variable: str
    trips: int
    kind: str
    body: Body


Statement: TypeAlias = Alloc | Op | Loop
Body: TypeAlias = tuple[Statement, ...]
Path: TypeAlias = tuple[int, ...]


ANY = 1 << 20
"""The number of possible values of a parameter that is a number."""


@dataclass(frozen=True)
class Kernel:
    """A kernel. `head` is the text before the body, `arguments` are its tensors, and `returned`
    those it returns.

    `numbers` are parameters with a single value that is not known.
    """

    head: str
    arguments: tuple[Tensor, ...]
    numbers: tuple[str, ...]
    body: Body
    returned: tuple[str, ...]

    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name."""
        return self._tensors

    @cached_property
    def _tensors(self) -> Mapping[str, Tensor]:
        found = {tensor.name: tensor for tensor in self.arguments}
        found.update((s.tensor.name, s.tensor) for _, s in self._statements if isinstance(s, Alloc))
        return MappingProxyType(found)

    def statements(self) -> tuple[tuple[Path, Statement], ...]:
        """All statements with their places; loops come before their contents."""
        return self._statements

    @cached_property
    def _statements(self) -> tuple[tuple[Path, Statement], ...]:
        return tuple(walk(self.body))

    def trips(self) -> dict[str, int]:
        """How often each loop runs, by its variable, and the number of possible values of each
        number."""
        loops = {s.variable: s.trips for _, s in self._statements if isinstance(s, Loop)}
        return {**dict.fromkeys(self.numbers, ANY), **loops}


def walk(body: Body, path: Path = ()) -> Iterator[tuple[Path, Statement]]:
    """All statements with their places; loops come before their contents."""
    for number, statement in enumerate(body):
        yield (*path, number), statement
        if isinstance(statement, Loop):
            yield from walk(statement.body, (*path, number))


def size_of(kernel: Kernel) -> int:
    """Number of statements of a kernel, including loops, as written in the text."""
    return len(kernel.statements())


def ops(body: Body) -> Iterator[Op]:
    """All instructions, in the order of the text."""
    for statement in body:
        if isinstance(statement, Op):
            yield statement
        elif isinstance(statement, Loop):
            yield from ops(statement.body)


def at(body: Body, path: Path) -> Statement:
    """The statement at a place."""
    statement = body[path[0]]
    for number in path[1:]:
        assert isinstance(statement, Loop)
        statement = statement.body[number]
    return statement


def spliced(body: Body, path: Path, statements: Body) -> Body:
    """The body with the statement at `path` replaced by others, or none."""
    number = path[0]
    if len(path) > 1:
        loop = body[number]
        assert isinstance(loop, Loop)
        statements = (replace(loop, body=spliced(loop.body, path[1:], statements)),)
    return (*body[:number], *statements, *body[number + 1 :])


def mapped_ops(body: Body, change: Callable[[Op], Statement | Body]) -> Body:
    """The body in which every instruction is replaced."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            inner = mapped_ops(statement.body, change)
            if inner:
                found.append(replace(statement, body=inner))
        elif isinstance(statement, Op):
            made = change(statement)
            found.extend(made if isinstance(made, tuple) else (made,))
        else:
            found.append(statement)
    return tuple(found)


def with_tensor(body: Body, tensor: Tensor) -> Body:
    """The body in which the tensor with this name is created as given."""
    found: list[Statement] = []
    for statement in body:
        if isinstance(statement, Loop):
            found.append(replace(statement, body=with_tensor(statement.body, tensor)))
        elif isinstance(statement, Alloc) and statement.tensor.name == tensor.name:
            found.append(Alloc(tensor))
        else:
            found.append(statement)
    return tuple(found)


def mapped_values(op: Op, change: Callable[[Linear], Linear]) -> Op:
    """The body in which every number that may depend on loops is replaced."""

    def changed(value: Region | Setting) -> Region | Setting:
        if isinstance(value, Region):
            return replace(value, offset=change(value.offset))
        return change(value) if isinstance(value, Linear) else value

    return Op(op.name, tuple((key, changed(value)) for key, value in op.arguments))


def substituted(op: Op, values: Mapping[str, Linear]) -> Op:
    """The body in which variables are replaced."""
    return mapped_values(op, lambda value: value.replaced(values))


def mapped_regions(op: Op, change: Callable[[Region], Region]) -> Op:
    """The instruction in which every region is replaced."""
    return Op(
        op.name,
        tuple((k, change(v) if isinstance(v, Region) else v) for k, v in op.arguments),
    )


def variables(op: Op) -> set[str]:
    """The loop variables on which it depends."""
    found: set[str] = set()
    for _, value in op.arguments:
        value = value.offset if isinstance(value, Region) else value
        if isinstance(value, Linear):
            found.update(name for name, _ in value.terms)
    return found


def trips_of(body: Body) -> dict[str, int]:
    """How often each loop runs, by its variable; every variable has one loop."""
    return {s.variable: s.trips for _, s in walk(body) if isinstance(s, Loop)}


def whole(tensor: Tensor) -> Region:
    """The whole tensor as a region."""
    return Region(tensor.name, Linear(), tuple(zip(tensor.strides, tensor.shape, strict=True)))

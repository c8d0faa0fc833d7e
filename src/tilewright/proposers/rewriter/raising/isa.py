"""The commands with which the naive loop nest of a computation is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Command, Flag, Operand, Text
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.computation import Computation
from tilewright.proposers.rewriter.raising.operands import as_float, setting, written


@dataclass(frozen=True, slots=True)
class Isa:
    """The commands with which the nest is written."""

    machine: Machine
    loads: tuple[str, ...]
    store: str
    latch: str
    product: str
    sync: str
    factors: str
    sums: str
    uniform: frozenset[int]
    """The numbers of the arrays whose elements are all equal."""

    @classmethod
    def of(cls, machine: Machine, computation: Computation) -> Isa:
        """The first commands of a machine for each purpose, with the memories of a computation."""
        names = [n for n in machine.effects if machine.is_command(n)]
        loads = [n for n in names if machine.unit(n) == "load"]
        execute = [n for n in names if machine.unit(n) == "execute"]
        latch = next(n for n in execute if machine.attribute(n, "latches"))
        product = next(
            n for n in execute if machine.attribute(n, "uses") and not machine.attribute(n, "keeps")
        )
        store = next(n for n in names if machine.unit(n) == "store")
        sync = computation.sync or next(n for n in names if machine.unit(n) == "sync")
        uniform = frozenset(c.number for c in computation.constants if len(c.shape) == 1)
        return cls(machine, tuple(loads), store, latch, product, sync, *computation.spaces, uniform)

    @property
    def width(self) -> int:
        """Columns of a local row."""
        return self.machine.spaces[self.factors].row_columns

    @property
    def widest(self) -> int:
        """Columns of the widest load."""
        return int(self.machine.attribute(self.loads[0], "max_columns") or self.width)

    @property
    def height(self) -> int:
        """Rows of the tallest move and product."""
        return int(self.machine.attribute(self.product, "max_rows") or self.width)

    def bytes_of(self, space: str) -> int:
        """Number of bytes of an element of a memory."""
        return SIZES[self.machine.element(space) or ""]

    def flags(self, meaning: str) -> tuple[Flag, ...]:
        """The flag of local addresses with a meaning; empty if the machine has none."""
        name = self.machine.flag(meaning)
        return (Flag(name),) if name else ()

    def absent(self) -> Text:
        """The operand of a product that has no such operand."""
        return Text(self.machine.flag("absent") or "0")

    def load_setting(self, load: int, stride: int, scale: float) -> Command:
        """The setting of a load, with the distance between rows in bytes."""
        name = self.loads[load]
        configured = self.machine.attribute(name, "configured_by") or ""
        roles: dict[str, Operand] = {
            "dram_stride": Expr(stride), "scale": as_float(scale),
            "block_stride": Expr(self.height),
            "id": Expr(int(self.machine.attribute(name, "id") or 0)),
        }  # fmt: skip
        return Command(
            configured, tuple(roles[r] for r in self.machine.effects[configured].operands)
        )

    def store_setting(self, stride: int, rest: Sequence[object]) -> Command:
        """The setting of stores, with the distance between rows in bytes and its other values."""
        configured = self.machine.attribute(self.store, "configured_by") or ""
        return Command(configured, (Expr(stride), *(written(v) for v in rest)))

    def clipping_setting(self) -> Command:
        """The setting of the array with which it multiplies operands as they are, and reads sums
        as a store without scale that makes negative sums zero would write them."""
        name = self.machine.attribute(self.product, "configured_by") or ""
        attributes = self.machine.effects[name].attributes
        stores = self.machine.attribute(self.store, "configured_by") or ""
        clipping = self.machine.attribute(stores, "clips_below_zero") or ""
        known: dict[str, float] = {
            "dataflow": self.machine.constants[attributes["sums_in_memory"]],
            "activation": self.machine.constants[clipping],
            "a_stride": 1, "a_transpose": 0, "b_transpose": 0, "scale": 1.0,
        }  # fmt: skip
        return setting(self.machine, name, [known[r] for r in self.machine.effects[name].operands])

    def array_setting(self, given: Sequence[int]) -> Command:
        """The setting as it was given, with the name of the dataflow."""
        return setting(
            self.machine, self.machine.attribute(self.product, "configured_by") or "", given
        )


def deepest(computation: Computation, machine: Machine) -> int:
    """The depth of the largest product: columns of its first operand, rows of its second one."""
    isa = Isa.of(machine, computation)
    return min(isa.width, int(machine.attribute(isa.latch, "max_rows") or isa.height))

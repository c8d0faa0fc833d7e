"""Converts products of a matrix and a column to products of a row and the transposed matrix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from tilewright.proposers.rewriter.analysis.buffers import (
    Buffer,
    NotApplicable,
    buffers_of,
    check_all_commands_known,
    lattice,
)
from tilewright.proposers.rewriter.analysis.settings import own_setting, resolved
from tilewright.proposers.rewriter.c_types import SIZES
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Guard,
    Kernel,
    Local,
    Loop,
    Operand,
    Stmt,
    Text,
    commands,
    rebuilt,
)
from tilewright.proposers.rewriter.machine import Machine

TRANSPOSE = "b_transpose"
"""The setting of the array that transposes the latched operand."""


def transpose(kernel: Kernel, machine: Machine) -> Kernel:
    """Keep vectors as rows, and let the array transpose the matrices that it latches.

    Before: `load(x, SPAD(0), 1, 4); latch(SPAD(0), ACC(0), 1, 4, 1, 4); use(A, NONE, 4, 4, ..);`
    After:  `load(x, SPAD(0), 4, 1); latch(A, ACC(0), 4, 4, 4, 1); use(SPAD(0), NONE, 4, 1, ..);`

    A row is loaded and stored at once, adjacent rows by one wide move, and several products may
    stream it in turn. Legal if every product of the kernel multiplies a square block of a matrix
    and a column, columns have no gaps in memory, and nothing else uses their local rows.
    """
    check_all_commands_known(kernel, machine)
    setting = _setting(kernel, machine)
    columns = _Columns(kernel, machine)
    new: dict[Stmt, Command] = dict(columns.turned())
    operands = list(setting.operands)
    operands[machine.operands(setting.name, TRANSPOSE)[0]] = Expr(1)
    new[setting] = replace(setting, operands=tuple(operands))
    return kernel.with_body(rebuilt(kernel.body, lambda s: (new[s],) if s in new else None))


def _setting(kernel: Kernel, machine: Machine) -> Command:
    """The single command that configures the array; `NotApplicable` if it sets more than the
    simplest form."""
    found = [c for c in commands(kernel.body) if machine.operands(c.name, TRANSPOSE)]
    if len(found) != 1 or found[0] not in kernel.body:
        raise NotApplicable("no single setting says whether operands are transposed")
    (setting,) = found
    kind = machine.attribute(setting.name, "sums_in_memory") or ""
    plain: dict[str, tuple[Operand, ...]] = {
        "dataflow": (Text(kind), Expr(machine.constants.get(kind, -1))),
        "a_stride": (Expr(1),),
        "a_transpose": (Expr(0),),
        TRANSPOSE: (Expr(0),),
        "scale": (Text("1.0f"), Text("1.0"), Expr(1)),
    }
    roles = machine.effects[setting.name].operands
    for role, operand in zip(roles, setting.operands, strict=False):
        if role in plain and operand not in plain[role]:
            raise NotApplicable(
                f"the setting {role} does not have the value that this rewrite needs"
            )
    return setting


class _Columns:
    """The products of a kernel and the moves of their columns."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self._machine = machine
        self._kernel = kernel
        self._products = list(_products(kernel.body, machine))
        if not self._products:
            raise NotApplicable("there are no products")
        paired = {c for pair in self._products for c in pair}
        if any(c not in paired for c in commands(kernel.body) if self._unit(c) == "execute"):
            raise NotApplicable("the operands of some products are not known")

    def turned(self) -> Iterator[tuple[Command, Command]]:
        """The replacement of each command."""
        for latch, use in self._products:
            self._check(latch, use)
            yield from zip((latch, use), self._product(latch, use), strict=True)
        for buffer in self._buffers():
            for access in buffer.accesses:
                if self._unit(access.command) != "execute":
                    self._check_move(access.command)
                    yield access.command, self._swapped(access.command, access.operand)

    def _unit(self, command: Command) -> str:
        return self._machine.unit(command.name)

    def _check(self, latch: Command, use: Command) -> None:
        """`NotApplicable` unless this is the product of a square block and a column, or a copy."""
        if self._machine.attribute(use.name, "keeps"):
            raise NotApplicable("a product uses an operand that an earlier one latched")
        latched, _ = self._machine.local_operands(latch.name)
        streamed, _ = self._machine.local_operands(use.name)
        factors = [isinstance(latch.operands[latched], Local)]
        factors.append(isinstance(use.operands[streamed], Local))
        if any(factors) != all(factors):
            raise NotApplicable("a product has only one factor")
        across, down = self._extents(use, streamed)
        if any(factors) and not (isinstance(across, Expr) and across.is_const and across == down):
            raise NotApplicable("a block of a matrix is not square")

    def _product(self, latch: Command, use: Command) -> tuple[Command, Command]:
        latched, _ = self._machine.local_operands(latch.name)
        streamed, _ = self._machine.local_operands(use.name)
        latch = self._swapped(latch, *self._machine.local_operands(latch.name))
        use = self._swapped(use, *self._machine.local_operands(use.name))
        column, matrix = self._operand(latch, latched), self._operand(use, streamed)
        return self._with(latch, latched, matrix), self._with(use, streamed, column)

    def _buffers(self) -> Iterator[Buffer]:
        """The buffers of columns."""
        factors = {(u, self._machine.local_operands(u.name)[0]) for _, u in self._products}
        for buffer in buffers_of(self._kernel.body, self._machine):
            used = [a for a in buffer.accesses if self._unit(a.command) == "execute"]
            matrices = [a for a in used if (a.command, a.operand) in factors]
            if not used or len(matrices) == len(used):
                continue
            if matrices:
                raise NotApplicable(f"{buffer.name} contains both columns and matrices")
            width = self._machine.spaces[buffer.space].row_columns
            starts = set()
            for access in buffer.accesses:
                start, period = lattice(access)
                starts.add(start % width)
                across, down = self._extents(access.command, access.operand)
                fits = not isinstance(down, Expr) or not down.is_const or down.const <= width
                if across != Expr(1) or not fits or access.rows > width or period % width:
                    raise NotApplicable(f"{buffer.name} contains more than columns of {width}")
            if len(starts) > 1:
                raise NotApplicable(f"columns of {buffer.name} overlap")
            yield buffer

    def _check_move(self, move: Command) -> None:
        dram = next((o for o in move.operands if isinstance(o, Dram)), None)
        if dram is None:
            return  # zeros
        size = SIZES.get(next(a.element for a in self._kernel.arrays if a.name == dram.array))
        stride = self._strides[move]
        if size is None or stride != Expr(size):
            raise NotApplicable(f"the elements of {dram.array} are not contiguous")

    @cached_property
    def _strides(self) -> dict[Command, Operand | None]:
        """The distance between the rows of each move."""
        units = ("load", "store")
        own = [c for c in commands(self._kernel.body) if self._unit(c) in units]
        free = resolved(self._kernel, self._machine)
        carrying = [c for c in commands(free.body) if self._unit(c) in units]
        return {
            move: own_setting(other, self._machine).get("dram_stride")
            for move, other in zip(own, carrying, strict=True)
        }

    def _extents(self, command: Command, operand: int) -> tuple[Operand, Operand]:
        across, down = (
            self._machine.extent(command.name, operand, axis) for axis in ("columns", "rows")
        )
        if across is None or down is None:
            raise NotApplicable(f"the size of what {command.name} uses is not given")
        return command.operands[across], command.operands[down]

    def _swapped(self, command: Command, *operands: int) -> Command:
        """A command in which columns and rows of some local operands are exchanged."""
        for operand in operands:
            across, down = self._extents(command, operand)
            command = self._with(command, operand, (command.operands[operand], down, across))
        return command

    def _operand(self, command: Command, operand: int) -> tuple[Operand, Operand, Operand]:
        return (command.operands[operand], *self._extents(command, operand))

    def _with(
        self, command: Command, operand: int, block: tuple[Operand, Operand, Operand]
    ) -> Command:
        new = list(command.operands)
        for at, value in zip(
            (
                operand,
                *(self._machine.extent(command.name, operand, a) for a in ("columns", "rows")),
            ),
            block,
            strict=True,
        ):
            assert at is not None
            new[at] = value
        return replace(command, operands=tuple(new))


def _products(body: Body, machine: Machine) -> Iterator[tuple[Command, Command]]:
    """Commands that latch an operand, each with the next command, which uses it."""
    for before, stmt in zip((None, *body), body, strict=False):
        if isinstance(stmt, Loop):
            yield from _products(stmt.body, machine)
        elif isinstance(stmt, Guard):
            yield from _products(stmt.body, machine)
            yield from _products(stmt.orelse, machine)
        elif isinstance(stmt, Command) and isinstance(before, Command):
            pair = (before.name, "latches"), (stmt.name, "uses")
            if all(machine.attribute(*what) for what in pair):
                yield before, stmt

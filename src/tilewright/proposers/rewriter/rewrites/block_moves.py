"""Commands that rewrites of a block add: moves, copies through the array, fences."""

from __future__ import annotations

from dataclasses import replace

from tilewright.proposers.rewriter.analysis.block import Block
from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.sections import Section
from tilewright.proposers.rewriter.analysis.settings import own_setting, with_setting
from tilewright.proposers.rewriter.analysis.touched_rows import Touch, touches
from tilewright.proposers.rewriter.expr import Expr, quotient
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Flag,
    Kernel,
    Local,
    Operand,
    Text,
    commands,
)
from tilewright.proposers.rewriter.machine import Machine


def scale_of(load: Command, machine: Machine) -> float:
    """The factor of a load; `NotApplicable` if it is not a number."""
    return _factor(own_setting(load, machine).get("scale"))


def scaled(load: Command, machine: Machine, factor: float) -> Command:
    """A load that also multiplies by a further factor."""
    value = scale_of(load, machine) * factor
    return with_setting(load, machine, "scale", Text(f"{value!r}f"))


def _factor(operand: Operand | None) -> float:
    match operand:
        case None:
            return 1.0
        case Expr(const, ()):
            return float(const)
        case Text(text):
            try:
                return float(text.rstrip("fF"))
            except ValueError:
                pass
    raise NotApplicable("a scale is not a number")


def element_of(kernel: Kernel, array: str) -> str:
    """C type of an array's elements."""
    return next(a.element for a in kernel.arrays if a.name == array)


def is_lossless(store: Command, block: Block) -> bool:
    """Whether a store writes exactly the contents of the local rows, in the array's own type."""
    machine = block.machine
    local = next(o for o in store.operands if isinstance(o, Local))
    section = block.section(store)
    if section is None:
        return False
    given = own_setting(store, machine)
    plain = _factor(given.get("scale")) == 1.0 and is_off(given.get("activation"), machine)
    return plain and machine.element(local.space) == element_of(block.kernel, section.array)


def is_off(operand: Operand | None, machine: Machine) -> bool:
    """Whether a mode has the value 0, which means that it is off."""
    if isinstance(operand, Text):
        return machine.constants.get(operand.text, 1) == 0
    return operand is None or operand == Expr(0)


def copied(block: Block, product: Touch, source: Touch, target: Local) -> Body:
    """Local rows copied through the array, by adding them to a product with no operand.

    `product` is any operand of a product, whose commands are used. `source` are the rows with their
    extents. `NotApplicable` if the target has no addend or changes results on their way.
    """
    machine = block.machine
    latch, use = product_commands(block, product.command)
    check_results_unchanged(block)
    absent = machine.flag("absent")
    addend = machine.attribute(use.name, "addend")
    if absent is None or addend is None:
        raise NotApplicable("the products have no addend")
    columns, rows = _extents(source, machine)
    written = machine.operands(latch.name, "local_write")[0]
    first: list[Operand] = [columns if "columns" in r else rows for r in _roles(latch, machine)]
    for position in machine.local_operands(latch.name):
        first[position] = target if position == written else Text(absent)
    second: list[Operand] = [columns if "columns" in r else rows for r in _roles(use, machine)]
    operands = machine.local_operands(use.name)
    for position in operands:
        second[position] = Text(absent)
    second[operands[int(addend)]] = source.local
    return Command(latch.name, tuple(first)), Command(use.name, tuple(second))


def check_results_unchanged(block: Block) -> None:
    """`NotApplicable` if the array applies a function to operands or results on their way."""
    machine = block.machine
    products = (c for c in commands(block.kernel.body) if machine.unit(c.name) == "execute")
    configured = {machine.attribute(c.name, "configured_by") for c in products}
    for command in commands(block.kernel.body):
        given = dict(zip(machine.effects[command.name].operands, command.operands, strict=False))
        if command.name not in configured:
            continue
        if not is_off(given.get("activation"), machine):
            raise NotApplicable("the array applies a function to its results")
        if _factor(given.get("scale")) != 1.0:
            raise NotApplicable("the array scales operands from the memory of sums")


def product_commands(block: Block, member: Command) -> tuple[Command, Command]:
    """The two commands of the product that a command belongs to."""
    machine, body = block.machine, block.body
    position = body.index(member)
    start = position if machine.attribute(member.name, "latches") else position - 1
    pair = body[start : start + 2]
    latch, use = pair if len(pair) == 2 else (None, None)
    if not (
        isinstance(latch, Command)
        and isinstance(use, Command)
        and machine.attribute(latch.name, "latches")
        and machine.attribute(use.name, "uses")
    ):
        raise NotApplicable("other commands separate the two commands of a product")
    return latch, use


def any_product(block: Block) -> Touch:
    """An operand of the first product that latches the operand it uses."""
    machine = block.machine
    for stmt in block.body:
        if isinstance(stmt, Command) and machine.attribute(stmt.name, "latches"):
            _, use = product_commands(block, stmt)
            if not machine.attribute(use.name, "keeps"):
                return touches(stmt, machine)[0]
    raise NotApplicable("there is no product")


def _roles(command: Command, machine: Machine) -> tuple[str, ...]:
    return machine.effects[command.name].operands


def _extents(touch: Touch, machine: Machine) -> tuple[Operand, Operand]:
    """Columns and rows of an operand, which is at most one block."""
    found = []
    for axis in ("columns", "rows"):
        at = machine.extent(touch.command.name, touch.operand, axis)
        if at is None:
            raise NotApplicable(f"the {axis} of {touch.command.name} are not given")
        found.append(touch.command.operands[at])
    width = machine.spaces[touch.local.space].row_columns
    if not (isinstance(found[0], Expr) and found[0].is_const and found[0].const <= width):
        raise NotApplicable("several blocks are moved at once")
    return found[0], found[1]


def load_like(
    block: Block, store: Command, section: Section, target: Local, factor: float
) -> Command:
    """A load of a section in the layout of a store with the same number of elements."""
    machine = block.machine
    name = next((e.name for e in machine.effects.values() if e.unit == "load"), None)
    if name is None:
        raise NotApplicable("the target has no loads")
    given = own_setting(store, machine)
    at = {r: i for i, r in enumerate(_roles(store, machine))}
    rows, columns = store.operands[at["rows"]], store.operands[at["columns"]]
    wanted = {
        "dram_stride": given.get("dram_stride", Expr()),
        "scale": Text(f"{factor!r}f"),
        "block_stride": Expr(int(machine.attribute(name, "max_rows") or 1)),
    }
    roles = _roles(Command(name, ()), machine)
    setting = machine.attribute(name, "configured_by") or ""
    extra = tuple(wanted[r] for r in machine.effects[setting].operands if r != "id")
    values: dict[str, Operand] = {
        "dram_read": _place(block.kernel, section),
        "local_write": target,
        "columns": columns,
        "rows": rows,
    }
    return Command(name, (*(values[r] for r in roles), *extra))


def store_of(block: Block, like: Command, section: Section, source: Local) -> Command:
    """A store like another one, but of other local rows to another place."""
    operands: list[Operand] = list(like.operands)
    roles = _roles(like, block.machine)
    operands[roles.index("dram_write")] = _place(block.kernel, section)
    operands[roles.index("local_read")] = source
    return replace(like, operands=tuple(operands), notes=(), trailing="")


def _place(kernel: Kernel, section: Section) -> Dram:
    """The array's element at a section's start."""
    shape = next(a.shape for a in kernel.arrays if a.name == section.array)
    rest = section.start
    index: list[Expr] = []
    for size in reversed(shape[1:]):
        # Terms that are whole rows belong to the outer dimensions, and the rest to this one.
        inner = Expr(rest.const % size, tuple((a, c) for a, c in rest.terms if c % size))
        index.insert(0, inner)
        rest = quotient(rest - inner, size)
    index.insert(0, rest)
    return Dram(section.array, tuple(index))


def fence_of(block: Block) -> Command:
    """A command that waits for all others, as the kernel already uses it."""
    for command in commands(block.kernel.body):
        if block.machine.unit(command.name) == "sync":
            return Command(command.name, command.operands)
    raise NotApplicable("the kernel has no fence to copy")


def adding(space: str, row: int, machine: Machine) -> Local:
    """The local rows to which a write accumulates."""
    flag = machine.flag("accumulate")
    if flag is None:
        raise NotApplicable("no local memory adds what is written to it")
    return Local(space, Expr(row), (Flag(flag),))

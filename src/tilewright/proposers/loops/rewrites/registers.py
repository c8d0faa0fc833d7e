"""Assign registers of jammed copies: each copy gets its own, and equal loads of two copies are
merged.

Before (two copies of a body, numbers of the second from 1000)::

    load(1, &A[i][k]);  load(2, &B[k][j]);  multiply(0, 1, 2);
    load(1001, &A[i][k]);  load(1002, &B[k][j + 16]);  multiply(1000, 1001, 1002);

After::

    load(1, &A[i][k]);  load(2, &B[k][j]);  multiply(0, 1, 2);
    load(3, &B[k][j + 16]);  multiply(4, 1, 3);

The description of a register in the kernel's head is copied to its new number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.ir import (
    Assign,
    Command,
    Expr,
    For,
    Kernel,
    Number,
    Statement,
    statements,
)

_OF_COPY = 1000
_LIST = re.compile(r"\{([^{}]*)\}")
_Shape = tuple[str, ...]
_READS = ("register_read", "register_update")
_WRITES = ("register_write", "register_update")


def require_private(kernel: Kernel, loop: For) -> None:
    """Raise unless the loop's body writes each of its registers first, and nothing else uses them.

    A command that names no register may affect all of them, for example a configuration command.
    """
    inside = [*_used(loop.body)]
    if not inside:
        return
    if not kernel.registers:
        raise NotApplicableError("the target does not describe individual registers")
    for statement in statements(loop.body):
        if isinstance(statement, Command) and not _names_registers(statement):
            raise NotApplicableError(f"{statement.name} in the loop may affect all registers")
    seen: set[int] = set()
    for number, role in inside:
        if number not in seen and role != "register_write":
            raise NotApplicableError(f"register {number} comes from outside the loop")
        seen.add(number)
    for statement in kernel.body:
        if not seen.intersection(number for number, _ in _used((statement,))):
            continue
        if any(s is loop for s in statements((statement,))):
            there = [number for number, _ in _used((statement,)) if number in seen]
            alone = len(there) == len(inside)
        else:
            alone = _self_contained(statement)
        if not alone:
            raise NotApplicableError("a register of the loop is also used elsewhere")


def require_unused_before(statement: Statement, number: int) -> None:
    """Raise unless earlier commands can use a register for something else.

    For this, the register must be written before it is read, and no command may affect registers in
    general.
    """
    for inner in statements((statement,)):
        if isinstance(inner, Command) and not _names_registers(inner):
            raise NotApplicableError(f"{inner.name} in the loop may affect all registers")
    first = next((role for used, role in _used((statement,)) if used == number), None)
    if first != "register_write":
        raise NotApplicableError(f"register {number} comes from outside the loop")


def _self_contained(statement: Statement) -> bool:
    """Whether all registers in the statements are written before they are read."""
    seen: set[int] = set()
    for number, role in _used((statement,)):
        if number not in seen and role != "register_write":
            return False
        seen.add(number)
    return True


def of_copy(body: list[Statement], copy: int) -> list[Statement]:
    """The statements with register numbers that no other copy has."""
    numbers = {number: number + _OF_COPY * copy for number, _ in _used(tuple(body))}
    return [_renumbered(statement, numbers) for statement in body]


def shared(kernel: Kernel) -> Kernel:
    """Equal loads are merged, and registers get small numbers. Raises `NotApplicableError`.

    Statements of the kernel that do not pass values to each other in registers use the same
    registers.
    """
    regions: list[tuple[Statement, ...]] = [(statement,) for statement in kernel.body]
    if not all(_self_contained(statement) for statement in kernel.body):
        regions = [kernel.body]
    bodies = [_shared_in(region, kernel) for region in regions]
    orders = [list(dict.fromkeys(number for number, _ in _used(body))) for body in bodies]
    most = max(orders, key=len)
    if len(most) > max(kernel.registers, 1):
        raise NotApplicableError(f"{len(most)} registers are needed")
    head = tuple(_redescribed(text, most, kernel.registers) for text in kernel.head)
    new = replace(kernel, head=head)
    done: list[Statement] = []
    for body, order in zip(bodies, orders, strict=True):
        numbers: dict[int, int] = {}
        for number in order:
            free = (n for n in range(max(new.registers, len(most))) if n not in numbers.values())
            alike = (n for n in free if order is most or _shape(new, n) == _shape(kernel, number))
            place = next(alike, None)
            if place is None:
                raise NotApplicableError("no register of the same kind is free")
            numbers[number] = place
        done += [_renumbered(s, numbers) for s in body]
    return replace(new, body=tuple(done))


def _shared_in(body: tuple[Statement, ...], kernel: Kernel) -> tuple[Statement, ...]:
    writers: dict[int, int] = {}
    for number, role in _used(body):
        writers[number] = writers.get(number, 0) + (role in _WRITES)
    shapes = {number: _shape(kernel, number) for number in writers}
    instead: dict[int, int] = {}
    kept = _without_repeats(body, writers, shapes, instead)
    return tuple(_renumbered(s, instead) for s in kept)


def _shape(kernel: Kernel, number: int) -> _Shape:
    """The description of a register, or of the register from which it was copied, in the lists of
    the kernel's head."""
    return tuple(
        values[number % _OF_COPY]
        for text in kernel.head
        for values in map(_values, _LIST.findall(text))
        if len(values) == kernel.registers
    )


def _values(listed: str) -> list[str]:
    return [value.strip() for value in listed.split(",")]


def _redescribed(text: str, order: list[int], registers: int) -> str:
    """A declaration whose lists contain, at each new number, the values of the old number."""

    def permuted(found: re.Match[str]) -> str:
        values = _values(found.group(1))
        if len(values) != registers:
            return found.group()
        kept = [values[number % _OF_COPY] for number in order]
        return "{" + ", ".join(kept + values[len(kept) :]) + "}"

    return _LIST.sub(permuted, text) if registers else text


def _without_repeats(
    body: tuple[Statement, ...],
    writers: Mapping[int, int],
    shapes: Mapping[int, _Shape],
    instead: dict[int, int],
) -> tuple[Statement, ...]:
    kept: list[Statement] = []
    loaded: dict[tuple[str, tuple[Expr, ...], _Shape], int] = {}
    for statement in body:
        if isinstance(statement, For):
            inner = _without_repeats(statement.body, writers, shapes, instead)
            kept.append(replace(statement, body=inner))
            loaded.clear()
            continue
        if isinstance(statement, Command):
            if is_load(statement):
                number = _number(statement.arguments[0])
                key = (statement.name, statement.arguments[1:], shapes[number])
                if key in loaded and writers[number] == 1:
                    instead[number] = loaded[key]
                    continue
                loaded = {k: n for k, n in loaded.items() if n != number}
                if writers[number] == 1:
                    loaded[key] = number
            elif "dram_write" in statement.roles or not _names_registers(statement):
                loaded.clear()
        elif isinstance(statement, Assign):  # of what is loaded, or of its address
            loaded.clear()
        kept.append(statement)
    return tuple(kept)


def is_load(command: Command) -> bool:
    """Whether a command only fills one register from memory."""
    registers = [role for role in command.roles if role.startswith("register")]
    return registers == ["register_write"] == [command.roles[0]] and "dram_read" in command.roles


def registers_of(command: Command) -> set[int]:
    """The registers that a command names."""
    return {number for number, _ in _used((command,))}


def _names_registers(command: Command) -> bool:
    return any(role.startswith("register") for role in command.roles)


def _used(body: tuple[Statement, ...]) -> Iterator[tuple[int, str]]:
    """Registers and roles in the order of the text. Registers that a command reads come before
    those that it writes."""
    for statement in statements(body):
        if isinstance(statement, Command):
            found = [
                (_number(argument), role)
                for argument, role in zip(statement.arguments, statement.roles, strict=True)
                if role.startswith("register")
            ]
            yield from sorted(found, key=lambda use: use[1] not in _READS)


def _number(argument: Expr) -> int:
    if not isinstance(argument, Number) or not argument.text.isdigit():
        raise NotApplicableError("the number of a register is not a literal")
    return int(argument.text)


def _renumbered(statement: Statement, numbers: Mapping[int, int]) -> Statement:
    if isinstance(statement, For):
        return replace(statement, body=tuple(_renumbered(s, numbers) for s in statement.body))
    if not isinstance(statement, Command):
        return statement
    arguments = tuple(
        Number(str(numbers.get(_number(argument), _number(argument))))
        if role.startswith("register")
        else argument
        for argument, role in zip(statement.arguments, statement.roles, strict=True)
    )
    return replace(statement, arguments=arguments)

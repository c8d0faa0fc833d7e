"""Registers of jammed copies: each copy gets its own; what two copies load alike is loaded once.

Before (two copies of a body, numbers of the second from 1000)::

    load(1, &A[i][k]);  load(2, &B[k][j]);  multiply(0, 1, 2);
    load(1001, &A[i][k]);  load(1002, &B[k][j + 16]);  multiply(1000, 1001, 1002);

After::

    load(1, &A[i][k]);  load(2, &B[k][j]);  multiply(0, 1, 2);
    load(3, &B[k][j + 16]);  multiply(4, 1, 3);
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilewright.proposers.loops.analysis import NotApplicableError
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
_READS = ("register_read", "register_update")
_WRITES = ("register_write", "register_update")


def require_private(kernel: Kernel, loop: For) -> None:
    """Raise unless each register of the loop is written first in its body, and unused elsewhere.

    A command that names no register may concern them all, as a configuration does.
    """
    inside = [*_used(loop.body)]
    if not inside:
        return
    if not kernel.registers:
        raise NotApplicableError("registers have different shapes")
    for statement in statements(loop.body):
        if isinstance(statement, Command) and not _names_registers(statement):
            raise NotApplicableError(f"{statement.name} in the loop may concern all registers")
    seen: set[int] = set()
    for number, role in inside:
        if number not in seen and role != "register_write":
            raise NotApplicableError(f"register {number} comes from outside the loop")
        seen.add(number)
    everywhere = [number for number, _ in _used(kernel.body) if number in seen]
    if len(everywhere) != len(inside):
        raise NotApplicableError("a register of the loop is used elsewhere too")


def of_copy(body: list[Statement], copy: int) -> list[Statement]:
    """The statements with numbers of registers that no other copy has."""
    numbers = {number: number + _OF_COPY * copy for number, _ in _used(tuple(body))}
    return [_renumbered(statement, numbers) for statement in body]


def shared(kernel: Kernel) -> Kernel:
    """Loads of the same block become one, and numbers small; `NotApplicableError` if too many."""
    writers: dict[int, int] = {}
    for number, role in _used(kernel.body):
        writers[number] = writers.get(number, 0) + (role in _WRITES)
    instead: dict[int, int] = {}
    body = _without_repeats(kernel.body, writers, instead)
    body = tuple(_renumbered(s, instead) for s in body)
    order = list(dict.fromkeys(number for number, _ in _used(body)))
    if len(order) > max(kernel.registers, 1) and order:
        raise NotApplicableError(f"{len(order)} registers are needed")
    numbers = {number: place for place, number in enumerate(order)}
    return replace(kernel, body=tuple(_renumbered(s, numbers) for s in body))


def _without_repeats(
    body: tuple[Statement, ...], writers: Mapping[int, int], instead: dict[int, int]
) -> tuple[Statement, ...]:
    kept: list[Statement] = []
    loaded: dict[tuple[str, tuple[Expr, ...]], int] = {}
    for statement in body:
        if isinstance(statement, For):
            inner = _without_repeats(statement.body, writers, instead)
            kept.append(replace(statement, body=inner))
            loaded.clear()
            continue
        if isinstance(statement, Command):
            key = (statement.name, statement.arguments[1:])
            if _is_load(statement):
                number = _number(statement.arguments[0])
                if key in loaded and writers[number] == 1:
                    instead[number] = loaded[key]
                    continue
                loaded = {k: n for k, n in loaded.items() if n != number}
                if writers[number] == 1:
                    loaded[key] = number
            elif "dram_write" in statement.roles or not _names_registers(statement):
                loaded.clear()
        elif isinstance(statement, Assign):  # of what is loaded, or of where
            loaded.clear()
        kept.append(statement)
    return tuple(kept)


def _is_load(command: Command) -> bool:
    """Whether all it does is to fill one register from memory."""
    registers = [role for role in command.roles if role.startswith("register")]
    return registers == ["register_write"] == [command.roles[0]] and "dram_read" in command.roles


def _names_registers(command: Command) -> bool:
    return any(role.startswith("register") for role in command.roles)


def _used(body: tuple[Statement, ...]) -> Iterator[tuple[int, str]]:
    """Registers and roles in textual order; what a command reads comes before what it writes."""
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
        raise NotApplicableError("the number of a register is no literal")
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

"""Finds the settings that apply to moves and products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Guard,
    Kernel,
    Loop,
    Opaque,
    Text,
    commands,
    walk,
)
from tilewright.proposers.rewriter.machine import Machine


def block_stride(kernel: Kernel, machine: Machine, command: Command) -> int:
    """Number of rows between neighbouring blocks of a wide move, as set for this command."""
    return block_strides(kernel.body, machine).get(
        (
            machine.attribute(command.name, "configured_by") or "",
            machine.attribute(command.name, "id") or "",
        ),
        default_stride(machine, command.name),
    )


def settings_for(kernel: Kernel, machine: Machine, move: Command) -> Sequence[Command]:
    """Every setting in the kernel that applies to the move."""
    return _settings_for(kernel.body, machine, move.name)


@lru_cache(maxsize=1024)
def _settings_for(body: Body, machine: Machine, move: str) -> Sequence[Command]:
    found = []
    for stmt in commands(body):
        if stmt.name == machine.attribute(move, "configured_by"):
            roles = machine.effects[stmt.name].operands
            key = dict(zip(roles, stmt.operands, strict=False)).get("id")
            wanted = machine.attribute(move, "id")
            if key is None or wanted is None or key == Expr(int(wanted)):
                found.append(stmt)
    return tuple(found)


def settings_reaching(kernel: Kernel, machine: Machine, move: Command) -> frozenset[Command]:
    """The settings of which one is in force when a move of the kernel is issued."""
    return _reaching(kernel.body, machine).get(move, frozenset())


_State: TypeAlias = dict[tuple[str, str], frozenset[Command]]
"""The settings that may be in force, by command and id."""


@lru_cache(maxsize=256)
def _reaching(body: Body, machine: Machine) -> dict[Command, frozenset[Command]]:
    found: dict[Command, frozenset[Command]] = {}
    _follow(body, {}, machine, found)
    return found


def _follow(
    body: Body, state: _State, machine: Machine, found: dict[Command, frozenset[Command]]
) -> _State:
    """The settings that may be in force after some code. Those for each move in it are recorded."""
    for stmt in body:
        match stmt:
            case Command(name, operands) if machine.unit(name) == "config":
                given = dict(zip(machine.effects[name].operands, operands, strict=False))
                key = given.get("id")
                known = key is None or (isinstance(key, Expr) and key.is_const)
                for one in [k for k in state if k[0] == name] if not known else ():
                    state = {**state, one: state[one] | {stmt}}
                if known:
                    own = str(key.const) if isinstance(key, Expr) else ""
                    state = {**state, (name, own): frozenset((stmt,))}
            case Command(name):
                setting = machine.attribute(name, "configured_by") or ""
                for own in (machine.attribute(name, "id") or "", ""):
                    found[stmt] = found.get(stmt, frozenset()) | state.get((setting, own), set())
            case Loop():
                again = _either(state, _follow(stmt.body, state, machine, found))
                state = _either(state, _follow(stmt.body, again, machine, found))
            case Guard():
                yes = _follow(stmt.body, state, machine, found)
                state = _either(yes, _follow(stmt.orelse, state, machine, found))
    return state


def _either(left: _State, right: _State) -> _State:
    return {
        key: left.get(key, frozenset()) | right.get(key, frozenset())
        for key in left.keys() | right.keys()
    }


def by_same_setting(left: Command, right: Command, machine: Machine) -> bool:
    """Whether the same setting applies to two commands."""
    return all(
        machine.attribute(left.name, key) == machine.attribute(right.name, key)
        for key in ("configured_by", "id")
    )


@dataclass(frozen=True, slots=True)
class Operands:
    """How the array may read the blocks that it multiplies, for any setting that may be in force.

    `stride` is the maximum number of local rows from one row of a streamed block to the next; None
    if it is not known. `transposed` says whether the columns of a block may be local rows.
    `streamed` and `latched` say it of each of the two operands of a product; None if settings
    differ or are not known.
    """

    stride: int | None
    transposed: bool
    streamed: bool | None = False
    latched: bool | None = False

    def flips(self, command: Command, operand: int, machine: Machine) -> bool | None:
        """Whether columns of an operand are its local rows; None if that is not known."""
        if is_streamed(command, operand, machine):
            return self.streamed
        if machine.attribute(command.name, "latches") is not None:
            return self.latched
        return False if self.latched is False else None


@lru_cache(maxsize=256)
def operands_of(body: Body, machine: Machine) -> Operands:
    """The properties that the array settings in a kernel's body allow."""
    strides, found = [1], {role: set[bool | None]() for role in _TRANSPOSED}
    for stmt in commands(body):
        if machine.unit(stmt.name) == "config":
            given = dict(zip(machine.effects[stmt.name].operands, stmt.operands, strict=False))
            stride = given.get("a_stride", Expr(1))
            known = isinstance(stride, Expr) and stride.is_const
            strides.append(stride.const if isinstance(stride, Expr) and known else 0)
            for role in set(_TRANSPOSED) & set(given):
                found[role].add(_choice(given[role]))
            in_memory = Text(machine.attribute(stmt.name, "sums_in_memory") or "")
            if given.get("b_transpose", Expr()) != Expr() and given.get("dataflow") != in_memory:
                found["b_transpose"].add(None)  # a latched block begins a sum, so it is not changed
    if any(isinstance(stmt, Opaque) for stmt in walk(body)):  # it may set the array, too
        found = {role: {None} if one - {False} else one for role, one in found.items()}
    streamed, latched = (
        next(iter(one)) if len(one) == 1 else None if one else False for one in found.values()
    )
    return Operands(
        max(strides) if all(strides) else None, bool(streamed is not False or latched is not False),
        streamed, latched,
    )  # fmt: skip


def _choice(operand: object) -> bool | None:
    """Whether a setting is on; None if that is not known."""
    known = isinstance(operand, Expr) and operand.is_const and operand.const in (0, 1)
    return bool(operand.const) if known and isinstance(operand, Expr) else None


_TRANSPOSED = ("a_transpose", "b_transpose")


def is_streamed(command: Command, operand: int, machine: Machine) -> bool:
    """Whether the array reads an operand row by row with its stride."""
    uses = machine.attribute(command.name, "uses") is not None
    return uses and operand == machine.local_operands(command.name)[0]


def default_stride(machine: Machine, name: str) -> int:
    """Number of rows of a block if the command's setting does not give another number."""
    return int(machine.attribute(name, "max_rows") or 1)


@lru_cache(maxsize=256)
def block_strides(body: Body, machine: Machine) -> dict[tuple[str, str], int]:
    """Block stride for each configuring command and id; the largest one if it is set twice."""
    found: dict[tuple[str, str], int] = {}
    for stmt in commands(body):
        if machine.unit(stmt.name) == "config":
            given = dict(zip(machine.effects[stmt.name].operands, stmt.operands, strict=False))
            stride, key = given.get("block_stride"), given.get("id")
            if isinstance(stride, Expr) and stride.is_const and isinstance(key, Expr):
                slot = (stmt.name, str(key.const))
                found[slot] = max(found.get(slot, 0), stride.const)
    return found

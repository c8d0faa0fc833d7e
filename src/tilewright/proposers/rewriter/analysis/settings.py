"""Makes settings part of the moves to which they apply, and inserts them again where they are
needed.

The effect of a move depends on the last setting, so moving it across another setting changes its
meaning. Therefore, rewrites that move loads and stores work on a kernel without settings. In such a
kernel, each move contains the operands of its setting after its own operands.

Before: `config(48, 1.0f, 4, id0); load0(&A[i][0], SPAD(0), 4, 4);`
After:  `load0(&A[i][0], SPAD(0), 4, 4, 48, 1.0f, 4);`
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import (
    Body,
    Command,
    Dram,
    Guard,
    Kernel,
    Loop,
    Operand,
    Stmt,
    walk_paths,
)
from tilewright.proposers.rewriter.machine import Machine

Key: TypeAlias = tuple[str, str]
"""A setting's command and id; the id is empty if there is only one."""
Setting: TypeAlias = tuple[Operand, ...]
"""The operands of a setting without its id."""
State: TypeAlias = Mapping[Key, "Setting | None"]
"""The setting in force; None if it depends on the path to this place."""


def resolved(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel without settings of moves, in which each move contains its own (see the
    module)."""
    return kernel.with_body(_Resolver(machine).body(kernel.body, {})[0])


def settled(kernel: Kernel, machine: Machine, *, apart: bool = False) -> Kernel:
    """The inverse of `resolved`. It uses as few settings as the target's forms of a move allow.

    In loops, moves with different settings get different forms if there are enough forms; others
    share one. With `apart`, different arrays also get different forms, if there are enough for all
    of them.
    """
    forms = _assigned_forms(kernel, machine, apart=apart)
    return kernel.with_body(_Settler(machine, forms).body(kernel.body, {})[0])


def own_setting(move: Command, machine: Machine) -> Mapping[str, Operand]:
    """The setting that a move of a resolved kernel contains, by role."""
    roles = _roles(machine.attribute(move.name, "configured_by") or "", machine)
    return dict(zip(roles, move.operands[len(machine.effects[move.name].operands) :], strict=False))


def with_setting(move: Command, machine: Machine, role: str, value: Operand) -> Command:
    """A move of a resolved kernel in which one operand of its setting is replaced."""
    at = len(machine.effects[move.name].operands)
    at += _roles(machine.attribute(move.name, "configured_by") or "", machine).index(role)
    return replace(move, operands=(*move.operands[:at], value, *move.operands[at + 1 :]))


def _roles(setting: str, machine: Machine) -> list[str]:
    return [role for role in machine.effects[setting].operands if role != "id"]


def _key(move: Command, machine: Machine) -> Key | None:
    """The setting on which a move depends; None for commands that move nothing."""
    name = machine.attribute(move.name, "configured_by")
    if name is None or machine.unit(move.name) not in ("load", "store"):
        return None
    return name, machine.attribute(move.name, "id") or ""


def _movers(machine: Machine) -> frozenset[str]:
    """The settings on which loads and stores depend."""
    units = ("load", "store")
    found = (e.attributes.get("configured_by") for e in machine.effects.values() if e.unit in units)
    return frozenset(name for name in found if name is not None)


class _Rewriter(ABC):
    """Replaces statements one by one, with the knowledge of the settings in force before each."""

    def body(self, body: Body, state: State) -> tuple[Body, State]:
        result: list[Stmt] = []
        for stmt in body:
            new, state = self._one(stmt, state)
            result.extend(new)
        return tuple(result), state

    @abstractmethod
    def _one(self, stmt: Stmt, state: State) -> tuple[Body, State]: ...

    def _guard(self, guard: Guard, state: State) -> tuple[Body, State]:
        yes, first = self.body(guard.body, state)
        no, second = self.body(guard.orelse, state)
        return (replace(guard, body=yes, orelse=no),), _merged(first, second)


class _Resolver(_Rewriter):
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._movers = _movers(machine)

    def _one(self, stmt: Stmt, state: State) -> tuple[Body, State]:
        match stmt:
            case Command() if stmt.name in self._movers:
                key, setting = self._split(stmt)
                return (), {**state, key: setting}
            case Command():
                return (self._carrying(stmt, state),), state
            case Loop():
                end = self._state_after(stmt.body, state)
                entry = {k: v if end.get(k) == v else None for k, v in state.items()}
                body, after = self.body(stmt.body, entry)
                return (replace(stmt, body=body),), _merged(state, after)
            case Guard():
                return self._guard(stmt, state)
        return (stmt,), state  # code of the core does not change settings unless the IR models it

    def _state_after(self, body: Body, state: State) -> State:
        """The settings in force after a body that begins with the settings `state`."""
        for stmt in body:
            match stmt:
                case Command() if stmt.name in self._movers:
                    key, setting = self._split(stmt)
                    state = {**state, key: setting}
                case Loop():
                    state = _merged(state, self._state_after(stmt.body, state))
                case Guard():
                    state = _merged(
                        self._state_after(stmt.body, state), self._state_after(stmt.orelse, state)
                    )
        return state

    def _split(self, command: Command) -> tuple[Key, Setting]:
        roles = self._machine.effects[command.name].operands
        at = roles.index("id") if "id" in roles else None
        key = "" if at is None else str(command.operands[at])
        if at is not None:
            operand = command.operands[at]
            if not (isinstance(operand, Expr) and operand.is_const):
                raise NotApplicable(f"the id of {command.name} is not a constant")
            key = str(operand.const)
        return (command.name, key), tuple(o for i, o in enumerate(command.operands) if i != at)

    def _carrying(self, command: Command, state: State) -> Command:
        key = _key(command, self._machine)
        if key is None:
            return command
        setting = state.get(key)
        if setting is None:
            raise NotApplicable(f"the setting for {command.name} differs between the paths to it")
        return replace(command, operands=(*command.operands, *setting))


def _merged(left: State, right: State) -> State:
    return {k: left.get(k) if left.get(k) == right.get(k) else None for k in {*left, *right}}


def _moves(kernel: Kernel, machine: Machine) -> Iterator[tuple[Command, Body, Setting]]:
    for stmt, above in walk_paths(kernel.body):
        if isinstance(stmt, Command) and _key(stmt, machine) is not None:
            yield stmt, above, stmt.operands[len(machine.effects[stmt.name].operands) :]


@dataclass(frozen=True, slots=True)
class _Slot:
    """Moves that share a form: identified by the command of their setting, the setting, and the
    array."""

    config: str
    setting: Setting
    array: str


def _slot(move: Command, machine: Machine) -> _Slot:
    """The slot of a move that contains its setting, separate from those of other arrays."""
    config = machine.attribute(move.name, "configured_by") or ""
    setting = move.operands[len(machine.effects[move.name].operands) :]
    array = next((o.array for o in move.operands if isinstance(o, Dram)), "")
    return _Slot(config, setting, array)


def _assigned_forms(kernel: Kernel, machine: Machine, *, apart: bool) -> Mapping[_Slot, str]:
    """The form of the move for each slot."""
    weights: dict[_Slot, int] = {}
    written: dict[_Slot, str] = {}
    by_setting: dict[str, list[str]] = {}
    for move, above, _ in _moves(kernel, machine):
        slot = _slot(move, machine)
        depth = sum(isinstance(s, Loop) for s in above)
        weights[slot] = weights.get(slot, 0) + (100**depth if depth else 0)
        written.setdefault(slot, move.name)
        by_setting.setdefault(slot.config, _forms(move.name, machine))
    result: dict[_Slot, str] = {}
    for config, forms in by_setting.items():
        slots = sorted((s for s in weights if s.config == config), key=lambda s: -weights[s])
        if apart and len(slots) <= len(forms):
            result |= _one_each(slots, forms, written)
            continue
        total: dict[Setting, int] = {}
        for slot in weights:
            if slot.config == config:
                total[slot.setting] = total.get(slot.setting, 0) + weights[slot]
        used = sorted(total, key=lambda setting: -total[setting])
        for slot in slots:
            # The most used slots each get their own form; the others share the last one.
            result[slot] = forms[min(used.index(slot.setting), len(forms) - 1)]
    return result


def _one_each(
    slots: list[_Slot], forms: list[str], written: Mapping[_Slot, str]
) -> Mapping[_Slot, str]:
    """A form for each slot: the one with which it was written, unless another slot has it."""
    result: dict[_Slot, str] = {}
    for slot in slots:
        if written[slot] in forms and written[slot] not in result.values():
            result[slot] = written[slot]
    free = [f for f in forms if f not in result.values()]
    return result | dict(zip((s for s in slots if s not in result), free, strict=False))


def _forms(name: str, machine: Machine) -> list[str]:
    """Commands that differ from this one only in the id of their setting."""
    effect = machine.effects[name]

    def plain(attributes: Mapping[str, str]) -> dict[str, str]:
        return {k: v for k, v in attributes.items() if k != "id"}

    return [
        other.name
        for other in machine.effects.values()
        if other.unit == effect.unit
        and other.operands == effect.operands
        and plain(other.attributes) == plain(effect.attributes)
    ]


class _Settler(_Rewriter):
    def __init__(self, machine: Machine, forms: Mapping[_Slot, str]) -> None:
        self._machine = machine
        self._forms = forms

    def _one(self, stmt: Stmt, state: State) -> tuple[Body, State]:
        match stmt:
            case Command() if _key(stmt, self._machine) is not None:
                move, key, setting = self._named(stmt)
                if state.get(key) == setting:
                    return (move,), state
                first = replace(self._setting(key, setting), notes=move.notes)
                return (first, replace(move, notes=())), {**state, key: setting}
            case Loop():
                return self._loop(stmt, state)
            case Guard():
                return self._guard(stmt, state)
        return (stmt,), state

    def _loop(self, loop: Loop, state: State) -> tuple[Body, State]:
        """Settings that do not change inside a loop are set before it."""
        wanted: dict[Key, set[Setting]] = {}
        for stmt, _ in walk_paths(loop.body):
            if isinstance(stmt, Command) and _key(stmt, self._machine) is not None:
                _, key, setting = self._named(stmt)
                wanted.setdefault(key, set()).add(setting)
        before: list[Stmt] = []
        for key, settings in wanted.items():
            only = settings.pop() if len(settings) == 1 else None
            if only is not None and state.get(key) != only:
                before.append(self._setting(key, only))
            state = {**state, key: only}
        body, after = self.body(loop.body, state)
        runs = loop.lower.is_const and loop.upper.is_const and loop.lower.const < loop.upper.const
        return (*before, replace(loop, body=body)), after if runs else _merged(state, after)

    def _named(self, move: Command) -> tuple[Command, Key, Setting]:
        """The move in its form and without its setting, the command that sets the setting, and the
        setting."""
        count = len(self._machine.effects[move.name].operands)
        setting = move.operands[count:]
        name = self._machine.attribute(move.name, "configured_by") or ""
        form = self._forms[_slot(move, self._machine)]
        key = (name, self._machine.attribute(form, "id") or "")
        return replace(move, name=form, operands=move.operands[:count]), key, setting

    def _setting(self, key: Key, setting: Setting) -> Command:
        operands = list(setting)
        roles = self._machine.effects[key[0]].operands
        if "id" in roles:
            operands.insert(roles.index("id"), Expr(int(key[1])))
        return Command(key[0], tuple(operands))

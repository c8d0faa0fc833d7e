"""The rewriter's description of an accelerator: the command effects of a `TargetBrief`, indexed.

Operand roles and attributes are described at the beginning of a target's `commands.toml`. The
rewriter itself contains no names of commands, memories or flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tilewright.core.records import CommandEffect, TargetBrief
from tilewright.proposers.c.limits import limits
from tilewright.proposers.rewriter.expr import Expr
from tilewright.proposers.rewriter.ir import Flag, Form, Local, Operand, Text, Words

_DRAM = ("dram_read", "dram_write")


@dataclass(frozen=True, slots=True)
class Space:
    """A local memory: rows, rows per bank, and elements per row."""

    name: str
    rows: int
    bank_rows: int
    row_columns: int

    @property
    def banks(self) -> int:
        """Number of banks."""
        return self.rows // self.bank_rows


@dataclass(frozen=True, eq=False)
class Machine:
    """Indexed view of a target's declared commands, memories, flags and constants.

    It is compared by identity, so that analyses can be cached for each machine.
    """

    effects: Mapping[str, CommandEffect]
    constants: Mapping[str, int]
    macros: tuple[str, ...] = ()
    packed: tuple[CommandEffect, ...] = ()

    @classmethod
    def of(cls, brief: TargetBrief) -> Machine:
        """The machine that a brief describes; always the same one for the same brief, so that all
        who ask share the cached analyses."""
        return _described(_Same(brief))

    @cached_property
    def known(self) -> frozenset[str]:
        """Names that a kernel may use without defining them."""
        return frozenset((*self.constants, *self.effects, *(e.name for e in self.packed)))

    @cached_property
    def unpacked(self) -> tuple[str, ...]:
        """The commands with packed blocks as `#define` macros of commands without packed blocks."""
        return tuple(e.attributes["definition"] for e in self.packed)

    @cached_property
    def words(self) -> Words | None:
        """How local blocks are packed into words, if the target has commands for them."""
        name = next((e.name for e in self.packed if e.unit == "word"), None)
        if name is None:
            return None
        forms = (e for e in self.packed if e.unit == "form")
        return Words(name, {e.attributes["of"]: self._form(e) for e in forms})

    @cached_property
    def forms(self) -> Mapping[str, tuple[str, Form]]:
        """Commands that take packed blocks, with the corresponding command without packing."""
        of = self.words.forms if self.words is not None else {}
        return {form.name: (name, form) for name, form in of.items()}

    def _form(self, effect: CommandEffect) -> Form:
        of = effect.attributes["of"]
        blocks = iter(self.local_operands(of))
        plain = (n for n, role in enumerate(self.effects[of].operands) if role in _DRAM)
        return Form(
            effect.name,
            tuple(
                self._block(of, next(blocks)) if role == "word" else (next(plain),)
                for role in effect.operands
            ),
        )

    def _block(self, name: str, local: int) -> tuple[int, ...]:
        columns, rows = (self.extent(name, local, axis) for axis in ("columns", "rows"))
        assert columns is not None
        assert rows is not None
        return local, columns, rows

    @cached_property
    def spaces(self) -> Mapping[str, Space]:
        """Local memories by the name of their address macro."""
        return {
            e.name: Space(
                e.name, *(int(e.attributes[k]) for k in ("rows", "bank_rows", "row_columns"))
            )
            for e in self.effects.values()
            if e.unit == "space"
        }

    @cached_property
    def flags(self) -> Mapping[str, str]:
        """Meaning of each address flag by name."""
        return {
            e.name: e.attributes.get("meaning", "")
            for e in self.effects.values()
            if e.unit == "flag"
        }

    def flag(self, meaning: str) -> str | None:
        """Name of the flag with this meaning; None if the target has none."""
        return next((n for n, m in self.flags.items() if m == meaning), None)

    def local(self, operand: Operand) -> Operand:
        """The row and flags of a local address that is written as a number."""
        if not isinstance(operand, Expr):
            return operand
        bits = operand.const & 0xFFFFFFFF
        absent = self.flag("absent")
        if absent is not None and bits == self.constants[absent] and operand.is_const:
            return Text(absent)
        named = [f for f in self.flags if f != absent and bits & self.constants[f]]
        row = bits & ~sum(self.constants[f] for f in named)
        space = max(
            (s for s in self.spaces if self.constants[s] & row == self.constants[s]),
            key=lambda s: self.constants[s],
        )
        row -= self.constants[space]
        small = all(abs(c) < self.spaces[space].rows for _, c in operand.terms)
        if row >= self.spaces[space].rows or not small:
            return operand
        return Local(space, Expr(row, operand.terms), tuple(Flag(f) for f in named))

    def element(self, space: str) -> str | None:
        """C type of a local memory's elements, if the target declares it."""
        return self.effects[space].attributes.get("element")

    def is_command(self, name: str) -> bool:
        """Whether a called function is an accelerator command."""
        effect = self.effects.get(name)
        return effect is not None and effect.unit not in ("space", "flag")

    def unit(self, name: str) -> str:
        """The queue of a command: load, store, execute, config or sync."""
        return self.effects[name].unit

    def attribute(self, name: str, key: str) -> str | None:
        """An attribute of a command, or None."""
        return self.effects[name].attributes.get(key)

    def operands(self, name: str, role: str) -> list[int]:
        """Positions of the operands with this role."""
        return [i for i, r in enumerate(self.effects[name].operands) if r == role]

    def dram_operands(self, name: str) -> tuple[int, ...]:
        """Positions of the addresses in arrays that a command reads or writes."""
        roles = self.effects[name].operands
        return tuple(i for i, role in enumerate(roles) if role in _DRAM)

    def local_operands(self, name: str) -> tuple[int, ...]:
        """Positions of the local addresses a command reads or writes."""
        return self._local_operands[name]

    def extent(self, name: str, operand: int, axis: str) -> int | None:
        """Position of the `columns` or `rows` operand for the local address at `operand`."""
        return self._extents[name, operand, axis]

    @cached_property
    def _local_operands(self) -> Mapping[str, tuple[int, ...]]:
        local = ("local_read", "local_write")
        return {
            name: tuple(i for i, role in enumerate(effect.operands) if role in local)
            for name, effect in self.effects.items()
        }

    @cached_property
    def _extents(self) -> Mapping[tuple[str, int, str], int | None]:
        found: dict[tuple[str, int, str], int | None] = {}
        for name, operands in self._local_operands.items():
            roles = self.effects[name].operands
            for ordinal, operand in enumerate(operands):
                for axis in ("columns", "rows"):
                    wanted = (w for w in (f"{axis}:{ordinal}", axis) if w in roles)
                    role = next(wanted, None)
                    found[name, operand, axis] = roles.index(role) if role else None
        return found


class _Same:
    """A brief that is compared by identity."""

    def __init__(self, brief: TargetBrief) -> None:
        self.brief = brief

    def __hash__(self) -> int:
        return id(self.brief)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.brief is other.brief


@lru_cache(maxsize=8)
def _described(by: _Same) -> Machine:
    brief = by.brief
    packed = [e for e in brief.commands if e.unit in ("word", "form")]
    macros = [e.attributes["definition"] for e in brief.commands if e.unit == "macro"]
    macros += limits("", ("stdint.h",))
    effects = {e.name: e for e in brief.commands if e.unit != "macro" and e not in packed}
    return Machine(effects, dict(brief.constants), tuple(macros), tuple(packed))

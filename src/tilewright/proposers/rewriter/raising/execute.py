"""Runs a kernel's C without an accelerator, for the commands it issues."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.core.errors import InputError
from tilewright.proposers.c.preprocess import expanded
from tilewright.proposers.c.syntax import parse
from tilewright.proposers.nesting import DEEPEST, nested_beyond
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.translate import Translator
from tilewright.proposers.rewriter.raising.translation.parts import (
    ENTRY,
    OWN,
    SPACING,
    Own,
    Untranslated,
)
from tilewright.proposers.rewriter.raising.translation.runtime import RUNTIME

MOST_STEPS = 4_000_000
"""Iterations and calls of one run."""
MOST_COMMANDS = 1_500_000
MOST_BYTES = 4 << 20
"""That the core clears or copies at once."""
Event: TypeAlias = tuple[int, ...]
"""Number of the command, its line, and its operands."""


class NotRaised(InputError):
    """A kernel whose computation is not found; the message says why, `line` where."""

    def __init__(self, what: str, line: int = 0) -> None:
        self.line, self.what = line, what
        super().__init__(f"line {line}: {what}." if line else f"{what}.")


@dataclass(frozen=True, slots=True)
class Run:
    """The commands of one run: their names by number, and the events.

    `own` are the arrays of the kernel's own that its commands load or store, by the number that
    their addresses have instead of an argument's.
    """

    commands: tuple[str, ...]
    events: list[Event]
    own: Mapping[int, Own]


class _Memory:
    """What the core holds: values by address; new objects get addresses of their own.

    `touched` are the arrays of the kernel's own that the core reads or writes.
    """

    def __init__(self, own: Sequence[Own]) -> None:
        self.cells: dict[int, float] = {}
        self.touched: set[int] = set()
        self._own = own
        self._free = 1 << 60

    def allocate(self, size: int) -> int:
        at = self._free
        self._free += max(16, -(-size // 16) * 16)
        return at

    def load(self, address: int) -> float:
        try:
            return self.cells[address]
        except KeyError:
            self._touch(address)
            own = (address - OWN) // SPACING
            if 0 <= own < len(self._own) and self._own[own].static:
                return 0
            raise NotRaised(
                "the core reads an element of an array, or memory that was never written"
            ) from None

    def _touch(self, address: int) -> None:
        if address >= OWN:
            self.touched.add(address // SPACING)

    def store(self, address: int, value: float) -> float:
        if address < 1 << 60:
            raise NotRaised("the core writes an element of an array")
        self._touch(address)
        self.cells[address] = value
        return value

    def clear(self, address: int, size: int) -> None:
        _require_few(size)
        self._touch(address)
        for at in range(address, address + size):
            self.cells[at] = 0

    def copy(self, source: int, target: int, size: int) -> int:
        _require_few(size)
        self._touch(source)
        self._touch(target)
        for offset in range(size):
            if source + offset in self.cells:
                self.cells[target + offset] = self.cells[source + offset]
        return target


def _require_few(size: int) -> None:
    if size > MOST_BYTES:
        raise NotRaised(f"the core clears or copies more than {MOST_BYTES >> 20} MiB")


def executed(source: str, machine: Machine) -> Run:
    """The commands a kernel issues; `NotRaised` where they depend on data or the C is not known."""
    root = parse(expanded(source, machine.known, (*machine.macros, *machine.unpacked)))
    if root.has_error or nested_beyond(root, DEEPEST) is not None:
        raise NotRaised("the file does not parse as C")
    translator = Translator(machine)
    try:
        translator.file(root)
    except Untranslated as error:
        raise NotRaised(error.what, error.line) from error
    entry = translator.functions.get(ENTRY)
    if entry is None:
        raise NotRaised(f"the file defines no function {ENTRY!r}")
    memory, events = _Memory(translator.own), list[Event]()
    names: Mapping[str, object] = {
        **RUNTIME,
        "__builtins__": {},
        "steps": itertools.chain(itertools.repeat(None, MOST_STEPS)),
        "issue": events.append,
        "allocate": memory.allocate,
        "load": memory.load,
        "store": memory.store,
        "clear": memory.clear,
        "copy": memory.copy,
    }
    arguments = ", ".join(str((n + 1) * SPACING) for n in range(len(entry.parameters)))
    text = "\n".join([*translator.lines, f"f_{ENTRY}({arguments})"])
    try:
        exec(compile(text, "kernel", "exec"), dict(names))  # our own text
    except NotRaised as error:
        raise NotRaised(error.what, _line_of(error, translator)) from error
    except StopIteration as error:
        raise NotRaised(f"it runs for more than {MOST_STEPS:,} iterations") from error
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as error:
        line = _line_of(error, translator)
        raise NotRaised(f"its execution fails ({error})", line) from error
    if len(events) > MOST_COMMANDS:
        raise NotRaised(f"it issues more than {MOST_COMMANDS:,} commands")
    found = Run(tuple(translator.commands), events, _moved(events, translator))
    for number, line in _uses(events, translator):
        if number in memory.touched:
            raise NotRaised(f"the core also uses the array {found.own[number].name}", line)
    return found


def _moved(events: Sequence[Event], translator: Translator) -> Mapping[int, Own]:
    """The arrays of the kernel's own that commands load or store."""
    used = sorted({number for number, _ in _uses(events, translator)})
    return {number: translator.own[number - OWN // SPACING] for number in used}


def _uses(events: Sequence[Event], translator: Translator) -> Iterator[tuple[int, int]]:
    """The number of each array of the kernel's own that a command names, and the line."""
    if not translator.own:
        return
    last = OWN // SPACING + len(translator.own)
    places = [translator.machine.dram_operands(name) for name in translator.commands]
    for event in events:
        for at in places[event[0]]:
            if OWN <= event[2 + at] < last * SPACING:
                yield event[2 + at] // SPACING, event[1]


def _line_of(error: BaseException, translator: Translator) -> int:
    """The C line that was executed."""
    found, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "kernel" and trace.tb_lineno <= len(
            translator.origins
        ):
            found = translator.origins[trace.tb_lineno - 1]
        trace = trace.tb_next
    return found

"""Runs a kernel's C without an accelerator and records the commands that it issues."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from tilewright.core.errors import InputError
from tilewright.proposers.c.preprocess import expanded
from tilewright.proposers.c.syntax import parse
from tilewright.proposers.c.unroll_hints import as_attributes
from tilewright.proposers.nesting_limit import DEEPEST, nested_beyond
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.data import (
    NOTHING,
    WITH_DATA,
    Data,
    Element,
    Greatest,
    Undecided,
    Unknown,
    chosen,
)
from tilewright.proposers.rewriter.raising.translate import Translator
from tilewright.proposers.rewriter.raising.translation.parts import (
    ENTRY,
    FUNCTIONS,
    OWN,
    SPACING,
    Own,
    Untranslated,
)
from tilewright.proposers.rewriter.raising.translation.runtime import RUNTIME

MOST_STEPS = 4_000_000
"""Maximum number of iterations and calls of one run."""
MOST_COMMANDS = 1_500_000
MOST_BYTES = 4 << 20
"""Maximum number of bytes that the core may clear or copy at once."""
MOST_CLEARED = 1 << 17
"""Maximum number of bytes for which zeros that the core stores at once are events."""
PRIVATE = 1 << 60
"""First address of memory that only the core uses, followed by the kernel's own arrays."""
Event: TypeAlias = tuple[Any, ...]
"""Number of the command, its line, and its operands; of the core's stores as in `CORE`."""
CORE = -1
"""The number of an event in which the core stores `Data`, or the `Greatest` of some elements. Its
operands are the address, the number of bytes and the value.
"""


class NotRaised(InputError):
    """The computation of a kernel cannot be derived, for the reason in the message, at the line
    `line`.

    `data` is true if the reason is that the core uses elements of arrays.
    """

    def __init__(self, what: str, line: int = 0, *, data: bool = False) -> None:
        self.line, self.what, self.data = line, what, data
        super().__init__(f"line {line}: {what}." if line else f"{what}.")


@dataclass(frozen=True, slots=True)
class Run:
    """The commands of one run: their names by number, and the events.

    `own` are the kernel's own arrays that its commands load or store, by the numbers in their
    addresses. `settings` are earlier events, which set what is in force at the beginning.
    """

    commands: tuple[str, ...]
    events: list[Event]
    own: Mapping[int, Own]
    settings: tuple[Event, ...] = ()


class _Memory:
    """The memory of the core: values by address. New objects get new addresses.

    `touched` are the kernel's own arrays that the core reads or writes, except for constants.
    `changes` is the number of stores.
    """

    def __init__(self, own: Sequence[Own], events: list[Event], *, data: bool) -> None:
        self.cells: dict[int, Any] = {}
        self.sizes: dict[int, int] = {}
        self.touched: set[int] = set()
        self.changes = 0
        self._events = events
        self._data = data
        self._own = own
        self._free = PRIVATE

    def allocate(self, size: int) -> int:
        at = self._free
        self._free += max(16, -(-size // 16) * 16)
        return at

    def load(self, address: int) -> Any:
        try:
            return self.cells[address]
        except KeyError:
            self._touch(address)
            own = (address - OWN) // SPACING
            if 0 <= own < len(self._own) and self._own[own].static:
                return 0
            raise NotRaised(
                "the core reads an array element, or memory that was never written",
                data=True,
            ) from None

    def element(self, address: int, size: int) -> Any:
        """The value that the core reads: the last value that it wrote to this address, or otherwise
        an element of an array.
        """
        if PRIVATE <= address < OWN:
            return self.load(address)
        if address not in self.cells:
            return Data((Element(address, size, len(self._events)),))
        if self.sizes.get(address, size) != size:
            raise NotRaised("the core reads only a part of a value that it wrote")
        return self.cells[address]

    def write(self, address: int, value: Any, size: int, line: int) -> Any:
        """Store a value of the core, on a line of the source. If commands could read the value, the
        store of data is an event.
        """
        if PRIVATE <= address < OWN:
            return self.store(address, value)
        if not isinstance(value, Data | Greatest):
            if value != 0 or address < OWN:
                return self.store(address, value)
            self._zero(address, size, line)
            return value
        if self._element_size(address, size) != size:
            raise NotRaised("the core copies elements and changes their type")
        self._events.append((CORE, line, address, size, value))
        self.changes += 1
        self.cells[address], self.sizes[address] = value, size
        return value

    def _zero(self, address: int, size: int, line: int) -> None:
        """Store zero in elements of an array of the kernel's own, each of which is an event."""
        one = self._element_size(address, size)
        for at in range(address, address + size, one):
            self._events.append((CORE, line, at, one, NOTHING))
            self.cells[at], self.sizes[at] = 0, one

    def _element_size(self, address: int, size: int) -> int:
        """Bytes of an element in memory that the core stores to; `NotRaised` if it stores only a
        part of an element of one of the kernel's own arrays.
        """
        number = (address - OWN) // SPACING
        one = self._own[number].of.bytes if 0 <= number < len(self._own) else size
        if address % one or size % one:
            raise NotRaised("the core stores only a part of an array element")
        return one

    def _touch(self, address: int) -> None:
        if address >= OWN and not self._own[(address - OWN) // SPACING].constant:
            self.touched.add(address // SPACING)

    def store(self, address: int, value: float) -> float:
        _require_no_argument(address)
        self._touch(address)
        self.changes += 1
        self.cells[address] = value
        return value

    def clear(self, address: int, size: int) -> None:
        _require_no_argument(address)
        _require_few(size)
        self.changes += 1
        if self._data and address >= OWN and size <= MOST_CLEARED:
            self._zero(address, size, 0)
            return
        self._touch(address)
        for at in range(address, address + size):
            self.cells[at] = 0

    def fill(self, address: int, value: int, size: int) -> int:
        if value != 0:
            raise NotRaised("memset stores a value other than zero")
        self.clear(address, size)
        return address

    def copy(self, source: int, target: int, size: int) -> int:
        _require_no_argument(target)
        _require_few(size)
        self.changes += 1
        self._touch(source)
        self._touch(target)
        for offset in range(size):
            self.cells.pop(target + offset, None)
            if source + offset in self.cells:
                self.cells[target + offset] = self.cells[source + offset]
        return target

    def chosen(self, test: object, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        """The value of `test ? yes : no`. If the test depends on elements, both values are
        computed, which must have no other effect."""
        before = self.changes, len(self._events)
        found = chosen(test, yes, no)
        if isinstance(test, Unknown) and (self.changes, len(self._events)) != before:
            raise NotRaised("whether the core stores depends on the value of an array element")
        return found


class _Functions(dict[int, Any]):
    """The file's functions by their addresses."""

    def __missing__(self, address: int) -> Any:
        raise NotRaised("there is no function at the address that is called")


def _require_no_argument(address: int) -> None:
    """Raise `NotRaised` if the core writes to an argument of the kernel, which is not followed."""
    if address < PRIVATE:
        raise NotRaised("the core writes an array element", data=True)


def _require_few(size: int) -> None:
    if size > MOST_BYTES:
        raise NotRaised(f"the core clears or copies more than {MOST_BYTES >> 20} MiB")


@lru_cache(maxsize=1)
def executed(source: str, machine: Machine, *, data: bool = False) -> Run:
    """The commands that a kernel issues; `NotRaised` if they depend on data, or if the C is not
    supported. With `data`, the core may compute on elements of arrays, and its stores are events
    too.

    The last run is cached, because reading a kernel and raising it both need it.
    """
    plain = expanded(source, machine.known, (*machine.macros, *machine.unpacked))
    root = parse(as_attributes(plain))
    if root.has_error or nested_beyond(root, DEEPEST) is not None:
        raise NotRaised("the file does not parse as C")
    translator = Translator(machine, data=data)
    try:
        translator.file(root)
    except Untranslated as error:
        raise NotRaised(error.what, error.line) from error
    entry = translator.functions.get(ENTRY)
    if entry is None:
        raise NotRaised(f"the file defines no function {ENTRY!r}")
    events = list[Event]()
    memory = _Memory(translator.own, events, data=data)
    names: Mapping[str, object] = {
        **RUNTIME,
        **(WITH_DATA if data else {}),
        "__builtins__": {},
        "steps": itertools.chain(itertools.repeat(None, MOST_STEPS)),
        "functions": _Functions(),
        "begin": events.clear,
        "issue": events.append,
        "allocate": memory.allocate,
        "load": memory.load,
        "store": memory.store,
        "clear": memory.clear,
        "fill": memory.fill,
        "copy": memory.copy,
        "element": memory.element,
        "write": memory.write,
        "chosen": memory.chosen,
    }
    arguments = ", ".join(str((n + 1) * SPACING) for n in range(len(entry.parameters)))
    # Initial values of static arrays are not stored again in later calls.
    known = ", ".join(f"{FUNCTIONS + n}: f_{f}" for n, f in enumerate(translator.functions))
    text = "\n".join(
        [*translator.lines, f"functions.update({{{known}}})", "begin()", f"f_{ENTRY}({arguments})"]
    )
    try:
        exec(compile(text, "kernel", "exec"), dict(names))  # our own text
    except NotRaised as error:
        raise NotRaised(error.what, _line_of(error, translator), data=error.data) from error
    except Undecided as error:
        raise NotRaised(str(error), _line_of(error, translator)) from error
    except StopIteration as error:
        raise NotRaised(f"the kernel runs for more than {MOST_STEPS:,} iterations") from error
    except (ArithmeticError, ValueError, TypeError, RecursionError, MemoryError) as error:
        line = _line_of(error, translator)
        raise NotRaised(f"executing the kernel step by step failed ({error})", line) from error
    if len(events) > MOST_COMMANDS:
        raise NotRaised(f"the kernel issues more than {MOST_COMMANDS:,} commands")
    found = Run(tuple(translator.commands), events, _moved(events, translator))
    for number, line in _uses(events, translator):
        if number in memory.touched:
            what = f"not only commands but also the core uses the array {found.own[number].name}"
            raise NotRaised(what, line, data=True)
    return found


def _moved(events: Sequence[Event], translator: Translator) -> Mapping[int, Own]:
    """The kernel's own arrays that commands load or store."""
    used = sorted({number for number, _ in _uses(events, translator)})
    return {number: translator.own[number - OWN // SPACING] for number in used}


def _uses(events: Sequence[Event], translator: Translator) -> Iterator[tuple[int, int]]:
    """The number of each of the kernel's own arrays that a command names, and the line."""
    if not translator.own:
        return
    last = OWN // SPACING + len(translator.own)
    places = [translator.machine.dram_operands(name) for name in translator.commands]
    for event in events:
        for at in places[event[0]] if event[0] != CORE else ():
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

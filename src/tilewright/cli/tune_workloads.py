"""Parses the workload that `tilewright tune` is to tune, before TVM is imported."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.core.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from tilewright.tuner.tvm.programs import Program

_SIZES = {
    "matmul": (("M", "N", "K"), 3),
    "conv2d": (("N", "C", "H", "W", "FILTERS", "KERNEL", "STRIDE", "PADDING"), 6),
}
_EXAMPLES = {"matmul": "matmul 512 64 1024", "conv2d": "conv2d 1 64 56 56 64 3 1 1"}


@dataclass(frozen=True)
class WorkloadRequest:
    """A workload as a kind with sizes, as an identifier of the benchmark set, or as a function in a
    file.
    """

    kind: str | None = None
    sizes: tuple[int, ...] = ()
    identifier: str | None = None
    file: Path | None = None
    function: str = ""

    def program(self) -> Program:
        """The program to tune; raises `InputError`, and any exception of the user's function."""
        from tilewright.tuner.tvm import programs

        if self.identifier is not None:
            return programs.benchmark_program(self.identifier)
        if self.file is not None:
            return programs.program_from_file(self.file, self.function)
        if self.kind == "matmul":
            m, n, k = self.sizes
            return programs.matmul(m, n, k)
        batch, channels, height, width, filters, kernel, *rest = self.sizes
        stride, padding = (*rest, *(1, kernel // 2)[len(rest) :])
        return programs.conv2d(batch, channels, height, width, filters, kernel, stride, padding)


def parse_workload(words: Sequence[str]) -> WorkloadRequest:
    """Parse the words of the command line; `InputError` says what was expected."""
    name, *sizes = words
    if name in _SIZES:
        return WorkloadRequest(kind=name, sizes=_parse_sizes(name, sizes))
    if ".py" in name:
        file, colon, function = name.rpartition(":")
        if not colon or not file.endswith(".py"):
            raise InputError(
                f"{name} names no function. Write FILE.py:FUNCTION, for example "
                "workload.py:make_primfunc."
            )
        _no_sizes(name, sizes)
        return WorkloadRequest(file=Path(file), function=function)
    identifier = _identifier(name)
    _no_sizes(name, sizes)
    return WorkloadRequest(identifier=identifier)


def parse_identifiers(text: str) -> list[str]:
    """Identifiers and ranges of the benchmark set, as in "M0..M5,R11"; `InputError` otherwise."""
    from tilewright.tuner.benchmark_set import IDENTIFIERS

    found: list[str] = []
    for part in text.split(","):
        first, dots, last = part.strip().partition("..")
        begin = IDENTIFIERS.index(_identifier(first))
        end = IDENTIFIERS.index(_identifier(last)) if dots else begin
        if end < begin or IDENTIFIERS[begin][0] != IDENTIFIERS[end][0]:
            raise InputError(
                f"{part.strip()!r} is not a range of workloads. Write a range such as M0..M5."
            )
        found += [name for name in IDENTIFIERS[begin : end + 1] if name not in found]
    return found


def _identifier(text: str) -> str:
    """An identifier of the benchmark set."""
    from tilewright.tuner.benchmark_set import IDENTIFIERS

    if text.upper() in IDENTIFIERS:
        return text.upper()
    if re.fullmatch("[A-Z][0-9]+", text.upper()):
        similar = [name for name in IDENTIFIERS if name[0] == text[0].upper()]
        raise UnknownNameError("workload", text, similar or IDENTIFIERS)
    examples = [f"`tilewright tune {example}`" for example in _EXAMPLES.values()]
    hint = f"Write for example {' or '.join(examples)}. You can also give FILE.py:FUNCTION, or an "
    hint += f"identifier of the benchmark set: {', '.join(IDENTIFIERS)}."
    raise UnknownNameError("workload", text, _SIZES, hint)


def _parse_sizes(kind: str, words: Sequence[str]) -> tuple[int, ...]:
    names, needed = _SIZES[kind]
    if not needed <= len(words) <= len(names):
        required = " ".join(names[:needed])
        optional = "".join(f" [{name}]" for name in names[needed:])
        raise InputError(
            f"{kind} needs {required}{optional}, but the number of given sizes is {len(words)}. "
            f"Write, for example, `tilewright tune {_EXAMPLES[kind]}`."
        )
    sizes = []
    for name, word in zip(names, words, strict=False):
        least = 0 if name == "PADDING" else 1
        value = int(word) if re.fullmatch(r"-?[0-9]{1,18}", word) else None
        if value is None or value < least:
            expected = "a whole number of 0 or more" if least == 0 else "a positive whole number"
            raise InputError(f"the size {name} of {kind} is {word[:40]!r}. Give {expected}.")
        if value > 1 << 20:
            raise InputError(f"the size {name} of {kind} is {word}. Give at most a million.")
        sizes.append(value)
    return tuple(sizes)


def _no_sizes(name: str, sizes: Sequence[str]) -> None:
    if sizes:
        raise InputError(f"the workload {name} has fixed sizes. Leave out {' '.join(sizes)}.")

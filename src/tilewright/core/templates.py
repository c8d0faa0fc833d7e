"""Templates: kernels with parameters, which are read from text and filled in with values.

A template is a kernel in which some lines declare parameters with their possible values, and
constraints between parameters. C and CUDA: `TUNE(TM, 16, 32, 64)` and `TUNE_REQUIRE(TM * TN <=
1024)`; Python: `TM = tune(16, 32, 64)` and `tune_require(TM * TN <= 1024)`. Each declaration has
its own line. An instance replaces this line by a definition (`#define TM 32`, `TM = 32`) or by a
comment, so line numbers do not change. Values are whole numbers; constraints have whole-number
arithmetic (`/` rounds down), comparisons, `&&`, `||`, `!`, `min` and `max`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Protocol

from tilewright.core.constraints import (
    FUNCTIONS,
    LARGEST,
    names_and_length,
    shown,
    together,
)
from tilewright.core.errors import InputError

MOST_POINTS = 1_000_000
"""Maximum number of combinations of values of a template, all of which are tested."""
MOST_STEPS = 30_000_000
"""Maximum of the total length of the constraints multiplied by the number of combinations, which
takes a few seconds to test.
"""
_NAME = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")

PLANNED = "tune."
"""The prefix of parameter values in the fields of a plan, as in `tune.TM`."""

_C_COMMENT = re.compile(r"//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/|\Z)")
"""A comment of C; one without an end extends to the end of the text."""
_HASH_COMMENT = re.compile(r"#[^\n]*+")
_PRAGMA = re.compile(r"\s*#\s*pragma\b")

Point = tuple[int, ...]
"""One value for each parameter, in the order of the template's text."""


@dataclass(frozen=True, slots=True)
class TemplateNotation:
    """How templates of a language declare parameters, and what replaces these declarations.

    `word` begins the declaration of a parameter, and `require` that of a constraint. `assigns` is
    true if the parameter's name stands before the word (`TM = tune(16, 32)`). `define` and
    `comment` are the lines that replace a declaration in an instance.
    """

    word: str
    require: str
    define: str
    comment: str
    assigns: bool = False

    @property
    def parameter(self) -> str:
        """The declaration of a parameter, as messages and prompts show it."""
        return f"TM = {self.word}(16, 32, 64)" if self.assigns else f"{self.word}(TM, 16, 32, 64)"

    @property
    def constraint(self) -> str:
        """The declaration of a constraint, as prompts show it."""
        return f"{self.require}(TM * TN <= 1024)"


MACROS = TemplateNotation("TUNE", "TUNE_REQUIRE", "#define {name} {value}", "// requires {text}")
CALLS = TemplateNotation("tune", "tune_require", "{name} = {value}", "# requires {text}", True)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a template and its possible values, in the author's order."""

    name: str
    values: tuple[int, ...]


class ParameterSpace(Hashable, Protocol):
    """The points from which a search chooses: those of a template, or of the numbers in a kernel's
    steps.
    """

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters, which are the axes of the points."""
        ...

    def points(self) -> tuple[Point, ...]:
        """All points that were evaluated or can be evaluated."""
        ...

    def estimates(self) -> tuple[float, ...] | None:
        """A static estimate of the latency at each point, in any unit; None for points without an
        estimate.
        """
        ...

    def counts(self) -> tuple[tuple[float, ...], ...] | None:
        """For each point, the numbers that explain errors of its estimate, such as the share of the
        time for which each unit is busy; None if the values of the parameters explain them.
        """
        ...


@dataclass(frozen=True, slots=True)
class KernelTemplate:
    """A template's text, its parameters, and the constraints between them."""

    text: str
    notation: TemplateNotation
    parameters: tuple[Parameter, ...]
    constraints: tuple[str, ...] = ()

    def instance(self, assignment: Mapping[str, int]) -> str:
        """The kernel with these values. Each parameter must have one of its possible values."""
        for parameter in self.parameters:
            if assignment.get(parameter.name) not in parameter.values:
                raise InputError(
                    f"parameter {parameter.name} is {assignment.get(parameter.name)!r}. Give one "
                    f"of {', '.join(map(str, parameter.values))}."
                )
        lines = []
        for line in self.text.split("\n"):
            found, indent = _line(line, self.notation), line[: len(line) - len(line.lstrip())]
            if found is None:
                lines.append(self._in_pragma(line, assignment))
            elif found[0]:
                value = assignment[found[0]]
                lines.append(indent + self.notation.define.format(name=found[0], value=value))
            else:
                lines.append(indent + self.notation.comment.format(text=found[1]))
        return "\n".join(lines)

    def _in_pragma(self, line: str, assignment: Mapping[str, int]) -> str:
        """The line, in which the parameters of a pragma are replaced by values, because C compilers
        do not expand macros in pragmas.
        """
        if self.notation.assigns or not _PRAGMA.match(line):
            return line
        return re.sub(r"\w+", lambda word: str(assignment.get(word[0], word[0])), line)

    def planned(self, assignment: Mapping[str, int]) -> dict[str, str | int]:
        """The values in the form in which the parameters of a plan contain them."""
        return {f"{PLANNED}{name}": value for name, value in assignment.items()}

    def point_in(self, parameters: Mapping[str, str | int]) -> Point:
        """The point with the values that these parameters of a plan contain."""
        return tuple(int(parameters[f"{PLANNED}{p.name}"]) for p in self.parameters)

    def assignment(self, point: Point) -> dict[str, int]:
        """The values of a point, by the names of the parameters."""
        return {p.name: value for p, value in zip(self.parameters, point, strict=True)}

    def points(self) -> tuple[Point, ...]:
        """All combinations that satisfy the constraints, the author's first values first."""
        return _points(self.parameters, self.constraints)

    def estimates(self) -> None:
        """Always None, because the text of a template gives no estimates."""

    def counts(self) -> None:
        """Always None, because the text of a template gives no counts."""

    @property
    def unused(self) -> tuple[str, ...]:
        """The parameters whose names are in no line of the kernel outside comments and
        declarations. All of their values give the same kernel.
        """
        lines = (line for line in self.text.split("\n") if _line(line, self.notation) is None)
        comment = _HASH_COMMENT if self.notation.assigns else _C_COMMENT
        words = set(re.findall(r"\w+", comment.sub(" ", "\n".join(lines))))
        return tuple(p.name for p in self.parameters if p.name not in words)

    @property
    def first(self) -> dict[str, int]:
        """The first combination that satisfies the constraints: the template's starting kernel."""
        return self.assignment(self.points()[0])


@dataclass(frozen=True, slots=True)
class TriedPoint:
    """An evaluated instance: its latency, or a bound that it exceeds, or neither if it is wrong."""

    point: Point
    latency: float | None = None
    bound: float | None = None


def parse_template(text: str, notation: TemplateNotation | None) -> KernelTemplate | None:
    """The template in a kernel's text, or None if the text declares no parameters.

    `InputError` for one that cannot be filled in: without values, with an unknown name in a
    constraint, with too many combinations or with none that satisfies the constraints.
    """
    if notation is None or notation.word not in text:
        return None
    values: dict[str, tuple[int, ...]] = {}
    constraints: list[str] = []
    stray = re.compile(rf"\b(?:{notation.word}|{notation.require})\s*\(")
    for number, line in enumerate(text.split("\n"), 1):
        found = _line(line, notation)
        code = line.split(notation.comment.split()[0])[0]
        if found is None:
            if stray.search(code) and not code.lstrip().startswith("#define"):
                if code.count("(") > code.count(")"):
                    raise InputError(
                        f"line {number} of the template, {shown(line)}, has no closing bracket. "
                        "Add the missing ) on the same line."
                    )
                raise InputError(
                    f"line {number} of the template, {shown(line)}, contains other code than the "
                    "declaration of a parameter or constraint. Write each declaration, such as "
                    f"{notation.parameter}, on a line of its own."
                )
        elif found[0] is None:
            constraints.append(found[1])
        elif found[0] in values:
            raise InputError(
                f"line {number} of the template declares the parameter {found[0]} a second time. "
                "List all of its values in one declaration."
            )
        else:
            values[found[0]] = _values(number, found[0], found[1], notation)
    if not values and not constraints:
        return None
    parameters = tuple(Parameter(name, found) for name, found in values.items())
    template = KernelTemplate(text, notation, parameters, tuple(constraints))
    _require_points(template)
    return template


def without_template(parameters: Mapping[str, str | int]) -> dict[str, str | int]:
    """A plan's parameters without those that contain a template or its values."""
    return {
        name: value
        for name, value in parameters.items()
        if name != "template" and not name.startswith(PLANNED)
    }


def planned_values(parameters: Mapping[str, str | int]) -> dict[str, int]:
    """The values of a template's parameters in the plan of an instance, by name."""
    return {
        name.removeprefix(PLANNED): int(value)
        for name, value in parameters.items()
        if name.startswith(PLANNED)
    }


def concrete(text: str, notation: TemplateNotation | None) -> str:
    """The text of a kernel, or of a template's first instance. Raises like `parse_template`."""
    template = parse_template(text, notation)
    return text if template is None else template.instance(template.first)


def _line(line: str, notation: TemplateNotation) -> tuple[str | None, str] | None:
    """The declaration in a line of a template: a name and its values, or None and a constraint."""
    return _matched(line, notation) if notation.word in line else None


def _matched(line: str, notation: TemplateNotation) -> tuple[str | None, str] | None:
    # Possessive, so that a line of spaces after a bracket is matched in linear time.
    end = rf"\)\s*+;?+\s*+(?:{re.escape(notation.comment.split()[0])}.*)?$"
    named = r"(\w+)\s*=\s*" + notation.word + r"\s*\((.*?)"
    if not notation.assigns:
        named = notation.word + r"\s*\(\s*(\w+)\s*(?:,(.*?))?"
    found = re.match(r"\s*" + named + end, line)
    if found and not found[1].isdigit():
        return found[1], found[2] or ""
    found = re.match(r"\s*" + notation.require + r"\s*\((.*)" + end, line)
    return (None, found[1].strip()) if found else None


def _values(number: int, name: str, text: str, notation: TemplateNotation) -> tuple[int, ...]:
    if not _NAME.fullmatch(name) or name in FUNCTIONS:
        raise InputError(
            f"line {number} of the template names a parameter {shown(name)}. Use a name of "
            "letters, digits and underscores that is neither min nor max and does not begin with "
            "a digit or with two underscores."
        )
    if not text.strip():
        raise InputError(
            f"line {number} of the template gives parameter {name} no values. List its values, as "
            f"in {notation.parameter}."
        )
    try:
        found = tuple(int(part, 0) for part in text.split(","))
    except ValueError:
        found = (LARGEST + 1,)
    if any(abs(value) > LARGEST for value in found):
        raise InputError(
            f"line {number} of the template gives parameter {name} the values {shown(text)}: "
            f"expected whole numbers of 64 bits, as in {notation.parameter}."
        )
    repeated, times = Counter(found).most_common(1)[0]
    if times > 1:
        raise InputError(
            f"line {number} of the template gives parameter {name} the value {repeated} more than "
            "once. Give each value once."
        )
    return found


def _require_points(template: KernelTemplate) -> None:
    names = {parameter.name: None for parameter in template.parameters}
    steps = 0
    for text in template.constraints:
        used, length = names_and_length(text)
        steps += length
        for name in used:
            if name not in names:
                known = ", ".join([*names][:10]) or "a parameter that the template declares"
                raise InputError(
                    f"constraint {shown(text)} of the template names {name}, which is not a "
                    f"parameter. Use {known}."
                )
    count = math.prod(len(parameter.values) for parameter in template.parameters)
    if count > MOST_POINTS:
        many = f"{count:,}" if count < 1 << 64 else "far too many"
        raise InputError(
            f"the template has {many} combinations of values, and at most {MOST_POINTS:,} are "
            "allowed. Declare fewer values or fewer parameters."
        )
    if count * steps > MOST_STEPS:
        raise InputError(
            f"the template's constraints have {steps:,} names, numbers and operators, to be "
            f"computed for {count:,} combinations of values. Give shorter constraints or fewer "
            "values."
        )
    if not template.points():
        some = " and ".join(shown(text) for text in template.constraints[:5])
        raise InputError(
            f"no combination of the template's values satisfies {some}. Declare other values or "
            "weaker constraints."
        )


@lru_cache(maxsize=16)
def _points(parameters: tuple[Parameter, ...], constraints: tuple[str, ...]) -> tuple[Point, ...]:
    everything = product(*(parameter.values for parameter in parameters))
    if not constraints:
        return tuple(everything)
    holds = together(constraints, [parameter.name for parameter in parameters])
    return tuple(point for point in everything if holds(point))

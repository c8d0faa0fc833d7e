"""Compares the parameters that a kernel in C declares with the arrays that it is called with.

A kernel with other parameters compiles, because arrays are passed by address, but its results are
wrong. The text is not needed to find that out, only to name the reason. What the text does not say
clearly (macros, types of the kernel's own, several definitions, definitions under conditions of the
preprocessor) is regarded as right.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from tilewright.core.records import Argument, Failed, KernelLanguage
from tilewright.core.text import counted
from tilewright.parts.element_types import is_float
from tilewright.parts.languages.c import blank, without_comments

_BEGINS = re.compile(r"\bvoid\s+(?:__attribute__\s*\(\(\w+\)\)\s*)?kernel\s*\(")
_MOST_PLACES = 8
"""Maximum number of declarations and definitions of `kernel` that are read."""
_MOST_CHARACTERS = 4096
"""Maximum length of the parameters."""
_EXPLAINED = {
    "wrong_result", "input_modified", "illegal_address", "crash",
    "limit_exceeded", "local_out_of_bounds", "uninitialised_read",
}  # fmt: skip
"""Kinds of failure that a kernel can have because it confuses its arguments."""
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\\\n]|\\[ \t\r]*\n|\\)*", re.MULTILINE)
_CONDITION = re.compile(r"^[ \t]*(?:#|%:)[ \t]*(if|el|endif)")
_PUNCTUATION = re.compile(r"[(),;{}\[\]]")
_BODY = re.compile(r"\s*\{")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_DIMENSIONS = re.compile(r"\[([^\]]*)\]")
_QUALIFIERS = {"const", "restrict", "__restrict", "__restrict__", "volatile", "static", "register"}
_TYPES = {
    "float": "float32", "double": "float64", "_Float16": "float16", "__bf16": "bfloat16",
    "int8_t": "int8", "int16_t": "int16", "int32_t": "int32", "int64_t": "int64",
    "uint8_t": "uint8", "uint16_t": "uint16", "uint32_t": "uint32", "uint64_t": "uint64",
    "int": "int32",
}  # fmt: skip


def named_parameters(
    failed: Failed,
    source: str,
    arguments: Sequence[Argument],
    language: KernelLanguage,
    types: Mapping[str, str] | None = None,
) -> Failed:
    """The failure of a check, or a `compile_error` if other parameters explain it. `types` are the
    target's own types of elements by their names in C.
    """
    if failed.kind not in _EXPLAINED:
        return failed
    found = wrong_parameters(source, arguments, types)
    if found is None:
        return failed
    reason, line = found
    log = f"{language.located(f'{reason}.', line)}\n{failed.log}"
    return replace(failed, kind="compile_error", log=log, line=line)


def wrong_parameters(
    source: str, arguments: Sequence[Argument], types: Mapping[str, str] | None = None
) -> tuple[str, int] | None:
    """How the parameters of the function `kernel` differ from the arguments, and the line of its
    definition; None if no difference can be seen.
    """
    macros = set(_MACRO.findall(source))
    code = without_comments(source)
    text = _DIRECTIVE.sub(blank, code)
    definition = _definition(text)
    if definition is None or "kernel" in macros:
        return None
    parameters, begin, end = definition
    line = text.count("\n", 0, begin) + 1
    if _is_conditional(code.split("\n"), line, text.count("\n", 0, end) + 1):
        return None
    words = {word for one in parameters for word in _WORD.findall(one)}
    if words & macros:
        return None
    expected = ", ".join(map(_shown, arguments))
    if len(parameters) != len(arguments):
        return (
            f"the kernel has {counted(len(parameters), 'parameter')}, but it is called with "
            f"{counted(len(arguments), 'argument')}: {expected}"
        ), line
    names = [argument.name for argument in arguments]
    known = {**_TYPES, **(types or {})}
    for number, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True), 1):
        if _differs(parameter, argument, names, known):
            declared = " ".join(parameter.split())
            return (
                f"parameter {number} of the kernel is `{declared}`, but argument {number} is "
                f"{_shown(argument)}"
            ), line
    return None


def _differs(
    parameter: str, argument: Argument, names: Sequence[str], types: Mapping[str, str]
) -> bool:
    """Whether a parameter has the name of another argument, another type or other rows."""
    base, _, rest = parameter.partition("[")
    words = [word for word in _WORD.findall(base) if word not in _QUALIFIERS]
    if len(words) != 2:  # a type and a name
        return False
    kind, name = words
    if name != argument.name and name in names:
        return True
    if kind in types and not _may_hold(types[kind], argument.dtype):
        return True
    sizes = [size.strip() for size in _DIMENSIONS.findall(f"[{rest}")[1:]] if rest else []
    shape = argument.shape[1:]
    known = bool(sizes) and len(sizes) == len(shape) and all(size.isdigit() for size in sizes)
    return known and tuple(map(int, sizes)) != shape


def _may_hold(declared: str, dtype: str) -> bool:
    """Whether a kernel may mean elements of `dtype` by a type. Some kernels read floating-point
    numbers as integers of the same size.
    """
    one, other = np.dtype(declared), np.dtype(dtype)
    if one.itemsize != other.itemsize:
        return False
    if is_float(declared):
        return declared == dtype
    return is_float(dtype) or one.kind == other.kind


def _definition(text: str) -> tuple[list[str], int, int] | None:
    """The parameters of the only definition of `kernel`, where it begins, and where its parameters
    end; None if there may be several definitions.
    """
    places = list(islice(_BEGINS.finditer(text), _MOST_PLACES + 1))
    if len(places) > _MOST_PLACES:
        return None
    found = [definition for place in places if (definition := _definition_at(text, place))]
    return found[0] if len(found) == 1 else None


def _definition_at(text: str, begins: re.Match[str]) -> tuple[list[str], int, int] | None:
    """As `_definition`; None for a declaration, or if the end of the parameters is not found."""
    depth, parts, last = 1, list[str](), begins.end()
    for found in _PUNCTUATION.finditer(text, last, last + _MOST_CHARACTERS):
        if found[0] in ";{}":
            break
        depth += (found[0] in "([") - (found[0] in ")]")
        if depth == 0 or (found[0] == "," and depth == 1):
            parts.append(text[last : found.start()])
            last = found.end()
        if depth == 0:
            named = [] if parts in ([""], ["void"]) else parts
            return (named, begins.start(), last) if _BODY.match(text, last) else None
    return None


def _is_conditional(lines: Sequence[str], first: int, last: int) -> bool:
    """Whether lines from `first` to `last` are between conditions of the preprocessor, or contain
    some.
    """
    before = [found[1] for line in lines[: first - 1] if (found := _CONDITION.match(line))]
    inside = any(_CONDITION.match(line) for line in lines[first - 1 : last])
    return inside or before.count("if") != before.count("endif")


def _shown(argument: Argument) -> str:
    return f"{argument.name} {argument.dtype}{''.join(f'[{size}]' for size in argument.shape)}"

"""Refuses kernel sources that could reach beyond themselves while they are compiled.

A candidate is untrusted text that the compiler reads on this machine. What is refused here could
pull other files into the artifact or emit instructions that are not in the C text; a sandbox around
the compiler is a second wall, not a replacement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.core.records import Failed

MAX_SOURCE_BYTES = 1 << 20
"""Far over any kernel a person or model writes; keeps a flood of text away from the compiler."""

_DIRECTIVES = {
    "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "include", "pragma",
}  # fmt: skip
_ASSEMBLER = re.compile(r"\b(asm|__asm|__asm__|_Pragma|__has_include\w*|__has_embed)\b")
_RAW_STRING = re.compile(r"\b(?:u8|u|U|L)?R\"")
_DIRECTIVE = re.compile(r"[ \t\f\v]*(?:#|%:)[ \t\f\v]*(\w*)(.*)")
_INCLUDE = re.compile(r"""\s*(?:<([^>]*)>|"([^"]*)")\s*""")
_UNROLL = re.compile(r"\s*(GCC\s+)?unroll\b.*")
_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL
)


def check_source(
    source: str,
    headers: Sequence[str],
    instead_of_assembler: str,
    pragmas: Sequence[str] = (),
) -> Failed | None:
    """A `compile_error` that names the line of the first forbidden construct, or None.

    Only `headers` may be included; beside unrolling, `pragmas` are those allowed, as they are
    written ("omp ..." for any that begin so). `instead_of_assembler` tells the author what to do
    ("use the command macros").
    """
    if len(source.encode()) > MAX_SOURCE_BYTES:
        return _refused(f"the source is longer than {MAX_SOURCE_BYTES >> 10} KiB", None)
    if "\0" in source:
        line = source[: source.index("\0")].count("\n") + 1
        return _refused("the source contains a zero byte", line)
    unix = source.replace("\r\n", "\n")
    if "\r" in unix:  # compilers disagree on whether it ends a line
        line = unix[: unix.index("\r")].count("\n") + 1
        return _refused("the source contains a carriage return without a line feed", line)
    lines = _joined_lines(unix)
    text = "\n".join(line for _, line in lines)
    code = _TOKENS.sub(_without_comments, text).split("\n")
    bare = _TOKENS.sub(_line_ends, text).split("\n")
    for (number, _), code_line, bare_line in zip(lines, code, bare, strict=True):
        reason = _forbidden(code_line, headers, instead_of_assembler, pragmas)
        reason = reason or _ambiguous(bare_line)
        if reason:
            return _refused(reason, number)
    return None


def _joined_lines(source: str) -> list[tuple[int, str]]:
    """Logical lines with the number of the physical line each begins on."""
    joined: list[tuple[int, str]] = []
    start, text = 1, ""
    physical = source.split("\n")
    for number, line in enumerate(physical, 1):
        text += line
        stripped = text.rstrip(" \t\f\v")
        if stripped.endswith("\\"):
            text = stripped[:-1]
            continue
        joined.append((start, text))
        start, text = number + 1, ""
    if start <= len(physical):  # the last line ends in a backslash
        joined.append((start, text))
    return joined


def _without_comments(match: re.Match[str]) -> str:
    """Comments become white space and strings stay: an include's file name is one."""
    token = match.group()
    return " " + _line_ends(match) if token.startswith(("//", "/*")) else token


def _line_ends(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def _ambiguous(line: str) -> str | None:
    """Text that a compiler may read as the beginning of something else than was read here.

    `line` has neither comments nor strings left. Behind an unclosed quote or in a raw string, what
    looks like a comment here may be code to the compiler.
    """
    if re.search(r"['\"\\]", line):
        return "a quote is not closed, or a backslash stands outside a string"
    return None


def _forbidden(
    line: str, headers: Sequence[str], instead_of_assembler: str, pragmas: Sequence[str]
) -> str | None:
    assembler = _ASSEMBLER.search(line)
    if assembler:
        return f"{assembler.group(1)} is not allowed in a kernel: {instead_of_assembler}"
    if _RAW_STRING.search(line):
        return "raw strings are not allowed in a kernel"
    if "##" in line or "%:%:" in line:
        return "pasting tokens with ## is not allowed in a kernel"
    directive = _DIRECTIVE.match(line)
    if directive is None:
        return None
    name, rest = directive.groups()
    if name and name not in _DIRECTIVES:
        return f"the directive #{name} is not allowed in a kernel"
    if name == "include":
        included = _INCLUDE.fullmatch(rest)
        header = (included.group(1) or included.group(2)) if included else rest.strip()
        if header not in headers:
            return f"#include {header} is not allowed: only {' and '.join(headers)} are"
    if name == "pragma" and not _UNROLL.fullmatch(rest) and not _is_allowed(rest, pragmas):
        allowed = ", ".join(f"`#pragma {text}`" for text in ("GCC unroll N", *pragmas))
        return f"#pragma{rest} is not allowed: only {allowed} {'are' if pragmas else 'is'}"
    return None


def _is_allowed(pragma: str, pragmas: Sequence[str]) -> bool:
    text = " ".join(pragma.split())
    beginnings = tuple(p.removesuffix("...") for p in pragmas if p.endswith(" ..."))
    return text in pragmas or text.startswith(beginnings)


def _refused(reason: str, line: int | None) -> Failed:
    where = f"kernel.c:{line}: " if line else ""
    return Failed("build", "compile_error", f"{where}{reason}.", line)

"""Removes error messages, assertions and calls that end the process from a kernel's text.

Many kernels check every call with a macro that prints and exits, or with a statement that throws.
Kernels may not print, so they are compiled without these calls, both for the CPU and for a GPU. A
call that changes something, or whose name the kernel itself defines, is kept, and so are exceptions
that the kernel catches. Line numbers do not change.
"""

from __future__ import annotations

import re

_TEXT = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])*'?", re.DOTALL
)
_HEADERS = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:c?(?:stdio|stdlib|assert|string)(?:\.h)?|iostream|"
    r"stdexcept|exception)[>\"]",
    re.MULTILINE,
)
"""Names in the headers of the removed calls. Kernels need nothing else from these headers."""
_NAMES = "printf|fprintf|puts|fputs|perror|fflush|exit|abort|assert"
_CALL = re.compile(rf"(?<![\w.>:])(?:std\s*::\s*)?({_NAMES})\s*(?=\()")
_OWN = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)|"
    rf"\b(?!return\b|else\b|do\b)[A-Za-z_]\w*[\s*&]+({_NAMES})\s*\(",
    re.MULTILINE,
)
"""Names that a kernel redefines, as a macro or as a function."""
_STREAM = re.compile(r"(?<![\w.>:])(?:std\s*::\s*)?(?:cerr|cout|clog)\s*(?=<<(?!=))")
_THROW = re.compile(r"\bthrow\s+[A-Za-z_][\w:]*\s*(?=[({])")
_CATCH = re.compile(r"\bcatch\b")
_LOCATION_MACRO = re.compile(r"\b__(?:FILE|FUNCTION|PRETTY_FUNCTION)__\b")
_LINE = re.compile(r"\b__LINE__\b")
_DEFINITION = re.compile(r"^[ \t]*#[ \t]*define\b(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_CHANGES = re.compile(r"(?<![=!<>])=(?!=)|<<=|>>=|\+\+|--")
_AS_TEXT = re.compile(r"(?<!#)#(?!#)[ \t]*[A-Za-z_]\w*")
_NOTHING = "((void)0)"


def without_text(source: str) -> str:
    """The source with comments, strings and characters replaced by spaces, so that lines keep their
    positions.
    """
    return _TEXT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)


def without_messages(source: str) -> str:
    """The source without these calls. Applying the function again changes nothing."""
    code = without_text(source)
    found = [(m.start(), m.end(), "") for m in _HEADERS.finditer(source)]
    own = {name for names in _OWN.findall(code) for name in names}
    said = [(m.start(), _closed(code, m.end())) for m in _CALL.finditer(code) if m[1] not in own]
    said += [(m.start(), _statement_end(code, m.end())) for m in _STREAM.finditer(code)]
    if not _CATCH.search(code):
        said += [(m.start(), _statement_end(code, m.end())) for m in _THROW.finditer(code)]
    found += [(*span, _NOTHING) for span in said if not _CHANGES.search(code, *span)]
    found += [(m.start(), m.end(), '""') for m in _LOCATION_MACRO.finditer(code)]
    found += [(m.start(), m.end(), "0") for m in _LINE.finditer(code)]
    for definition in _DEFINITION.finditer(code):
        body = definition.start() + definition.group().index("#") + 1
        texts = _AS_TEXT.finditer(code, body, definition.end())
        found += [(m.start(), m.end(), '""') for m in texts]
    parts, done = list[str](), 0
    for start, end, instead in sorted(found):
        if start < done:
            continue  # inside a call that is removed
        parts += [source[done:start], instead, *re.findall(r"\\?\n", source[start:end])]
        done = end
    return "".join([*parts, source[done:]])


def _closed(code: str, opened: int) -> int:
    """The position after the parenthesis that closes the one at this position."""
    depth, place = 0, opened
    while place < len(code):
        depth += (code[place] == "(") - (code[place] == ")")
        place += 1
        if depth == 0:
            break
    return place


def _ends_a_macro(code: str, line_end: int) -> bool:
    """Whether the line that ends at this position is the last one of a macro's definition."""
    if code[line_end - 1] == "\\":
        return False
    start = line_end
    while (before := code.rfind("\n", 0, start)) > 0 and code[before - 1] == "\\":
        start = before
    return code[before + 1 : line_end].lstrip().startswith("#")


def _statement_end(code: str, place: int) -> int:
    """Where the statement at this position ends: before its semicolon, or at the end of its
    macro."""
    depth = 0
    while place < len(code):
        depth += (code[place] in "({[") - (code[place] in ")}]")
        if depth < 0 or (depth == 0 and code[place] == ";"):
            break
        if code[place] == "\n" and _ends_a_macro(code, place):
            break
        place += 1
    return place

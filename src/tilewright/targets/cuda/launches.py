"""Rewrites what only a CUDA compiler reads, so that a C++ compiler of the CPU does too.

    tile<16><<<grid, block>>>(A, B);   tw::launch("tile", ..., [&] { tile<16>(A, B); });
    extern __shared__ float rows[];    static float *const rows = ...;

Lines keep their numbers. Text in comments and strings stays as it is.
"""

from __future__ import annotations

import re

_SKIPPED = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", re.DOTALL)
_DYNAMIC = re.compile(
    r"\bextern\s+__shared__\s+(?P<type>(?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?[\w:\s]+?)"
    r"\s*\b(?P<name>\w+)\s*\[\s*\]\s*;"
)
_STATIC = re.compile(r"\bstatic[ \t]+__shared__|\b__shared__[ \t]+static\b")
"""Shared memory of a function is static, said or not; the macro for the CPU says so itself."""
_ALIGNMENT = re.compile(r"(?:__align__|alignas)\s*\([^)]*\)\s*")
_TEMPLATE = re.compile(
    r"\btemplate\s*<[^{;]*?\b__global__\b(?:[^{;(]|__launch_bounds__\s*\([^)]*\))*?"
    r"\b(?!__launch_bounds__)(\w+)\s*\("
)
_NAME = re.compile(r"[\w:]+$")
_OPEN, _CLOSE = "([{", ")]}"


class NotReadError(Exception):
    """A launch that this module does not understand; `line` is where it begins."""

    def __init__(self, line: int) -> None:
        super().__init__("a launch <<<...>>> is written in a way that is not understood")
        self.line = line


def for_the_cpu(source: str) -> str:
    """The source with launches and dynamic shared memory in plain C++. Raises `NotReadError`."""
    return _without_launches(_DYNAMIC.sub(_pointer, _STATIC.sub("__shared__", source)))


def _pointer(found: re.Match[str]) -> str:
    kind = _ALIGNMENT.sub("", found["type"]).strip()
    lines = "\n" * found.group().count("\n")
    return f"static {kind} *const {found['name']} = ({kind} *)tw_dynamic_shared();{lines}"


def _without_launches(source: str) -> str:
    blank = _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)
    templates = set(_TEMPLATE.findall(blank))
    parts, done = list[str](), 0
    while (at := blank.find("<<<", done)) >= 0:
        line = source.count("\n", 0, at) + 1
        start = _callee(blank, at, line)
        closing = _matching_chevrons(blank, at, line)
        opened = _after_spaces(blank, closing + 3)
        if opened >= len(blank) or blank[opened] != "(":
            raise NotReadError(line)
        end = _matching(blank, opened, line)
        callee = source[start:at].strip()
        name = re.sub(r"<.*", "", callee, flags=re.DOTALL)
        settings, given = source[at + 3 : closing], source[opened + 1 : end]
        # Of a template whose arguments the call tells, there is no address without the call.
        address = "nullptr" if callee in templates else f"&{callee}"
        parts += [
            source[done:start],
            f'tw::launch("{name}", (const void *){address}, {line}, tw::configured({settings}), ',
            f"[&] {{ {callee}({given}); }})",
        ]
        done = end + 1
    return "".join([*parts, source[done:]])


def _callee(text: str, at: int, line: int) -> int:
    """Where the name before `<<<` begins, its template's arguments included."""
    end = len(text[:at].rstrip())
    if end and text[end - 1] == ">":
        depth = 0
        while end:
            end -= 1
            depth += (text[end] == ">") - (text[end] == "<")
            if depth == 0:
                break
        end = len(text[:end].rstrip())
    name = _NAME.search(text[:end])
    if name is None:
        raise NotReadError(line)
    return name.start()


def _matching_chevrons(text: str, at: int, line: int) -> int:
    """Where the `>>>` of a `<<<` is, outside parentheses."""
    depth, place = 0, at + 3
    while place < len(text):
        if text[place] in _OPEN:
            depth += 1
        elif text[place] in _CLOSE:
            depth -= 1
        elif depth == 0 and text.startswith(">>>", place):
            return place
        place += 1
    raise NotReadError(line)


def _matching(text: str, opened: int, line: int) -> int:
    depth = 0
    for place in range(opened, len(text)):
        depth += (text[place] in _OPEN) - (text[place] in _CLOSE)
        if depth == 0:
            return place
    raise NotReadError(line)


def _after_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at

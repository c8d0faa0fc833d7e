"""Rewrites the syntax that only a CUDA compiler accepts, so that a C++ compiler can compile it.

    tile<16><<<grid, block>>>(A, B);   tw::launch("tile", ..., [&](auto... tw_given) { ... }, A, B);
    extern __shared__ float rows[];    float *const rows = ...;
    cudaLaunchKernel((void *)tile, ...);   cudaLaunchKernel(tile, ...);

Line numbers, comments and strings do not change.
"""

from __future__ import annotations

import math
import re

_SKIPPED = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|\"(?:\\.|[^\"\\\n])*\"?|'(?:\\.|[^'\\\n])'", re.DOTALL
)
_DYNAMIC = re.compile(r"\bextern\s+__shared__(?P<declared>\s[^;\[\]]{1,300})\[\s{0,99}\]\s{0,99};")
"""Repetitions are bounded here and below, so that the time is proportional to the length of the
text."""
_DECLARED = re.compile(r"(.*\W)(\w+)", re.DOTALL)
_STATIC = re.compile(r"\bstatic[ \t]+__shared__|\b__shared__[ \t]+static\b")
"""Shared memory in a function is static, whether declared so or not. The CPU macro adds it."""
_ALIGNED = re.compile(r"\b__shared__(\s{1,99})(alignas\s{0,99}\((?:[^()]|\([^()]{0,99}\)){1,99}\))")
"""C++ allows `alignas` before the macro's words, but not after them."""
_ALIGNMENT = re.compile(r"\s*(?:__align__|alignas)\s{0,99}\([^)]*\)\s*")
_TYPE = re.compile(r"[\w:\s]+")
_TEMPLATE = re.compile(r"\btemplate\s{0,99}<")
_KERNEL = re.compile(r"\b__global__\b")
_BOUNDS = re.compile(r"\b__launch_bounds__\s{0,99}\([^)]{0,300}\)")
_CAST = re.compile(
    r"(?<=\bcudaLaunchKernel\()\s{0,99}(?:\(\s{0,9}(?:const\s{1,9})?void(?:\s{1,9}const)?\s{0,9}\*\s{0,9}\)"
    r"|reinterpret_cast<\s{0,9}(?:const\s{1,9})?void\s{0,9}\*\s{0,9}>(?=\())"
)
_NULL = re.compile(r"(?<![\w.>])NULL(?=\s*(?:,|\Z))")
"""As an argument, which is a pointer only where the compiler sees it as one."""
_OPEN, _CLOSE = "([{", ")]}"


class NotReadError(Exception):
    """A launch that this module does not understand, which begins at `line`."""

    def __init__(self, line: int) -> None:
        super().__init__("a launch <<<...>>> is written in a way that is not understood")
        self.line = line


def for_the_cpu(source: str) -> str:
    """The source with launches and dynamic shared memory in plain C++. Raises `NotReadError`."""
    text = _CAST.sub(_only_lines, _STATIC.sub("__shared__", source))
    return _without_launches(_ALIGNED.sub(r"\2\1__shared__", _DYNAMIC.sub(_pointer, text)))


def _only_lines(found: re.Match[str]) -> str:
    return "\n" * found.group().count("\n")


def _pointer(found: re.Match[str]) -> str:
    declared = found["declared"]
    aligned = _ALIGNMENT.match(declared)
    parts = _DECLARED.fullmatch((declared[aligned.end() :] if aligned else declared).strip())
    if parts is None or not _TYPE.fullmatch(parts[1]):
        return found.group()
    kind = " ".join(parts[1].split())
    lines = "\n" * found.group().count("\n")
    return f"{kind} *const {parts[2]} = ({kind} *)tw_dynamic_shared();{lines}"


def _required(blank: str) -> dict[str, float]:
    """For each kernel by name, how many arguments of a template must be written for it to have an
    address; infinitely many if its name is declared twice. `blank` has no comments and strings.
    """
    found = dict[str, float]()
    for head in re.split("[{;]", blank):
        kernel = _KERNEL.search(head)
        if kernel is None:
            continue
        before, opened, _ = _BOUNDS.sub(" ", head[kernel.end() :]).partition("(")
        name = _name(before, len(before.rstrip()), 0).rpartition(":")[2] if opened else ""
        if name:
            template = _TEMPLATE.search(head, 0, kernel.start())
            parameters = _listed(head[template.end() : kernel.start()]) if template else []
            count = sum("=" not in parameter for parameter in parameters)
            packs = any("..." in parameter for parameter in parameters)
            found[name] = math.inf if packs or name in found else count
    return found


def _listed(text: str) -> list[str]:
    """The parameters or arguments of a template, from a text that begins after its `<`."""
    found, angles, parentheses, begun = list[str](), 0, 0, 0
    for place, sign in enumerate(text):
        parentheses += (sign in _OPEN) - (sign in _CLOSE)
        if parentheses:
            continue
        if angles == 0 and sign in ",>":
            found.append(text[begun:place])
            begun = place + 1
            if sign == ">":
                break
        angles += (sign == "<") - (sign == ">")
    return [part for part in found if part.strip()]


def _name(text: str, end: int, done: int) -> str:
    """The qualified name that ends at this position; empty if there is none."""
    start = end
    while start > done and (text[start - 1] in "_:" or text[start - 1].isalnum()):
        start -= 1
    return text[start:end]


def _without_launches(source: str) -> str:
    blank = _SKIPPED.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)
    required = _required(blank)
    parts, done, line, counted = list[str](), 0, 1, 0
    while (at := blank.find("<<<", done)) >= 0:
        line += source.count("\n", counted, at)
        counted = at
        start = _callee(blank, at, done, line)
        closing = _matching_chevrons(blank, at, line)
        opened = _after_spaces(blank, closing + 3)
        if opened >= len(blank) or blank[opened] != "(":
            raise NotReadError(line)
        end = _matching(blank, opened, line)
        callee = source[start:at].strip()
        name, _, written = blank[start:at].partition("<")
        name = name.strip()
        settings, given = source[at + 3 : closing], source[opened + 1 : end]
        # A template whose arguments are deduced from the call has no address without the call.
        deduces = required.get(name.rpartition(":")[2], 0) > len(_listed(written))
        address = "nullptr" if deduces else f"tw::address_of({callee})"
        values = f", {_NULL.sub('nullptr', given)}" if given.strip() else ""
        parts += [
            source[done:start],
            f'tw::launch("{name}", {address}, {line}, tw::configured({settings}), ',
            f"[&](auto... tw_given) {{ {callee}(tw_given...); }}{values})",
        ]
        done = end + 1
    return "".join([*parts, source[done:]])


def _callee(text: str, at: int, done: int, line: int) -> int:
    """Where the name before `<<<` begins, including the arguments of a template. It is after
    `done`."""
    end = _before_spaces(text, at, done)
    if end > done and text[end - 1] == ">":
        depth = 0
        while end > done:
            end -= 1
            depth += (text[end] == ">") - (text[end] == "<")
            if depth == 0:
                break
        end = _before_spaces(text, end, done)
    name = _name(text, end, done)
    if not name:
        raise NotReadError(line)
    return end - len(name)


def _matching_chevrons(text: str, at: int, line: int) -> int:
    """The position of the `>>>` that belongs to a `<<<`, outside parentheses."""
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


def _before_spaces(text: str, at: int, done: int) -> int:
    while at > done and text[at - 1].isspace():
        at -= 1
    return at


def _after_spaces(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at

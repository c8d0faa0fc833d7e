"""The C file for a set of shapes, with each kernel under its own name and the function that chooses
a kernel.

    int kernel_dispatch(int size_M, int size_N, int size_K,
                        const void *A, const void *B, void *C);

It returns 0 after a kernel has run. If there is no kernel for these sizes, it writes nothing and
returns 1.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.core.records import Argument
from tilewright.parts.languages import C

FUNCTION = "kernel_dispatch"
_COMMENT_OR_TEXT = re.compile(
    r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.DOTALL
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_NAMED = re.compile(r"\b([A-Za-z_]\w*)\s*(?=[(\[=;,{]|__attribute__)")


@dataclass(frozen=True, slots=True)
class Member:
    """A kernel of a set of shapes: its sizes in the order of the set, and its source."""

    sizes: tuple[int, ...]
    source: str

    @property
    def suffix(self) -> str:
        """The suffix of the names of its functions."""
        return "_" + "x".join(map(str, self.sizes))


@dataclass(frozen=True, slots=True)
class Fallback:
    """A kernel for any sizes, except the sizes in `only`, which must have the given values."""

    source: str
    only: Mapping[str, int]


def dispatch_source(
    about: str,
    names: Sequence[str],
    arguments: Sequence[Argument],
    members: Sequence[Member],
    fallback: Fallback | None,
) -> str:
    """The text of the file.

    `names` are the names of the sizes. Without a `fallback`, other sizes are refused.
    """
    pointers = ", ".join(f"{'' if a.is_written else 'const '}void *{a.name}" for a in arguments)
    sizes = ", ".join(f"int size_{name}" for name in names)
    handed = ", ".join(f"(void *){a.name}" for a in arguments)
    parts = [about.rstrip() + "\n"]
    parts += [_under_own_names(m.source, m.suffix) for m in members]
    lines = [f"int {FUNCTION}({sizes}, {pointers}) {{"]
    for member in members:
        wanted = zip(names, member.sizes, strict=True)
        condition = " && ".join(f"size_{name} == {size}" for name, size in wanted)
        lines.append(f"  if ({condition}) {{ kernel{member.suffix}({handed}); return 0; }}")
    if fallback is not None:
        parts.append(_under_own_names(_with_sizes(fallback.source, sizes), "_any"))
        listed = ", ".join(f"size_{name}" for name in names)
        given = (
            f"size_{n} == {fallback.only[n]}" if n in fallback.only else f"size_{n} > 0"
            for n in names
        )
        positive = " && ".join(given)
        lines.append(f"  if ({positive}) {{ kernel_any({listed}, {handed}); return 0; }}")
    lines += ["  return 1;  // no kernel for these sizes: nothing was written", "}"]
    return "\n".join([*parts, *lines, ""])


def called_with(
    source: str, start: str, sizes: Sequence[int], arguments: Sequence[Argument]
) -> str:
    """The file with a function `kernel` that calls the dispatch function for one workload, for its
    evaluation.

    `start` is the workload's starting kernel, which has the same parameters.
    """
    head = _head(start)
    handed = ", ".join([*map(str, sizes), *(a.name for a in arguments)])
    return f"{source}\n{head} {{\n  {FUNCTION}({handed});\n}}\n"


def _head(source: str) -> str:
    found = re.search(r"void\s+kernel\s*\([^{;]*\)", source)
    assert found is not None, "a kernel must define the function `kernel`"
    return found[0]


def _with_sizes(source: str, sizes: str) -> str:
    return re.sub(r"(void\s+kernel\s*\()", rf"\g<1>{sizes}, ", source, count=1)


def _under_own_names(source: str, suffix: str) -> str:
    """The source, surrounded by `#define` and `#undef` directives that add a suffix to the names
    that it defines. Its own macros are also undefined at the end. The text itself does not change,
    so it can be compared with the measured kernel.
    """
    macros = sorted(set(_DEFINED.findall(source)))
    renamed = sorted(_file_scope(source) - set(macros))
    before = [f"#define {name} {name}{suffix}" for name in renamed]
    after = [f"#undef {name}" for name in (*renamed, *macros)]
    return "\n".join([*before, source.strip("\n"), *after, ""])


def _file_scope(source: str) -> set[str]:
    """Names that a C file defines outside functions: functions, variables, types, enumerators."""
    text = _DIRECTIVE.sub("", _COMMENT_OR_TEXT.sub(" ", source))
    enumerators = {
        name
        for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", text)
        for name in re.findall(r"([A-Za-z_]\w*)\s*(?:=[^,]*)?(?:,|$)", body.strip())
    }
    tags = set(re.findall(r"\b(?:struct|union|enum)\s+([A-Za-z_]\w*)\s*\{", text))
    for pair in ("{}", "()", "[]"):
        text = _emptied(text, pair)
    found = {m[1] for m in _NAMED.finditer(text)}
    return {n for n in found | enumerators | tags if n not in C.keywords and not n.startswith("_")}


def _emptied(text: str, pair: str) -> str:
    """The text without the contents of brackets of this kind."""
    kept, depth = [], 0
    for letter in text:
        depth -= letter == pair[1]
        if depth <= 0:
            kept.append(letter)
        depth += letter == pair[0]
    return "".join(kept)


def sizes_of(spec: str, pattern: str) -> Mapping[str, int] | None:
    """The sizes in a workload's name, by their names in the target's pattern, in order.

    For `gemm-64x16x32` and the pattern `gemm-MxNxK`, these are M, N and K. None if the name does
    not match the pattern.
    """
    letters = re.findall(r"[A-Z]+", pattern)
    expression = re.sub(r"[A-Z]+", r"(\\d+)", re.escape(pattern).replace(r"\-", "-"))
    found = re.fullmatch(expression, spec)
    return dict(zip(letters, map(int, found.groups()), strict=True)) if found else None

"""Refuses kernel sources that could reach beyond themselves while they are compiled.

A candidate is untrusted text that the compiler reads on this machine. What is refused here could
pull other files into the artifact or emit instructions that are not in the C text; a sandbox around
the compiler is a second wall, not a replacement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.core.records import Failed, KernelLanguage

MAX_SOURCE_BYTES = 1 << 20
"""Far over any kernel a person or model writes; keeps a flood of text away from the compiler."""

_DIRECTIVES = {
    "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "include", "pragma",
}  # fmt: skip
_ASSEMBLER = re.compile(r"\b(asm|__asm|__asm__|_Pragma|__has_include\w*|__has_embed)\b")
_RESERVED = re.compile(r"\b__\w+")
_COMPILERS_OWN = re.compile(
    r"__(?:attribute__|builtin_\w+|sync_\w+|atomic_\w+|restrict(?:__)?|inline(?:__)?|const(?:__)?|"
    r"volatile__|extension__|typeof(?:__)?|alignof__|auto_type|func__|m(?:64|128|256|512)[a-z]*|"
    r"u?int128(?:_t)?|float128|bf16|fp16|vector|riscv|[A-Z0-9][A-Z0-9_]*__|x86_64__|aarch64__|"
    r"has_(?:builtin|attribute|c_attribute|feature|extension)|(?:packed|aligned|unused|used|pure|"
    r"always_inline|noinline|flatten|hot|cold|nothrow|may_alias|vector_size)__)",
    re.ASCII,
)
"""Names of the compiler's, with those of attributes and of questions to the compiler. Headers of
the C library define others under which tokens are pasted or become text: `__CONCAT`, `__STRING`,
`__REDIRECT`."""
_OF_ONE_BUILD = re.compile(
    r"\b__(?:DATE|TIME|TIMESTAMP|COUNTER|FILE|FILE_NAME|BASE_FILE|INCLUDE_LEVEL)__\b", re.ASCII
)
"""Macros by which a kernel that is built again could become another one, or learn where it is."""
_RAW_STRING = re.compile(r"\b(?:u8|u|U|L)?R\"")
_DIRECTIVE = re.compile(r"[ \t\f\v]*(?:#|%:)[ \t\f\v]*(\w*)(.*)")
_INCLUDE = re.compile(r"""\s*(?:<([^>]*)>|"([^"]*)")\s*""")
_PLAIN_TEXT = re.compile(r'"[\w.,=+/ -]*"', re.ASCII)
"""Attributes hand their text to the assembler as it is: a quote, a line end or a semicolon in the
name of a section begins another line there."""
_UNROLL = re.compile(r"\s*(GCC\s+)?unroll\b.*")
_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|(?P<open>["'])(?:\\[^\n]|(?!(?P=open))[^\\\n])*(?P<end>(?P=open))?""",
    re.DOTALL,
)
"""Comments, strings and characters. What is not closed ends with its line, so that every character
is read once; `end` is then missing."""


def check_source(
    source: str,
    language: KernelLanguage,
    headers: Sequence[str],
    instead_of_assembler: str,
    pragmas: Sequence[str] = (),
    own_names: re.Pattern[str] | None = None,
) -> Failed | None:
    """A `compile_error` that names the line of the first forbidden construct, or None.

    `language` is C, or one that has its preprocessor. Only `headers` may be included; beside
    unrolling, `pragmas` are those allowed, as they are written ("omp ..." for any that begin so).
    `instead_of_assembler` tells the author what to do
    ("use the command macros"). `own_names` are further names of the language's that begin with two
    underscores.
    """
    if len(source.encode()) > MAX_SOURCE_BYTES:
        return _refused(f"the source is longer than {MAX_SOURCE_BYTES >> 10} KiB", language, None)
    if "\0" in source:
        line = source[: source.index("\0")].count("\n") + 1
        return _refused("the source contains a zero byte", language, line)
    unix = source.replace("\r\n", "\n")
    if "\r" in unix:  # compilers disagree on whether it ends a line
        line = unix[: unix.index("\r")].count("\n") + 1
        return _refused("the source contains a carriage return without a line feed", language, line)
    lines = _joined_lines(unix)
    text = "\n".join(line for _, line in lines)
    code = _TOKENS.sub(_without_comments, text).split("\n")
    bare = _TOKENS.sub(_without_texts, text).split("\n")
    for (number, _), code_line, bare_line in zip(lines, code, bare, strict=True):
        reason = _forbidden(code_line, headers, instead_of_assembler, pragmas, own_names)
        reason = reason or _ambiguous(bare_line) or _made_text(code_line, bare_line)
        if reason:
            return _refused(reason, language, number)
    return None


def _joined_lines(source: str) -> list[tuple[int, str]]:
    """Logical lines with the number of the physical line each begins on."""
    joined: list[tuple[int, str]] = []
    start, parts = 1, list[str]()
    for number, line in enumerate(source.split("\n"), 1):
        stripped = line.rstrip(" \t\f\v")
        if stripped.endswith("\\"):
            parts.append(stripped[:-1])
            continue
        joined.append((start, "".join([*parts, line])))
        start, parts = number + 1, []
    if parts:  # the last line ends in a backslash
        joined.append((start, "".join(parts)))
    return joined


def _without_comments(match: re.Match[str]) -> str:
    """Comments become white space and strings stay: an include's file name is one."""
    token = match.group()
    return " " + _line_ends(match) if token.startswith(("//", "/*")) else token


def _line_ends(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def _without_texts(match: re.Match[str]) -> str:
    """Neither comments nor strings, but the quote of one that is not closed."""
    opened = match.group("open")
    return opened if opened and not match.group("end") else _line_ends(match)


def _ambiguous(line: str) -> str | None:
    """Text that a compiler may read as the beginning of something else than was read here.

    `line` has neither comments nor strings left. After an unclosed quote or in a raw string, what
    looks like a comment here may be code to the compiler.
    """
    if re.search(r"['\"\\]", line):
        return "a quote is not closed, or there is a backslash outside a string"
    return None


def _made_text(code: str, bare: str) -> str | None:
    """Text that may become more than a name where an attribute takes it.

    `code` has no comments left, `bare` no strings either.
    """
    directive = _DIRECTIVE.match(bare)
    if directive is not None and directive.group(1) == "include":
        return None  # only the listed headers may be included
    rest = bare if directive is None else "".join(directive.groups())
    if "#" in rest or "%:" in rest:
        return "# that joins tokens, or makes text of them, is not allowed in a kernel"
    for token in _TOKENS.finditer(code):
        if token.group().startswith('"') and not _PLAIN_TEXT.fullmatch(token.group()):
            return (
                f"the string {token.group()[:40]} is not allowed in a kernel: strings may contain "
                "only letters, digits, spaces and _.,=+/- alone"
            )
    return None


def _forbidden(
    line: str,
    headers: Sequence[str],
    instead_of_assembler: str,
    pragmas: Sequence[str],
    own_names: re.Pattern[str] | None,
) -> str | None:
    assembler = _ASSEMBLER.search(line)
    if assembler:
        return f"{assembler.group(1)} is not allowed in a kernel: {instead_of_assembler}"
    of_one_build = _OF_ONE_BUILD.search(line)
    if of_one_build:
        return (
            f"{of_one_build.group()} is not allowed in a kernel: its value depends on where or "
            "when the kernel is compiled"
        )
    for name in _RESERVED.findall(_TOKENS.sub("", line)):
        is_own = own_names is not None and own_names.fullmatch(name)
        if not is_own and not _COMPILERS_OWN.fullmatch(name):
            return (
                f"{name} is not allowed in a kernel: of the names that begin with two underscores, "
                "only the compiler's own are"
            )
    if _RAW_STRING.search(line):
        return "raw strings are not allowed in a kernel"
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
            return f"#include {header} is not allowed: only {', '.join(headers)} are"
    if name == "pragma" and not _UNROLL.fullmatch(rest) and not _is_allowed(rest, pragmas):
        allowed = ", ".join(f"`#pragma {text}`" for text in ("GCC unroll N", *pragmas))
        return f"#pragma{rest} is not allowed: only {allowed} {'are' if pragmas else 'is'}"
    return None


def _is_allowed(pragma: str, pragmas: Sequence[str]) -> bool:
    text = " ".join(pragma.split())
    beginnings = tuple(p.removesuffix("...") for p in pragmas if p.endswith(" ..."))
    return text in pragmas or text.startswith(beginnings)


def _refused(reason: str, language: KernelLanguage, line: int | None) -> Failed:
    return Failed("build", "compile_error", language.located(f"{reason}.", line), line)

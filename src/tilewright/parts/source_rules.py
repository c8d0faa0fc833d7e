"""Refuses kernel sources that could misuse the compiler.

A candidate is untrusted text that the compiler reads on this machine. Constructs are refused if
they could include other files in the artifact, or emit instructions that the C text does not
contain. The compiler also runs in a sandbox, which does not replace these rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tilewright.core.records import Failed, KernelLanguage

MAX_SOURCE_BYTES = 1 << 20
"""Maximum size of a source, far more than any kernel needs. Larger texts do not reach the compiler.
"""

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
"""Names that the compiler defines, including attributes and tests such as `__has_builtin`. Headers
of the C library define further names, which are refused because some of them join tokens or make
text of them: `__CONCAT`, `__STRING`, `__REDIRECT`.
"""
_OF_ONE_BUILD = re.compile(
    r"\b__(?:(?:DATE|TIME|TIMESTAMP|COUNTER|FILE|FILE_NAME|BASE_FILE|INCLUDE_LEVEL)__"
    r"|builtin_(?:constant_p|(?:dynamic_)?object_size))\b",
    re.ASCII,
)
"""Macros and functions whose value depends on the build. With them, a kernel could be different
code when it is built again, for instance with other optimisations to be examined, or find out where
it is built."""
_OF_THE_PROCESSOR = re.compile(
    r"\b(?:__builtin_(?:riscv_\w+|(?:set_)?(?:thread_pointer|flt_rounds)|ia32_(?:(?:rd|wr)[fg]sbase\w*"
    r"|(?:rd|wr)pkru|f?x(?:save|rstor)\w*|x[gs]etbv|(?:read|write)eflags\w*|fn?(?:ldenv|st(?:env|sw)"
    r"|clex)))|_(?:read|write)[fg]sbase_\w+|_(?:rd|wr)pkru\w*|_f?x(?:save|rstor)\w*|_x[gs]etbv)\b",
    re.ASCII,
)
"""Functions of the compiler that read or change registers which no ordinary code of a kernel uses,
or flags of floating-point operations. A call could leave there what a later call finds."""
_OF_OPENMP = re.compile(r"\b(?:__builtin_)?GOMP_\w+|\bweakref\b", re.ASCII)
"""Functions of OpenMP's runtime that compilers call for pragmas, and a way to give such a function
another name. A kernel that calls them itself could count its calls, for instance by the sections
that it has not begun.
"""
_RAW_STRING = re.compile(r"\b(?:u8|u|U|L)?R\"")
_DIRECTIVE = re.compile(r"[ \t\f\v]*(?:#|%:)[ \t\f\v]*(\w*)(.*)")
_INCLUDE = re.compile(r"""\s*(?:<([^>]*)>|"([^"]*)")\s*""")
_PLAIN_TEXT = re.compile(r'"[\w.,=+/ -]*"', re.ASCII)
"""Strings that are allowed. The compiler passes the text of attributes to the assembler unchanged,
so a quote, a line end or a semicolon in the name of a section would begin a new line of assembler.
"""
_UNROLL = re.compile(r"\s*(GCC\s+)?unroll\b.*")
_TOKENS = re.compile(
    r"""//[^\n]*|/\*.*?(?:\*/|\Z)|(?P<open>["'])(?:\\[^\n]|(?!(?P=open))[^\\\n])*(?P<end>(?P=open))?""",
    re.DOTALL,
)
"""Comments, strings and character constants. A string that is not closed ends with its line, and
the group `end` is then missing, so that every character is read once.
"""

_HIDDEN = re.compile(
    r"[\x85\xad\u034f\u061c\u115f\u1160\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    r"\ufe00-\ufe0e\ufeff\uffa0\U000e0000-\U000e0fff]|(?<![\u2190-\u245f\u2500-\u2775\u2794-\u2bff])\ufe0f"
)
"""Characters that are invisible, that end a line only for some programs, or that change the order
in which the others are shown (Unicode Standard Annexes 9 and 31). Compilers accept many of them in
identifiers, so two names may look the same. U+FE0F is allowed after symbols that are in no
identifier, because comments contain it: it makes a warning sign an emoji."""


def hidden_character(source: str) -> tuple[str, int] | None:
    """The reason why a source is refused because readers do not see it as the compiler does, and
    the line; or None.
    """
    found = _HIDDEN.search(source)
    if found is None:
        return None
    reason = (
        f"the character U+{ord(found[0]):04X} is not allowed: it is invisible, or it changes the "
        "order in which others are shown, so that a reader may see other code than the compiler"
    )
    return reason, source.count("\n", 0, found.start()) + 1


def check_source(
    source: str,
    language: KernelLanguage,
    headers: Sequence[str],
    instead_of_assembler: str,
    pragmas: Sequence[str] = (),
    own_names: re.Pattern[str] | None = None,
) -> Failed | None:
    """A `compile_error` that names the line of the first forbidden construct, or None.

    `language` is C, or a language that uses the C preprocessor. Only `headers` may be included. The
    allowed pragmas are those for unrolling and `pragmas`, in their exact text; "omp ..." allows all
    that begin with "omp". `instead_of_assembler` tells the author what to use instead ("use the
    command macros"). `own_names` matches further names of the language that begin with two
    underscores.
    """
    if len(source.encode()) > MAX_SOURCE_BYTES:
        return _refused(f"the source is longer than {MAX_SOURCE_BYTES >> 10} KiB", language, None)
    if "\0" in source:
        line = source[: source.index("\0")].count("\n") + 1
        return _refused("the source contains a zero byte", language, line)
    hidden = hidden_character(source)
    if hidden is not None:
        return _refused(hidden[0], language, hidden[1])
    unix = source.replace("\r\n", "\n")
    if "\r" in unix:  # compilers disagree on whether this character ends a line
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
    """Each comment is replaced by white space. Strings are kept, because the file name of an
    include is a string.
    """
    token = match.group()
    return " " + _line_ends(match) if token.startswith(("//", "/*")) else token


def _line_ends(match: re.Match[str]) -> str:
    return "\n" * match.group().count("\n")


def _without_texts(match: re.Match[str]) -> str:
    """Comments and closed strings are removed. The quote of a string that is not closed is kept."""
    opened = match.group("open")
    return opened if opened and not match.group("end") else _line_ends(match)


def _ambiguous(line: str) -> str | None:
    """The reason to refuse a line that a compiler may read in another way than this module; or
    None.

    `line` contains no comments and no closed strings. After an unclosed quote or in a raw string,
    text that looks like a comment here may be code for the compiler.
    """
    if re.search(r"['\"\\]", line):
        return "a quote is not closed, or there is a backslash outside a string"
    return None


def _made_text(code: str, bare: str) -> str | None:
    """The reason to refuse a line whose text could become assembler through an attribute; or None.

    `code` contains no comments, and `bare` neither comments nor strings.
    """
    directive = _DIRECTIVE.match(bare)
    if directive is not None and directive.group(1) == "include":
        return None  # only the listed headers may be included
    rest = bare if directive is None else "".join(directive.groups())
    if "#" in rest or "%:" in rest:
        return "the operators # and ## are not allowed in a kernel"
    for token in _TOKENS.finditer(code):
        if token.group().startswith('"') and not _PLAIN_TEXT.fullmatch(token.group()):
            return (
                f"the string {token.group()[:40]} is not allowed in a kernel: strings may contain "
                "only letters, digits, spaces and _.,=+/-"
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
    if assembler and assembler.group(1) == "_Pragma":
        return "_Pragma is not allowed in a kernel: write #pragma on a line of its own"
    if assembler:
        return f"{assembler.group(1)} is not allowed in a kernel: {instead_of_assembler}"
    of_one_build = _OF_ONE_BUILD.search(line)
    if of_one_build:
        return (
            f"{of_one_build.group()} is not allowed in a kernel: its value depends on where, when "
            "or how the kernel is compiled"
        )
    of_the_processor = _OF_THE_PROCESSOR.search(line)
    if of_the_processor:
        return (
            f"{of_the_processor.group()} is not allowed in a kernel: it reads or changes a state "
            "of the processor that remains after a call. Compute outputs from the inputs only"
        )
    of_openmp = _OF_OPENMP.search(line)
    if of_openmp:
        return (
            f"{of_openmp.group()} is not allowed in a kernel: only the compiler may call the "
            "functions of OpenMP's runtime. Use pragmas instead"
        )
    for name in _RESERVED.findall(_TOKENS.sub("", line)):
        is_own = own_names is not None and own_names.fullmatch(name)
        if not is_own and not _COMPILERS_OWN.fullmatch(name):
            return (
                f"{name} is not allowed in a kernel: of the names that begin with two underscores, "
                "only those of the compiler are allowed"
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

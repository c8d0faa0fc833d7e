"""The normal form of C and CUDA C++: their preprocessing tokens, without comments and layout.

Tokens are those of C11, section 6.4, and of C++20, section 5.4. If these rules do not suffice (raw
strings, trigraphs, stray characters, code that reads its own line numbers), the source is its own
normal form, so it never equals another one.
"""

from __future__ import annotations

import re
from functools import lru_cache

_OF_C = """alignas alignof asm auto bool break case char const constexpr continue default do double
    else enum extern false float for goto if inline int long nullptr register restrict return
    short signed sizeof static static_assert struct switch thread_local true typedef typeof
    typeof_unqual union unsigned void volatile while"""
_OF_CUDA = """and and_eq bitand bitor catch char16_t char32_t char8_t class co_await co_return
    co_yield compl concept const_cast consteval constinit decltype delete dynamic_cast explicit
    export friend mutable namespace new noexcept not not_eq operator or or_eq private protected
    public reinterpret_cast requires static_cast template this throw try typeid typename using
    virtual wchar_t xor xor_eq"""
_MACROS = "linux unix i386"  # GCC defines them on some machines
KEYWORDS = frozenset((_OF_C + " " + _MACROS).split())
KEYWORDS_OF_CUDA = frozenset((_OF_C + " " + _OF_CUDA).split())
_UNSETTLED = re.compile(
    r"""\r                    # ends a line for some compilers
    |\\[ \t\f\v]+\n           # continues a line for some compilers
    |\?\?[=/'()!<>-]          # a trigraph, by some standards
    """,
    re.VERBOSE,
)
_SPACE = r"(?P<space>(?:[ \t\f\v]|/\*.*?\*/|//[^\n]*)+)|(?P<end>\n)"
_REFUSED = r"""(?P<refused>(?:u8|u|U|L)?R"|\#\#|%:%:|__has_(?:include|embed)
    |(?:__LINE__|__builtin_LINE|__builtin_COLUMN|source_location)\b)"""
_STRING = r"""(?:u8|u|U|L)?(?:"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
_NAME = r"[A-Za-z_]\w*"
_OPERATORS = r"(?P<operators>(?:[!&*+:<=>^|-]|/(?![*/])|\#(?!\#)|%(?!:%:))+)"
_C = re.compile(
    rf"""{_SPACE}|{_REFUSED}|(?P<token>{_STRING}|\.?[0-9](?:[eEpP][+-]|[\w.])*|{_NAME}
    |\.\.\.|[][(){{}}.~?;,])|{_OPERATORS}""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_CUDA = re.compile(
    rf"""{_SPACE}|{_REFUSED}
    |(?P<token>{_STRING}(?:{_NAME})?|\.?[0-9](?:'\w|[eEpP][+-]|[\w.])*|{_NAME}
    |\.\.\.|\.\*|[][(){{}}.~?;,])|{_OPERATORS}""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_OPERATOR = re.compile(r"<<=|>>=|->|\+\+|--|<<|>>|[<>=!]=|&&|\|\||[*/%+&^|-]=|<:|:>|<%|%>|%:|.")
_SPLIT_DIFFERENTLY = re.compile(r"::|<<<|>>>|<=>|->\*")
"""Operators that standards and compilers tokenise differently. They are kept together with the
adjacent operators.
"""
_FILE_NAME = re.compile(r'<[^>\n]*>|"[^"\n]*"')
_NAMES_FILES = ("include", "include_next", "import", "embed")
_DIRECTIVE = ("#", "%:")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)


def without_comments(source: str) -> str:
    """The source with spaces in place of comments, so that positions and lines stay the same."""
    return _COMMENT.sub(blank, source)


def blank(found: re.Match[str]) -> str:
    """Spaces of the same length as the text that was found, with its line ends."""
    return re.sub(r"[^\n]", " ", found[0])


@lru_cache(maxsize=256)  # cached, because the form of a parent is needed for each of its children
def normal_form(source: str) -> str:
    """The tokens of a C source, separated by spaces. Each directive is a line with its original
    spaces.
    """
    return _form(source, _C)


@lru_cache(maxsize=256)
def normal_form_of_cuda(source: str) -> str:
    """The tokens of a CUDA C++ source, in the same form as those of `normal_form`."""
    return _form(source, _CUDA)


def _form(source: str, language: re.Pattern[str]) -> str:
    lines = _logical_lines(source, language)
    if lines is None:
        return source
    # A macro that converts its argument to a string depends on the spaces in the argument.
    stringized = any(line[0] in _DIRECTIVE and _is_stringizing(line) for line in lines)
    form: list[str] = []
    code: list[str] = []
    for line in lines:
        if line[0] not in _DIRECTIVE:
            code.append("".join(line) if stringized else " ".join(t for t in line if t != " "))
            continue
        if code:
            form.append(" ".join(code))
        form.append("#" + "".join(line[1:]).lstrip())
        code = []
    return "\n".join([*form, " ".join(code)] if code else form)


def _is_stringizing(directive: list[str]) -> bool:
    return any("#" in token or "%:" in token for token in directive[1:])


def _logical_lines(source: str, language: re.Pattern[str]) -> list[list[str]] | None:
    """The tokens of each line that has any, with " " between tokens that are separated by white
    space; None if the rules do not suffice.
    """
    text = source.replace("\r\n", "\n")
    if _UNSETTLED.search(text):
        return None
    text = text.replace("\\\n", "")
    lines: list[list[str]] = [[]]
    at = 0
    while at < len(text):
        line = lines[-1]
        found = _FILE_NAME.match(text, at) if _names_file(line) else None
        found = found or language.match(text, at)
        if found is None or found.lastgroup == "refused":
            return None
        at = found.end()
        if found.lastgroup == "end":
            lines.append([])
        elif found.lastgroup == "operators" and not _SPLIT_DIFFERENTLY.search(found.group()):
            line += _OPERATOR.findall(found.group())
        elif found.lastgroup != "space":
            line.append(found.group())
        elif line and line[-1] != " ":
            line.append(" ")
    return [stripped for line in lines if (stripped := _without_last_space(line))]


def _without_last_space(line: list[str]) -> list[str]:
    return line[:-1] if line[-1:] == [" "] else line


def _names_file(line: list[str]) -> bool:
    """Whether the next token of a directive is the name of a file, in which `//` is not a
    comment.
    """
    words = [token for token in line if token != " "] if len(line) <= 4 else []
    return len(words) == 2 and words[0] in _DIRECTIVE and words[1] in _NAMES_FILES

"""Stores the macros that a kernel file defines, and expands them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tilewright.core.errors import InputError

MOST_TOKENS = 2_000_000
"""Maximum number of tokens that are processed when the macros of a file are expanded."""
_TOKEN = re.compile(
    r"(?P<skip>\s+|//[^\n]*|/\*.*?\*/)"
    r'|(?P<text>"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\')'
    r"|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)"
    r"|(?P<mark>##|.)",
    re.DOTALL,
)
_TOLD = frozenset(("void", "if", "do", "while", "__builtin_unreachable", "__builtin_assume"))
"""Names that a macro without a value may use in addition to its parameters."""
_QUALIFIERS = frozenset(
    ("inline", "__inline", "__inline__", "restrict", "__restrict", "__restrict__", "__attribute__",
     "always_inline", "__always_inline__", "unused", "__unused__", "noinline", "__noinline__")
)  # fmt: skip
_DEFINE = re.compile(r"(\w+)(\(([^)]*)\))?\s*(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Macro:
    """`parameters` is None for an object-like macro."""

    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


@dataclass
class Macros:
    """The macros that are defined at a place in a file. `doubtful` are names for which it is not
    known whether they are defined. Macros with different definitions in several places are not
    expanded.
    """

    defined: dict[str, _Macro] = field(default_factory=dict)
    doubtful: set[str] = field(default_factory=set)
    _tokens: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self.defined

    def doubt(self, name: str, rest: str) -> None:
        """Record a `#define` or `#undef` for which it is not known whether it takes effect. All
        definitions of a macro that only states assumptions for the compiler are regarded as equal.
        """
        found = _DEFINE.fullmatch(rest.strip()) if name in ("define", "undef") else None
        if found is None:
            return
        named = found[1]
        before, known = self.defined.get(named), named in self.defined or named in self.doubtful
        self.directive(name, rest)
        now = self.defined.get(named)
        alike = before == now or (_tells(before) and _tells(now))
        if known and not alike:
            self.defined.pop(named, None)
        self.doubtful.add(named)

    def directive(self, name: str, rest: str) -> bool:
        """Process `#define` and `#undef`. Returns whether the line is one of these directives."""
        if name == "undef":
            self.defined.pop(rest.strip(), None)
            self.doubtful.discard(rest.strip())
            return True
        found = _DEFINE.fullmatch(rest.strip()) if name == "define" else None
        if found is None:
            return False
        listed = found[3]
        parameters = None
        if listed is not None:
            parameters = tuple(p.strip() for p in listed.split(",") if p.strip())
        self.defined[found[1]] = _Macro(parameters, tuple(_tokens(found[4])))
        self.doubtful.discard(found[1])
        return True

    def expanded(self, text: str) -> str:
        """The text with its macros expanded; `InputError` if the expansion does not end."""
        if not self.defined:
            return text
        return "".join(self._expand(list(_tokens(text)), frozenset()))

    def _expand(self, tokens: Sequence[str], hidden: frozenset[str]) -> Iterator[str]:
        at = 0
        while at < len(tokens):
            name = tokens[at]
            at += 1
            self._tokens += 1
            if self._tokens > MOST_TOKENS:
                raise InputError(
                    f"the macros of the file expand to more than {MOST_TOKENS:,} tokens. Write "
                    "loops or functions instead."
                )
            macro = self.defined.get(name) if name not in hidden else None
            if macro is None:
                yield name
            elif macro.parameters is None:
                yield from self._expand(macro.body, hidden | {name})
            else:
                given, end = _arguments(tokens, at)
                if given is None:
                    yield name
                    continue
                lines = sum(t.count("\n") for t in tokens[at:end])
                at = end
                body = self._substituted(macro, given, hidden)
                flat = (t.replace("\n", " ") for t in self._expand(body, hidden | {name}))
                yield from flat
                yield "\n" * lines

    def _substituted(
        self, macro: _Macro, given: Sequence[Sequence[str]], hidden: frozenset[str]
    ) -> list[str]:
        """A macro's body with its arguments, which are expanded except next to `##` and after
        `#`.
        """
        assert macro.parameters is not None
        raw = {p: _trimmed(g) for p, g in zip(macro.parameters, given, strict=False)}
        if macro.parameters[-1:] == ("...",):
            rest = given[len(macro.parameters) - 1 :]
            raw["__VA_ARGS__"] = [t for i, g in enumerate(rest) for t in ([","] * (i > 0) + [*g])]
        body = [t for t in macro.body if not t.startswith(("//", "/*"))]
        result: list[str] = []
        at = 0
        while at < len(body):
            token = body[at]
            ahead = [t for t in body[at + 1 :] if not _is_space(t)][:1]
            if token == "#" and ahead and ahead[0] in raw:
                at = body.index(ahead[0], at)
                result.append('"' + "".join(raw[ahead[0]]) + '"')
            elif token == "##":
                while result and _is_space(result[-1]):
                    result.pop()
                at = next((i for i in range(at + 1, len(body)) if not _is_space(body[i])), at)
                pasted = "".join(raw.get(body[at], [body[at]]))
                result.append((result.pop() if result else "") + pasted)
            elif token in raw:
                plain = ahead == ["##"]
                result.extend(raw[token] if plain else self._expand(raw[token], hidden))
            else:
                result.append(token)
            at += 1
        return result


def _tells(macro: _Macro | None) -> bool:
    """Whether a macro only gives information to the compiler, and has neither a value nor an
    effect. Examples are `((void)(x))`, `__builtin_assume(x)` and `inline
    __attribute__((always_inline))`.
    """
    if macro is None:
        return False
    body = [t for t in macro.body if not _is_space(t)]
    names = {t for t in body if t[0].isalpha() or t[0] == "_"}
    if names <= _QUALIFIERS:
        return set(body) <= names | {"(", ")", ","}
    starts = "".join(body).startswith(("((void)", "(void)", "do{", "__builtin_"))
    plain = names <= _TOLD | set(macro.parameters or ())
    return starts and plain and not {"=", "+", "-", "#", "##"} & set(body)


def _tokens(text: str) -> Iterator[str]:
    return (found[0] for found in _TOKEN.finditer(text))


def _arguments(tokens: Sequence[str], at: int) -> tuple[list[list[str]] | None, int]:
    """The arguments of a macro call that begins at `at`, and the position of its end; None if there
    is no call.
    """
    while at < len(tokens) and _is_space(tokens[at]):
        at += 1
    if at == len(tokens) or tokens[at] != "(":
        return None, at
    depth = 0
    found: list[list[str]] = [[]]
    for end in range(at, len(tokens)):
        token = tokens[end]
        depth += (token in "([{") - (token in ")]}")
        if depth == 0:
            return found, end + 1
        if token == "," and depth == 1:
            found.append([])
        elif end > at:
            found[-1].append(token)
    return None, at


def _trimmed(tokens: Sequence[str]) -> list[str]:
    text = list(tokens)
    while text and _is_space(text[0]):
        text.pop(0)
    while text and _is_space(text[-1]):
        text.pop()
    return text


def _is_space(token: str) -> bool:
    return token.isspace() or token.startswith(("//", "/*"))

"""Reads the dump of a compilation in GIMPLE, GCC's intermediate form, in which each variable still
has its name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

_FUNCTION = re.compile(r"^;; Function .*?\bdecl_uid=(\d+).*$", re.MULTILINE)
_PLACE = re.compile(r"\[([^\s\[\]:]+):(\d+):\d+(?: discrim \d+)?\] ")
# A value that is assigned once, such as `_5` or `i_7(D)`; GCC calls it an SSA name.
SSA = re.compile(r"(?<![\w.$#])[\w.$#]*_\d+(?![\w.$#])(?:\(D\))?")
ONLY_SSA = re.compile(r"[\w.$#]*_\d+(?:\(D\))?")
# A variable or a function, with the number of its declaration.
VARIABLE = re.compile(r"[\w.$#]*?D\.(\d+)")
_DECLARED = re.compile(r"  (.*[\s*&])([\w.$#]*_\d+(?:\(D\))?|[\w.$#]*D\.\d+)((?:\[[^\]]*\])*);")
_PARAMETER = re.compile(r"([\w.$#]*)D\.(\d+)$")
NUMBER = re.compile(r"-?\d+B?")
_TYPES = re.compile(
    r"(?:const |volatile |std::|long |short |un|signed |int|char|_Bool|bool|u?int(?:ptr|max|\d+)_t"
    r"|s?size_t|sizetype|ssizetype|ptrdiff_t|__int128|D\.\d+)+"
)
"""Types of whole numbers."""
ADDRESSES = re.compile(r"[*&}]\s*$|\(\*|long|64|size|ptr|vector")
"""Types that may hold a whole address."""


@dataclass(slots=True)
class Function:
    """A function: the names of its parameters, the types of its variables, and its statements."""

    uid: str
    parameters: list[tuple[str, str]]
    types: dict[str, str]
    locals: frozenset[str]
    statements: list[Statement]
    assigned: dict[str, Statement]

    def moves(self, word: str, name: str, seen: set[str]) -> bool:
        """Whether a value is that of `name` to which offsets may have been added."""
        if word == name or word in seen:
            return True
        seen.add(word)
        one = self.assigned.get(word)
        if one is None or one.does not in ("phi", "copy", "cast", "+", "-"):
            return False
        if one.does == "+":
            return any(self.moves(other, name, set(seen)) for other in one.words)
        moved = one.words if one.does == "phi" else one.words[:1]
        return all(self.moves(other, name, seen) for other in moved)


@dataclass(frozen=True, slots=True)
class Statement:
    """An assignment to `target`, or a condition, a call or a return without one. `does` is the
    operation, and `words` are its operands."""

    target: str
    does: str
    words: tuple[str, ...]
    file: str
    line: int | None


def functions_of(text: str) -> dict[str, Function]:
    """The functions of a dump, by the numbers of their declarations."""
    places = [*_FUNCTION.finditer(text)]
    ends = [*(one.start() for one in places), len(text)][1:]
    return {
        begin[1]: _function(begin[1], text[begin.end() : end].splitlines())
        for begin, end in zip(places, ends, strict=True)
    }


def uid_of(word: str) -> str:
    """The number of the declaration that an operand names; empty if it is not a name alone."""
    found = VARIABLE.fullmatch(word)
    return found[1] if found else ""


def is_memory(word: str, functions: dict[str, Function]) -> bool:
    """Whether an operand is a place in memory."""
    if word.startswith(("&", "{", '"')) or ONLY_SSA.fullmatch(word) or uid_of(word) in functions:
        return False
    return bool(SSA.search(word) or VARIABLE.search(word)) and not word.startswith("<")


def type_of(function: Function, word: str) -> str:
    """The type of a value; empty if it is not known, or if it belongs to several variables."""
    name = word.removesuffix("(D)")
    return function.types.get(name, function.types.get(name.rpartition("_")[0], ""))


def signed(word: str) -> str:
    """A constant of 64 bits as a signed number."""
    if not NUMBER.fullmatch(word):
        return word
    number = int(word.removesuffix("B"))
    return str(number - (1 << 64) if number >> 63 == 1 else number)


def parts_of(place: str) -> tuple[str, str, int]:
    """The variable, or the pointer, of a place in memory, the rest of its name, and its offset in
    bytes."""
    if place.startswith("MEM"):
        begin = place.index("[(") + 1
        end = _closing(place, begin) + 1
        close = _closing(place, begin - 1)
        base, _, offset = place[end:close].partition(" + ")
        base = base.removeprefix("&")
        found = VARIABLE.match(base) or SSA.match(base)
        inner = base[found.end() :] if found else base
        number = offset.removesuffix("B")
        return (
            found[0] if found else base,
            inner + place[close + 1 :],
            int(signed(number)) if NUMBER.fullmatch(number) else 0,
        )
    found = VARIABLE.match(place)
    if found:
        return found[0], place[found.end() :], 0
    found = SSA.search(place)
    if found and (place.startswith(("*", "(*", "(")) or found.start() == 0):
        return found[0], place[found.end() :].removeprefix(")"), 0
    variables = [*VARIABLE.finditer(place)]
    if variables:
        return variables[-1][0], place[variables[-1].end() :], 0
    return place, "", 0


def split_outside_brackets(text: str, separator: str = ",") -> list[str]:
    """The parts of a text between separators that are not in brackets."""
    parts, depth, last = [], 0, ""
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == separator and depth == 0:
            parts.append(last.strip())
            last = ""
        else:
            last += letter
    return [*parts, last.strip()]


def _closing(text: str, begin: int) -> int:
    """The position of the bracket that closes the one at `begin`."""
    depth = 0
    for at in range(begin, len(text)):
        depth += (text[at] in "([") - (text[at] in ")]")
        if depth == 0:
            return at
    return len(text) - 1


def _function(uid: str, lines: Sequence[str]) -> Function:
    types: dict[str, str] = {}
    variables = set[str]()
    parameters: list[tuple[str, str]] = []
    statements: list[Statement] = []
    inside, has_code, file, number = False, False, "", None
    for line in lines:
        words = line.strip()
        if not inside:
            if words == "{":
                inside = True
            elif f"D.{uid} (" in words:
                inner = words[words.index(f"D.{uid} (") + len(uid) + 4 : words.rindex(")")]
                for one in split_outside_brackets(inner):
                    found = _PARAMETER.search(one)
                    if found:
                        parameters.append((found[1], found[0]))
                        types[found[1]] = one[: found.start()].strip()
                        variables.add(found[0])
            continue
        has_code = has_code or words.startswith("<bb")
        if not has_code:
            declared = _DECLARED.fullmatch(line)
            if declared is None or words.startswith("static "):
                continue
            name = declared[2].partition("D.")[0] if "D." in declared[2] else declared[2]
            kind = declared[1].strip()
            before = types.get(name, kind)
            are_pointers = before.endswith("*") and kind.endswith("*")
            types[name] = kind if before == kind else "*" * are_pointers
            if "D." in declared[2]:
                variables.add(declared[2])
            continue
        statement = _statement(words)
        if statement is not None:
            if statement.file:
                file, number = statement.file, statement.line
            statements.append(replace(statement, file=file, line=number))
    assigned = {one.target: one for one in statements if ONLY_SSA.fullmatch(one.target)}
    return Function(uid, parameters, types, frozenset(variables), statements, assigned)


def _statement(text: str) -> Statement | None:
    """A statement; None for a line that computes nothing."""
    if not text or text.startswith(("<", "goto", "else", "}", ";", "Merging", "Removing")):
        return None
    place = _PLACE.search(text)
    file, line = (place[1].rpartition("/")[2], int(place[2])) if place else ("", None)
    text = _PLACE.sub("", text).removesuffix(";").replace(" ={v} ", " = ")
    text = re.sub(r" \[(?:return slot optimization|tail call|must tail call)\]", "", text)
    if text.startswith("# ") and " = PHI <" in text:
        target, _, rest = text[2:].partition(" = PHI <")
        inner = rest.rpartition(">")[0]
        words = tuple(re.sub(r"\(\d+\)$", "", one) for one in split_outside_brackets(inner))
        return Statement(target, "phi", words, file, line)
    if text.startswith(("if (", "switch (")):
        inner = text[text.index("(") + 1 : _closing(text, text.index("("))]
        does, words = _expression(inner)
        if text.startswith("switch"):
            does = "switch"
        return Statement("", does, words, file, line)
    if text.startswith("return"):
        word = text[len("return") :].strip()
        return Statement("", "return", (word,) if word else (), file, line)
    parts = split_outside_brackets(text, " ")
    target = ""
    if "=" in parts:
        at = parts.index("=")
        target, text = " ".join(parts[:at]), " ".join(parts[at + 1 :])
        if text.startswith("{CLOBBER"):
            return None
    elif not text.endswith(")"):
        return None
    does, words = _expression(text)
    return Statement(target, does, words, file, line)


def _expression(text: str) -> tuple[str, tuple[str, ...]]:
    """The operation of an expression, and its operands."""
    words = _operands(text)
    if len(words) == 1:
        return "copy", tuple(words)
    if words[0].startswith("(") and words[0].endswith(")") and len(words) == 2:
        kind = words[0][1:-1]
        is_whole = kind.rstrip().endswith(("*", "&", "ref-all}")) or _TYPES.fullmatch(kind)
        if not is_whole:
            return "convert", (words[1],)
        return ("cast" if ADDRESSES.search(kind) else "narrow"), (words[1],)
    if len(words) == 2 and words[1].startswith("("):
        return "call", (words[0], *filter(None, split_outside_brackets(words[1][1:-1])))
    if "?" in words:
        chosen = words[words.index("?") + 1 :]
        condition = words[: words.index("?")]
        return "select", (condition[0], *(one for one in chosen if one != ":"))
    if len(words) == 3 and not words[1].startswith("<"):
        return words[1], (words[0], words[2])
    if len(words) == 3 and words[1] in ("<", "<=", "<<"):
        return words[1], (words[0], words[2])
    inner = text[text.find("<") + 1 : text.rfind(">")]
    return words[0], tuple(split_outside_brackets(inner))


def _operands(text: str) -> list[str]:
    """The words of an expression, in which a place in memory is one word."""
    found: list[str] = []
    is_open = False
    for word in split_outside_brackets(text, " "):
        if is_open:
            found[-1] += f" {word}"
            is_open = not word.startswith("[")
        else:
            found.append(word)
            is_open = word.endswith("MEM")
    return found

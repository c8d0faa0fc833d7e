"""Finds where a kernel computes with the distance between two of its own variables.

How far apart two local variables, two frames of the stack, two static variables or two functions
lie is decided by the compiler, and differs between the kernel that is examined and the kernel that
is timed. A condition on such a distance could hide any special case. In the compiler's listing, a
distance may already be a number, so it is looked for in GCC's GIMPLE form, in which each variable
still has its name.

Each value is followed together with the variables of which it may be the address, its *origins*. A
kernel may add offsets to an address, compare or subtract two addresses in the same variable, and
test whether the address of a variable is zero, or is that of another variable. Every other number
that is computed from an address of a variable is found, unless the kernel has written the address
through a pointer that it was given, and read it as a number of less than 64 bits: the analysis of
the listing treats what is read through a pointer like an input value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tilewright.native.conditions.gimple import (
    ADDRESSES,
    NUMBER,
    ONLY_SSA,
    SSA,
    VARIABLE,
    Function,
    Statement,
    functions_of,
    is_memory,
    parts_of,
    signed,
    split_outside_brackets,
    type_of,
    uid_of,
)
from tilewright.native.toolchain import Listed
from tilewright.parts.machine_code.post_dominance import TooLargeError

MOST_SWEEPS = 60
"""Maximum number of times that the statements of all functions are followed."""
_POINTS = re.compile(r"^\t\.quad\t[A-Za-z_]", re.MULTILINE)
_TABLE = re.compile(r"^(?:([\w.$#]+):|\t\.quad\t([A-Za-z_][\w.$#]*)([+-]\d+)?)", re.MULTILINE)
_FLOAT = re.compile(r"-?\d+\.\d")
_FLOAT_TYPE = re.compile(r"(?:float|double)(?:D\.\d+)?$")
_COMPARISONS = ("==", "!=", "<", ">", "<=", ">=")
_NEAR = 4096
"""Constant offsets below this number cannot make an address zero."""
_ALIGNS = re.compile(r"-(?:2|4|8|16|32|64|128|256|512|1024|2048|4096)")
_OF_STACK = re.compile(
    r"__builtin_(?:alloca\w*|frame_address|return_address|stack_save|dwarf_cfa|thread_pointer)"
)
_COPIES = re.compile(r"(?:__builtin_)?mem(?:p?cpy|move)(?:_chk)?")
_RETURNS_FIRST = re.compile(
    r"(?:__builtin_)?(?:memp?cpy|memmove|memset|assume_aligned|expect\w*|launder)(?:_chk)?"
)
_GIVEN, _FAR, _ANYWHERE = "given", "far", "anywhere"
"""`_GIVEN` is the origin of an address that the kernel was given or has read. `_FAR` is one of an
unknown frame of a function, which may be another one each time. `_ANYWHERE` is the memory of
addresses that were given."""
_ALIGNED, _PART = " aligned", " part"
"""Are added to the origins of addresses that were rounded, or of which bits are missing. Their
distance from the beginning of the variable, and from one another, depends on the variable's place;
that between parts also if the same part was moved, because it may overflow."""
_WHOLE = "*"
"""The name of a whole variable, or of an unknown part of it."""


@dataclass(frozen=True, slots=True)
class _Value:
    """What is known about a number.

    Attributes:
        origins: the variables, functions and frames of which it may be an address, or be computed.
        root: the name of the value to which only offsets were added; empty for no known value.
        moved: 0 if no offset was added to an address, 1 if a small constant was, otherwise 2.
    """

    origins: frozenset[str] = frozenset()
    root: str = ""
    moved: int = 2


_OTHER, _EXACT, _NULL = _Value(), _Value(moved=0), _Value(root="null", moved=0)
_FOUND = _Value(frozenset({"found"}))
"""The result of a statement that is reported, from which nothing further is reported."""
_Key: TypeAlias = tuple[str, tuple[_Value, ...]]


def distances(listed: Listed, file: str, *, only_own_lines: bool = False) -> list[int | None]:
    """The lines of the source `file` that compute with distances between a kernel's own variables.

    None if the compiler was not GCC. With `only_own_lines`, code of other files is left out. Raises
    `TooLargeError`.
    """
    following = _Distances(functions_of(listed.gimple), has_unions=listed.has_unions)
    following.set_tables(listed)
    found = following.found()
    return [
        one.line if one.file == file else None
        for one in found
        if not only_own_lines or one.file in (file, "")
    ]


class _Distances:
    """Follows the values of all functions, for each way in which they are called."""

    def __init__(self, functions: dict[str, Function], *, has_unions: bool) -> None:
        self._functions = functions
        self._has_unions = has_unions
        self._values: dict[_Key, dict[str, _Value]] = {}
        self._returned: dict[_Key, _Value | None] = {}
        self._contents: dict[tuple[str, str], _Value] = {}
        self._by_address = {
            uid
            for one in functions.values()
            for statement in one.statements
            for word in (statement.words[1:] if statement.does == "call" else statement.words)
            if (uid := uid_of(word)) in functions
        }
        called = {
            uid
            for one in functions.values()
            for s in one.statements
            if s.does == "call" and (uid := uid_of(s.words[0])) in functions
        }
        self._recursive = self._on_cycles()
        self._entries = set(functions) - called - self._by_address
        self._changed = self._reports = False
        self._bad: dict[tuple[_Key, Statement], None] = {}
        for uid in self._entries or functions:
            self._key(uid, ())

    def set_tables(self, listed: Listed) -> None:
        """Note which static variables begin with addresses in them."""
        listing = listed.assembly
        tables: dict[str, set[str]] = {}
        moved = set[str]()
        name = ""
        for found in _TABLE.finditer(listing) if _POINTS.search(listing) else ():
            name = found[1] or name
            if found[2]:
                tables.setdefault(name, set()).add(found[2])
                moved |= {name} if found[3] else set()
        if not tables:
            return
        named = {one[0].rpartition("D.")[0]: one[0] for one in VARIABLE.finditer(listed.gimple)}
        for table, symbols in tables.items():
            origins = frozenset(named.get(one, one) for one in symbols)
            self._by_address |= {uid for one in origins if (uid := uid_of(one)) in self._functions}
            value = _Value(origins, "", 2 if table in moved else 0)
            self._write(named.get(table, table), _WHOLE, value)

    def found(self) -> Iterable[Statement]:
        """The statements that compute with distances. Raises `TooLargeError`."""
        self._follow()
        self._reports = True
        for key, values in self._values.items():
            values.clear()
            self._returned[key] = None
        self._follow()
        return dict.fromkeys(one for _, one in self._bad)

    def _follow(self) -> None:
        """Follow all statements until nothing changes. What variables may contain is found before
        anything is reported."""
        for _ in range(MOST_SWEEPS):
            self._changed = False
            for key in list(self._values):
                self._sweep(key)
            if not self._changed:
                return
        raise TooLargeError

    def _on_cycles(self) -> set[str]:
        """The functions that may call themselves."""
        calls = {
            uid: {
                other
                for s in one.statements
                if s.does == "call"
                for other in [uid_of(s.words[0])]
                if other in self._functions
            }
            | (self._by_address if any(map(_is_indirect, one.statements)) else set())
            for uid, one in self._functions.items()
        }
        found = set()
        for uid in calls:
            reached, open_ = set[str](), [uid]
            while open_:
                new = calls[open_.pop()] - reached
                reached |= new
                open_.extend(new)
            if uid in reached:
                found.add(uid)
        return found

    def _key(self, uid: str, given: Sequence[_Value]) -> _Key:
        """A way in which a function is called."""
        count = len(self._functions[uid].parameters)
        values = (*given, *(_EXACT,) * count)[:count]
        roots = [one.root for one in values]
        values = tuple(
            replace(one, root=f"argument {roots.index(one.root)}") if one.origins else one
            for one in (self._entering(uid, one) for one in values)
        )
        if (uid, values) not in self._values:
            self._values[uid, values] = {}
            self._returned[uid, values] = None
            self._changed = True
        return uid, values

    def _entering(self, uid: str, value: _Value) -> _Value:
        """A value that is passed to a function. Addresses in another frame of this function differ
        from those in its own frame; of those in frames further up, it is not known which it is."""
        if uid not in self._recursive or not value.origins:
            return value
        named = (
            f"up {one}" if _owner(one) == uid else _FAR if one.startswith("up ") else one
            for one in value.origins
        )
        return replace(value, origins=frozenset(named))

    def _sweep(self, key: _Key) -> None:
        """Follow the statements of a function once."""
        function, values = self._functions[key[0]], self._values[key]
        given = dict(zip((name for name, _ in function.parameters), key[1], strict=True))
        for number, one in enumerate(function.statements):
            new = self._result(key, function, values, given, number, one)
            if new is None or not one.target:
                continue
            if ONLY_SSA.fullmatch(one.target):
                if values.get(one.target) != new:
                    values[one.target] = new
                    self._changed = True
            elif not self._is_open(function, values, one.target) and (
                new.origins or not _is_float(function, one.words[0])
            ):
                self._store(function, values, given, one.target, new)

    def _result(
        self, key: _Key, function: Function, values: dict[str, _Value], given: dict[str, _Value],
        number: int, one: Statement,
    ) -> _Value | None:  # fmt: skip
        """The value of a statement; None if it is not known yet."""
        if one.does == "call":
            return self._call(key, function, values, given, number, one)
        if one.does == "phi":
            return self._phi(function, values, given, one)
        if one.does in ("load", "copy") and is_memory(one.words[0], self._functions):
            if one.target and not ONLY_SSA.fullmatch(one.target):
                self._copy(function, values, given, one.target, one.words[0])
                return None
            if self._is_open(function, values, one.words[0]):
                return None
            return self._load(key[0], function, values, given, one.words[0], one.target)
        operands = list[_Value]()
        for word in one.words:
            operand = self._of(function, values, given, word)
            if operand is None:
                return None
            operands.append(operand)
        if _FOUND in operands:
            return _FOUND
        if one.does == "return":
            self._return(key, operands[0] if operands else _OTHER, one)
            return None
        value = _computed(one.does, operands, one.words)
        if value is not None:
            self._bad.pop((key, one), None)  # it was found with values that were not final
            return value if value.root or not value.origins else replace(value, root=one.target)
        if not self._reports:
            return replace(_joined(operands, one.target), moved=2)
        self._bad[key, one] = None
        return _FOUND

    def _phi(
        self, function: Function, values: dict[str, _Value], given: dict[str, _Value],
        one: Statement,
    ) -> _Value | None:  # fmt: skip
        """One of several values. What a loop computes from the result itself has its root. A value
        that is null at first may be that of an earlier iteration, so it gets a root of its own."""
        known = {w: v for w in one.words if (v := self._of(function, values, given, w))}
        if not known:
            return None
        value = _joined([*known.values()], one.target)
        if value == _FOUND or not value.origins:
            return value
        roots = {v.root for w, v in known.items() if not function.moves(w, one.target, set())}
        return replace(value, root=roots.pop() if len(roots) == 1 else one.target)

    def _return(self, key: _Key, value: _Value, one: Statement) -> None:
        """Addresses in a frame that has ended may be in another one each time."""
        uid = key[0]
        if one.words and is_memory(one.words[0], self._functions):
            value = self._read(f"{uid}|{one.words[0]}", _WHOLE)
        ended = (_FAR if _owner(n) == uid or n.startswith("up ") else n for n in value.origins)
        value = replace(value, origins=frozenset(ended))
        before = self._returned[key]
        joined = value if before in (None, value) else _joined([before, value], "returned")
        if before != joined:
            self._returned[key] = joined
            self._changed = True

    def _call(
        self, key: _Key, function: Function, values: dict[str, _Value], given: dict[str, _Value],
        number: int, one: Statement,
    ) -> _Value | None:  # fmt: skip
        name, *words = one.words
        arguments = [self._of(function, values, given, word) or _OTHER for word in words]
        arguments = [_OTHER if value == _FOUND else value for value in arguments]
        uid = uid_of(name)
        if uid in self._functions:
            return self._into(uid, arguments, words, f"{key[0]}|", one.target)
        plain = name.partition("D.")[0]
        if _OF_STACK.fullmatch(plain):
            origin = f"{key[0]}|{plain} {number}"
            return _Value(frozenset({origin}), origin, 0)
        if plain == "__builtin_va_start" and arguments:
            for origin in arguments[0].origins:
                self._write(origin, _WHOLE, _Value(frozenset({f"{key[0]}|arguments"})))
        if _is_indirect(one):
            results = [
                self._into(other, arguments, words, f"{key[0]}|", one.target)
                for other in self._by_address
            ]
            known = [value for value in results if value is not None]
            return _joined(known, one.target) if known else None
        for word, value, after in zip(words, arguments, [*arguments, _OTHER][1:], strict=True):
            other = uid_of(word)
            if other in self._functions:  # it is called with the argument that follows it
                self._into(other, [after], (), "", "")
            elif value.origins and self._reports and not self._is_pointer(function, word):
                self._bad[key, one] = None
        if _COPIES.fullmatch(plain) and len(arguments) > 1:
            for source in arguments[1].origins:
                for target in arguments[0].origins or {_ANYWHERE}:
                    self._write(target, _WHOLE, self._read(source, _WHOLE))
        if _RETURNS_FIRST.fullmatch(plain) and arguments:
            return arguments[0]
        return _EXACT

    def _into(
        self, uid: str, arguments: Sequence[_Value], words: Sequence[str], caller: str, target: str
    ) -> _Value | None:
        """The result of a function of the kernel; None if it is not known yet."""
        for word, (_, name) in zip(words, self._functions[uid].parameters, strict=False):
            if is_memory(word, self._functions):  # a structure that is passed as a whole
                self._write(f"{uid}|{name}", _WHOLE, self._read(f"{caller}{word}", _WHOLE))
        value = self._returned[self._key(uid, arguments)]
        return replace(value, root=target) if value is not None and value.origins else value

    def _is_pointer(self, function: Function, word: str) -> bool:
        is_named = word.startswith("&") or uid_of(word) in self._functions
        return is_named or type_of(function, word).endswith(("*", "&"))

    def _of(
        self, function: Function, values: dict[str, _Value], given: dict[str, _Value], word: str
    ) -> _Value | None:
        """The value of an operand; None if it is not known yet."""
        if ONLY_SSA.fullmatch(word):
            if word.endswith("(D)"):
                return given.get(word[:-3].rpartition("_")[0], _EXACT)
            return values.get(word)
        if uid_of(word) in self._functions:
            return _Value(frozenset({word}), word, 0)
        if word.startswith("&"):
            return self._address(function, values, given, word[1:])
        if word.startswith("{") and word != "{}":
            parts = [
                self._of(function, values, given, one) or _OTHER
                for one in split_outside_brackets(word[1:-1])
            ]
            whole = _joined(parts, word)
            return replace(whole, moved=2) if whole.origins else _OTHER
        return _NULL if word in ("0", "0B", "{}") else _OTHER

    def _address(
        self, function: Function, values: dict[str, _Value], given: dict[str, _Value], word: str
    ) -> _Value:
        base, path, offset = parts_of(word)
        value = (
            self._of(function, values, given, base)
            if ONLY_SSA.fullmatch(base)
            else _Value(frozenset({self._name(function, base)}), self._name(function, base), 0)
        ) or _OTHER
        if not path and not offset:
            return value
        is_near = abs(offset) < _NEAR and not SSA.search(path)
        return replace(value, moved=max(value.moved, 1 if is_near else 2))

    def _name(self, function: Function, variable: str) -> str:
        return f"{function.uid}|{variable}" if variable in function.locals else variable

    def _objects(
        self, function: Function, values: dict[str, _Value], given: dict[str, _Value], place: str
    ) -> tuple[frozenset[str], str]:
        """The variables to which a place in memory may belong, and the name of the part."""
        base, path, _ = parts_of(place)
        parts = re.findall(r"(?:\.|->)([\w.$#]+)", path)
        is_typed = not (place.startswith("MEM") or self._has_unions)
        name = parts[-1] if parts and is_typed else _WHOLE
        if not ONLY_SSA.fullmatch(base):
            return frozenset({self._name(function, base)}), name
        value = self._of(function, values, given, base) or _OTHER
        variables = frozenset(map(_unmarked, value.origins))
        return variables or frozenset({_ANYWHERE}), name

    def _is_open(self, function: Function, values: dict[str, _Value], place: str) -> bool:
        """Whether the address of a place in memory is not known yet."""
        base = parts_of(place)[0]
        return base in function.assigned and base not in values

    def _store(
        self, function: Function, values: dict[str, _Value], given: dict[str, _Value], place: str,
        value: _Value,
    ) -> None:  # fmt: skip
        objects, name = self._objects(function, values, given, place)
        for one in objects:
            self._write(one, name, value)

    def _copy(
        self, function: Function, values: dict[str, _Value], given: dict[str, _Value], place: str,
        source: str,
    ) -> None:  # fmt: skip
        targets, _ = self._objects(function, values, given, place)
        sources, _ = self._objects(function, values, given, source)
        for one in sources - {_ANYWHERE}:
            for target in targets:
                self._write(target, _WHOLE, self._read(one, _WHOLE))

    def _load(
        self, uid: str, function: Function, values: dict[str, _Value], given: dict[str, _Value],
        place: str, target: str,
    ) -> _Value:  # fmt: skip
        """What a place may hold. Addresses in a frame that are kept elsewhere may be in another one
        each time, except those in the frame of the function that is called first."""
        objects, name = self._objects(function, values, given, place)
        if _ANYWHERE in objects and not ADDRESSES.search(type_of(function, target)):
            return _OTHER
        read = [self._read(holder, name) for holder in objects]
        origins = {
            _FAR
            if (owner := _owner(one)) and owner not in self._entries and owner != _owner(holder)
            else one
            for holder, value in zip(objects, read, strict=True)
            for one in value.origins
        }
        if origins <= {_GIVEN}:
            return _OTHER
        if not ADDRESSES.search(type_of(function, target)):
            return replace(_marked(origins, _PART), root=target or place)
        moved = max(value.moved for value in read)
        return _Value(frozenset(origins), target or place, 0 if moved == 0 else 2)

    def _write(self, variable: str, name: str, value: _Value) -> None:
        if value in (_NULL, _FOUND):
            return
        before = self._contents.get((variable, name))
        origins = value.origins or frozenset({_GIVEN})
        after = (
            _Value(origins, "", value.moved)
            if before is None
            else replace(
                before, origins=before.origins | origins, moved=max(before.moved, value.moved)
            )
        )
        if before != after:
            self._contents[variable, name] = after
            self._changed = True

    def _read(self, variable: str, name: str) -> _Value:
        """What was written to a part of a variable."""
        parts = [
            value
            for (other, part), value in self._contents.items()
            if other == variable and (part == name or _WHOLE in (part, name))
        ]
        if not parts:
            return _NULL
        origins = frozenset[str]().union(*(one.origins for one in parts))
        return _Value(origins, "", max(one.moved for one in parts))


def _computed(does: str, operands: Sequence[_Value], words: Sequence[str]) -> _Value | None:
    """The result of an operation; None if it is a distance between variables, or a number that
    depends on where a variable lies."""
    if not any(one.origins for one in operands):
        return operands[0] if does in ("copy", "cast", "narrow") else _OTHER
    if does in ("copy", "cast"):
        return operands[0]
    if does == "narrow":
        return _marked(operands[0].origins, _PART)
    if does == "select":
        return _joined(operands[1:], " ".join(words)) if not operands[0].origins else None
    if len(operands) != 2:
        return None
    first, last = operands
    if does == "+" and not (first.origins and last.origins):
        own, other = (first, words[1]) if first.origins else (last, words[0])
        return _moved(own, other)
    if does == "-" and not last.origins:
        return _moved(first, words[1])
    if does == "-":
        return _OTHER if _same(first, last) else None
    if does in _COMPARISONS:
        return _OTHER if _may_compare(does, first, last, words) else None
    if does in ("MIN_EXPR", "MAX_EXPR"):
        return replace(first, moved=2) if _same(first, last) else None
    if does == "&" and _ALIGNS.fullmatch(signed(words[1])):
        return _marked(first.origins, _ALIGNED)
    return None


def _moved(value: _Value, by: str) -> _Value:
    """An address to which a number was added."""
    root = "" if any(one.endswith(_PART) for one in value.origins) else value.root
    return replace(value, root=root, moved=max(value.moved, 1 if _is_near(by) else 2))


def _marked(origins: Iterable[str], mark: str) -> _Value:
    """An address that was rounded or of which bits are missing."""
    return _Value(
        frozenset(one if one.endswith(_PART) else _unmarked(one) + mark for one in origins)
    )


def _unmarked(origin: str) -> str:
    return origin.removesuffix(_PART).removesuffix(_ALIGNED)


def _may_compare(does: str, first: _Value, last: _Value, words: Sequence[str]) -> bool:
    if words[1] in ("0", "0B") and does in ("==", "!="):
        return first.moved < _OTHER.moved
    if first.origins and last.origins and _same(first, last):
        return True
    are_bases = first.moved == last.moved == 0 and _FAR not in first.origins | last.origins
    return are_bases and does in ("==", "!=")


def _same(first: _Value, last: _Value) -> bool:
    """Whether two addresses are certainly in the same variable."""
    if first.root and first.root == last.root:
        return True
    is_one = len(first.origins) == 1 and first.origins == last.origins
    is_known = first.origins.isdisjoint({_FAR, _GIVEN})
    return is_one and is_known and first.origins == frozenset(map(_unmarked, first.origins))


def _joined(values: Sequence[_Value], name: str) -> _Value:
    """One of several values, which gets a name of its own if their roots differ."""
    if _FOUND in values:
        return _FOUND
    known = [one for one in values if one is not _NULL]
    if not known:
        return _NULL if values else _OTHER
    origins = frozenset[str]().union(*(one.origins for one in known))
    moved = max(one.moved for one in known)
    if moved == 1 and len(known) > 1:  # a loop may add the constant again and again
        moved = 2
    if not origins:
        return _Value(moved=moved)
    if any(not one.origins for one in known):
        origins |= {_GIVEN}
    roots = {one.root for one in known}
    return _Value(origins, roots.pop() if len(roots) == 1 else name, moved)


def _is_near(word: str) -> bool:
    return bool(NUMBER.fullmatch(word)) and abs(int(signed(word))) < _NEAR


def _is_float(function: Function, word: str) -> bool:
    """Whether a number is a floating-point number, which is no address."""
    return bool(_FLOAT.match(word) or _FLOAT_TYPE.match(type_of(function, word)))


def _owner(origin: str) -> str:
    """The function to whose frame an origin belongs; empty for none."""
    return origin.partition("|")[0] if "|" in origin else ""


def _is_indirect(one: Statement) -> bool:
    return one.does == "call" and ONLY_SSA.fullmatch(one.words[0]) is not None

"""Converts `match` to functions of a frame."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tilewright.targets.trainium.errors import not_supported
from tilewright.targets.trainium.language.arithmetic import compare, hashable, truth
from tilewright.targets.trainium.language.classes import Class, Record
from tilewright.targets.trainium.language.contents import items_of_any
from tilewright.targets.trainium.language.conversion import block, converts, expression
from tilewright.targets.trainium.language.frames import NEXT, Frame, Statement
from tilewright.targets.trainium.language.python import is_instance
from tilewright.targets.trainium.language.targets import target_of

Pattern = Callable[[Frame, Any], bool]
"""Whether a value has this form. The names in the pattern are bound to its parts."""


Body = TypeVar("Body")


@converts(ast.Match)
def _match(node: ast.Match) -> Statement:
    cases = cases_of(node, block)

    def choose(frame: Frame) -> int:
        chosen = cases(frame)
        return NEXT if chosen is None else chosen(frame)

    return choose


def cases_of(
    node: ast.Match, convert: Callable[[Sequence[ast.stmt]], Body]
) -> Callable[[Frame], Body | None]:
    """Finds the case that a value fits, and binds its names."""
    subject = expression(node.subject)
    cases = [
        (
            _pattern(case.pattern),
            None if case.guard is None else expression(case.guard),
            convert(case.body),
        )
        for case in node.cases
    ]

    def choose(frame: Frame) -> Body | None:
        value = subject(frame)
        for fits, guard, body in cases:
            if fits(frame, value) and (guard is None or truth(guard(frame))):
                return body
        return None

    return choose


def _pattern(node: ast.pattern) -> Pattern:
    if isinstance(node, ast.MatchValue):
        return _value(node)
    if isinstance(node, ast.MatchSingleton):
        return lambda frame, value: value is node.value
    if isinstance(node, ast.MatchOr):
        either = [_pattern(part) for part in node.patterns]
        return lambda frame, value: any(fits(frame, value) for fits in either)
    if isinstance(node, ast.MatchAs):
        return _named(node)
    if isinstance(node, ast.MatchSequence):
        return _sequence(node)
    if isinstance(node, ast.MatchClass):
        return _class(node)
    if isinstance(node, ast.MatchMapping):
        return _mapping(node)
    raise not_supported("this pattern of match", node.lineno)


def _mapping(node: ast.MatchMapping) -> Pattern:
    keys, parts = [expression(key) for key in node.keys], [_pattern(p) for p in node.patterns]
    rest = None if node.rest is None else _target(node.rest, node)

    def fits(frame: Frame, value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        wanted = [hashable(key(frame), node.lineno) for key in keys]
        if not all(key in value for key in wanted):
            return False
        if not all(part(frame, value[key]) for key, part in zip(wanted, parts, strict=True)):
            return False
        if rest is not None:
            rest(frame, {key: item for key, item in value.items() if key not in wanted})
        return True

    return fits


def _value(node: ast.MatchValue) -> Pattern:
    wanted = expression(node.value)
    plain = (int, float, str, bool)

    def fits(frame: Frame, value: Any) -> bool:
        found = wanted(frame)
        if isinstance(found, plain) and isinstance(value, plain):
            return isinstance(found, str) == isinstance(value, str) and truth(
                compare(frame.run, "==", value, found)
            )
        return value is found  # types, operations and members of an enum

    return fits


def _named(node: ast.MatchAs) -> Pattern:
    inner = None if node.pattern is None else _pattern(node.pattern)
    target = None if node.name is None else _target(node.name, node)

    def fits(frame: Frame, value: Any) -> bool:
        if inner is not None and not inner(frame, value):
            return False
        if target is not None:
            target(frame, value)
        return True

    return fits


def _target(name: str, node: ast.pattern) -> Callable[[Frame, Any], None]:
    return target_of(ast.Name(name, ast.Store(), lineno=node.lineno, col_offset=node.col_offset))


def _sequence(node: ast.MatchSequence) -> Pattern:
    star = next((i for i, p in enumerate(node.patterns) if isinstance(p, ast.MatchStar)), None)
    rest = None
    if star is not None:
        starred = node.patterns[star]
        assert isinstance(starred, ast.MatchStar)
        rest = None if starred.name is None else _target(starred.name, starred)
    parts = [_pattern(p) for p in node.patterns if not isinstance(p, ast.MatchStar)]

    def fits(frame: Frame, value: Any) -> bool:
        is_tuple = isinstance(value, Record) and value.cls.kind == "tuple"
        if not is_tuple and not isinstance(value, (list, tuple, range)):
            return False
        items = items_of_any(value)
        if len(items) != len(parts) if star is None else len(items) < len(parts):
            return False
        if star is not None:
            end = len(items) - len(parts) + star
            middle = items[star:end]
            items[star:end] = []
            if rest is not None:
                rest(frame, middle)
        return all(part(frame, item) for part, item in zip(parts, items, strict=True))

    return fits


def _class(node: ast.MatchClass) -> Pattern:
    kind = expression(node.cls)
    places = [_pattern(part) for part in node.patterns]
    named = [(n, _pattern(p)) for n, p in zip(node.kwd_attrs, node.kwd_patterns, strict=True)]

    def fits(frame: Frame, value: Any) -> bool:
        cls = kind(frame)
        if not is_instance(frame.run, value, cls):
            return False
        if not isinstance(cls, Class):  # int(n) and similar ones match the value itself
            return not named and all(part(frame, value) for part in places)
        assert isinstance(value, Record)
        if len(places) > (0 if cls.kind == "plain" else len(cls.fields)):
            raise not_supported(f"a positional pattern of {cls.name}", node.lineno)
        parts = [*zip(cls.fields, places, strict=False), *named]
        return all(n in value.values and part(frame, value.values[n]) for n, part in parts)

    return fits

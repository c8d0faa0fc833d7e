"""Functions with `yield`: their bodies run as Python generators, which stop at each `yield`.

Only statements that contain a `yield` are converted here; all others are converted as usual. The
iterations of a loop with a `yield` are not recorded as a loop, like those over a list, because the
instructions of the function that takes the items come in between.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from tilewright.targets.trainium.errors import not_supported
from tilewright.targets.trainium.language.arithmetic import truth
from tilewright.targets.trainium.language.contents import each_of
from tilewright.targets.trainium.language.contexts import entered
from tilewright.targets.trainium.language.conversion import (
    block,
    expression,
    own_nodes,
    statement,
)
from tilewright.targets.trainium.language.exceptions import Position, Raised
from tilewright.targets.trainium.language.frames import BREAK, NEXT, RETURN, Frame
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.matching import cases_of
from tilewright.targets.trainium.language.targets import target_of

Signal = Generator[Any, Any, int]
"""Yields items, and returns the signal of the statements that it executed."""
Steps = Callable[[Frame], Signal]
Node = TypeVar("Node", bound=ast.stmt)
_CONVERTERS: dict[type[ast.stmt], Callable[[Any], Steps]] = {}


def has_yield(nodes: Sequence[ast.AST]) -> bool:
    """Whether a function with these statements is a generator."""
    return any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in own_nodes(nodes))


def generator(nodes: Sequence[ast.stmt]) -> Callable[[Frame], KernelIterator]:
    """The function that begins a generator with this body."""
    steps = _block(nodes)

    def begin(frame: Frame) -> KernelIterator:
        def items() -> Generator[Any, Any, Any]:
            yield from steps(frame)
            return frame.result

        return KernelIterator(frame.run, items())

    return begin


def _yields(*kinds: type[Node]) -> Callable[[Callable[[Node], Steps]], Callable[[Node], Steps]]:
    def register(function: Callable[[Node], Steps]) -> Callable[[Node], Steps]:
        for kind in kinds:
            _CONVERTERS[kind] = function
        return function

    return register


def _converted(node: ast.stmt) -> Steps:
    if not has_yield([node]):
        step = statement(node)

        def execute(frame: Frame) -> Signal:
            return step(frame)
            yield

        return execute
    convert = _CONVERTERS.get(type(node))
    if convert is None:
        raise not_supported("yield inside another expression or statement", node.lineno)
    return convert(node)


def _block(nodes: Sequence[ast.stmt]) -> Steps:
    parts = [_converted(node) for node in nodes]

    def run_all(frame: Frame) -> Signal:
        frame.run.step(len(parts))
        for part in parts:
            signal = yield from part(frame)
            if signal:
                return signal
        return NEXT

    return run_all


@_yields(ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return)
def _simple(node: ast.stmt) -> Steps:
    """A statement with one `yield`, which runs first; its value is a name in the statement."""
    item = _only_yield(node)
    value = None if item.value is None else expression(item.value)
    several = isinstance(item, ast.YieldFrom)
    rest = statement(_without(node, item))

    def give(frame: Frame) -> Signal:
        found = None if value is None else value(frame)
        if several:
            items: Iterable[Any] = each_of(found)
            # mypy knows only the result of a generator, but an iterator of a kernel may have one
            frame.names[_SENT] = yield from items  # type: ignore[func-returns-value]
        else:
            frame.names[_SENT] = yield found
        return rest(frame)

    return give


_SENT = "yield"
"""The name of the value of a `yield`. Kernels cannot use it."""


def _without(node: Any, item: ast.expr) -> Any:
    """A copy of a part of the tree, with the name of its value in place of a `yield`."""
    if node is item:
        return ast.copy_location(ast.Name(_SENT, ast.Load()), item)
    if isinstance(node, list):
        return [_without(part, item) for part in node]
    if not isinstance(node, ast.AST):
        return node
    parts = {name: _without(part, item) for name, part in ast.iter_fields(node)}
    return ast.copy_location(type(node)(**parts), node)


_LATE = (ast.BoolOp, ast.IfExp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def _only_yield(node: ast.stmt) -> ast.Yield | ast.YieldFrom:
    """The `yield` of a statement, if nothing that has an effect is evaluated before it."""
    parts = list(own_nodes([node]))
    items = [part for part in parts if isinstance(part, (ast.Yield, ast.YieldFrom))]
    item = items[0]
    place = item.lineno, item.col_offset
    for part in parts:
        holds = item in ast.walk(part)
        earlier = (
            isinstance(part, (ast.Call, ast.NamedExpr))
            and not holds
            and (part.lineno, part.col_offset) < place
        )
        if len(items) > 1 or earlier or (holds and isinstance(part, _LATE)):
            raise not_supported("yield inside another expression or statement", node.lineno)
    return item


@_yields(ast.For)
def _for(node: ast.For) -> Steps:
    values, target = expression(node.iter), target_of(node.target)

    def turns(frame: Frame) -> Iterator[None]:
        for value in each_of(values(frame)):
            yield target(frame, value)

    return _loop(node, turns)


@_yields(ast.While)
def _while(node: ast.While) -> Steps:
    test = expression(node.test)

    def turns(frame: Frame) -> Iterator[None]:
        while truth(test(frame)):
            yield

    return _loop(node, turns)


def _loop(node: ast.For | ast.While, turns: Callable[[Frame], Iterator[None]]) -> Steps:
    """A loop with a turn for each item of `turns`, which does what comes before the body."""
    body, otherwise = _block(node.body), _block(node.orelse)

    def loop(frame: Frame) -> Signal:
        for _ in turns(frame):
            signal = yield from body(frame)
            if signal == BREAK:
                return NEXT
            if signal == RETURN:
                return signal
        return (yield from otherwise(frame))

    return loop


@_yields(ast.If)
def _if(node: ast.If) -> Steps:
    test, yes, no = expression(node.test), _block(node.body), _block(node.orelse)

    def choose(frame: Frame) -> Signal:
        return (yield from (yes if truth(test(frame)) else no)(frame))

    return choose


@_yields(ast.With)
def _with(node: ast.With) -> Steps:
    enter, body = entered(node), _block(node.body)

    def execute(frame: Frame) -> Signal:
        leave = enter(frame)
        place = Position(frame.run)
        try:
            signal = yield from body(frame)
        except GeneratorExit:
            if frame.run.closing:
                leave()
            raise
        except Raised:
            place.restore()
            leave()
            raise
        leave()
        return signal

    return execute


@_yields(ast.Try)
def _try(node: ast.Try) -> Steps:
    body, otherwise = _block(node.body), _block(node.orelse)
    if node.handlers:
        raise not_supported("yield in a try with except", node.lineno)
    after = block(node.finalbody)

    def execute(frame: Frame) -> Signal:
        place = Position(frame.run)
        try:
            signal = yield from body(frame)
            if not signal:
                signal = yield from otherwise(frame)
        except GeneratorExit:
            if frame.run.closing:
                after(frame)
            raise
        except Raised:
            place.restore()
            if after(frame):
                return RETURN
            raise
        return after(frame) or signal

    return execute


@_yields(ast.Match)
def _match(node: ast.Match) -> Steps:
    cases = cases_of(node, _block)

    def choose(frame: Frame) -> Signal:
        chosen = cases(frame)
        return NEXT if chosen is None else (yield from chosen(frame))

    return choose

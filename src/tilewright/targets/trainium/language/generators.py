"""Functions with `yield`: their bodies run as Python generators, which stop at each `yield`.

Only statements that contain a `yield` are converted here; all others are converted as usual. The
iterations of a loop with a `yield` are not recorded as a loop, like those over a list, because the
instructions of the function that takes the items come in between.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

from tilewright.targets.trainium.errors import not_supported
from tilewright.targets.trainium.language.arithmetic import truth
from tilewright.targets.trainium.language.contents import each_of
from tilewright.targets.trainium.language.contexts import entered
from tilewright.targets.trainium.language.conversion import expression, own_nodes, statement
from tilewright.targets.trainium.language.frames import BREAK, NEXT, RETURN, Frame
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.targets import target_of

Signal = Generator[Any, None, int]
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
    return lambda frame: KernelIterator(frame.run, steps(frame))


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


@_yields(ast.Expr)
def _expression(node: ast.Expr) -> Steps:
    item = node.value
    if not isinstance(item, (ast.Yield, ast.YieldFrom)) or has_yield([*ast.iter_child_nodes(item)]):
        raise not_supported("yield inside another expression or statement", node.lineno)
    value = None if item.value is None else expression(item.value)
    several = isinstance(item, ast.YieldFrom)

    def give(frame: Frame) -> Signal:
        found = None if value is None else value(frame)
        if several:
            yield from each_of(found)
        else:
            yield found
        return NEXT

    return give


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
        signal = yield from body(frame)
        leave()
        return signal

    return execute

"""Converts loops, conditions, assertions and the ends of functions to functions of a frame."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.language.arithmetic import truth
from tilewright.targets.trainium.language.classes import Class, Record
from tilewright.targets.trainium.language.contents import each_of
from tilewright.targets.trainium.language.conversion import block, converts, expression, own_nodes
from tilewright.targets.trainium.language.exceptions import EXCEPTIONS, Position, Raised
from tilewright.targets.trainium.language.formats import text_of
from tilewright.targets.trainium.language.frames import (
    BREAK,
    CONTINUE,
    NEXT,
    RETURN,
    Frame,
    Statement,
)
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.python import is_instance
from tilewright.targets.trainium.language.repeated import evenness
from tilewright.targets.trainium.language.targets import target_of
from tilewright.targets.trainium.language.values import LoopRange


@converts(ast.For)
def _for(node: ast.For) -> Statement:
    values, target, body = expression(node.iter), target_of(node.target), block(node.body)
    otherwise, line = block(node.orelse), node.lineno
    name = node.target.id if isinstance(node.target, ast.Name) else ""
    bound = sorted(bound_names(node.body) - {name})
    even = evenness(node)
    fresh = isinstance(node.iter, ast.Call)  # nothing else holds the result of the call

    def loop(frame: Frame) -> int:
        items = values(frame)
        run = frame.run
        if not isinstance(items, LoopRange):
            ends = fresh and type(items) is KernelIterator and not items.has_started
            for value in each_of(items):
                run.step()
                target(frame, value)
                signal = body(frame)
                if signal in (BREAK, RETURN):
                    if ends:
                        items.close()
                    return NEXT if signal == BREAK else signal
            return otherwise(frame)
        once = run.language == 1 and items.kind != "static"
        before = {n: frame.names[n] for n in bound if n in frame.names} if once else {}
        alike = even is not None and even(frame)
        for value in run.iterate(items.kind, items.values, line, name, even=alike):
            # The NKI 1 compiler reads the body once: an assignment is visible to the next iteration
            # only through tiles.
            frame.names.update(before)
            target(frame, value)
            signal = body(frame)
            if signal == BREAK:
                _no_dynamic_end(once, "break", line)
                return NEXT
            if signal == RETURN:
                _no_dynamic_end(once, "return", line)
                return signal
        return otherwise(frame)

    return loop


def _no_dynamic_end(once: bool, word: str, line: int) -> None:
    if once:
        raise KernelError(
            "dynamic_control_flow_not_supported",
            f"{word} leaves a loop that the compiler traces once: use a mask or static_range",
            line,
        )


def bound_names(nodes: Sequence[ast.stmt]) -> set[str]:
    """Names that statements define, without those inside functions and classes."""
    found: set[str] = set()
    for node in own_nodes(nodes):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name is not None:
            found.add(node.name)
    return found


@converts(ast.While)
def _while(node: ast.While) -> Statement:
    test, body, line = expression(node.test), block(node.body), node.lineno
    otherwise = block(node.orelse)

    def loop(frame: Frame) -> int:
        while True:
            condition = test(frame)
            frame.run.line = line
            frame.run.step()
            if not truth(condition):
                return otherwise(frame)
            signal = body(frame)
            if signal == BREAK:
                return NEXT
            if signal == RETURN:
                return signal

    return loop


@converts(ast.If)
def _if(node: ast.If) -> Statement:
    test, yes, no, line = expression(node.test), block(node.body), block(node.orelse), node.lineno

    def choose(frame: Frame) -> int:
        condition = test(frame)
        frame.run.line = line
        return yes(frame) if truth(condition) else no(frame)

    return choose


@converts(ast.Return)
def _return(node: ast.Return) -> Statement:
    value = None if node.value is None else expression(node.value)

    def leave(frame: Frame) -> int:
        frame.result = None if value is None else value(frame)
        return RETURN

    return leave


@converts(ast.Assert)
def _assert(node: ast.Assert) -> Statement:
    test, line = expression(node.test), node.lineno
    message = None if node.msg is None else expression(node.msg)
    words = ast.unparse(node.test)[:200]

    def check(frame: Frame) -> int:
        condition = test(frame)
        frame.run.line = line
        if not truth(condition):
            said = "" if message is None else text_of(message(frame))
            error = Record(EXCEPTIONS["AssertionError"], {"args": (said,)})
            words_said = f"assert {words}{said and ': '}{said}"
            raise Raised(error, "assertion_failed", words_said, line)
        return NEXT

    return check


@converts(ast.Raise)
def _raise(node: ast.Raise) -> Statement:
    words = "" if node.exc is None else ast.unparse(node.exc)[:200]
    value = None if node.exc is None else expression(node.exc)

    def fail(frame: Frame) -> int:
        if value is None:
            raise handled(frame, node.lineno)
        found = value(frame)
        if isinstance(found, Class) and found.kind == "error":
            found = found.call(frame.run, [], {})
        if not isinstance(found, Record) or found.cls.kind != "error":
            raise KernelError("unsupported_operand", f"{words} is not an exception", node.lineno)
        message = f"the kernel raises {found.cls.name}: {text_of(found)}"
        raise Raised(found, "assertion_failed", message, node.lineno)

    return fail


@converts(ast.Try)
def _try(node: ast.Try) -> Statement:
    body, catches = block(node.body), bool(node.handlers)
    otherwise, after, handler_of = block(node.orelse), block(node.finalbody), handlers(node)

    def carry_on(frame: Frame) -> int:
        place, handler = Position(frame.run), None
        try:
            frame.run.tries += catches
            try:
                signal = body(frame)
            except Raised as error:
                handler = handler_of(frame, error)
            finally:
                frame.run.tries -= catches
            if handler is not None:
                place.restore()
                signal = handler(frame)
            elif not signal:
                signal = otherwise(frame)
        except Raised:
            place.restore()
            if after(frame):
                return RETURN
            raise
        return after(frame) or signal

    return carry_on


def handlers(node: ast.Try) -> Callable[[Frame, Raised], Statement]:
    """Finds the `except` that catches an exception and binds its name; raises it again without
    one."""
    parts = [
        (None if h.type is None else expression(h.type), h.name, block(h.body))
        for h in node.handlers
    ]

    def handler_of(frame: Frame, error: Raised) -> Statement:
        for kinds, name, body in parts:
            wanted = None if kinds is None else kinds(frame)
            if wanted is None or is_instance(frame.run, error.value, wanted):
                frame.names[_HANDLED] = error
                if name is not None:
                    frame.names[name] = error.value
                error.__traceback__ = None  # ends the loops that it left
                return body
        raise error

    return handler_of


_HANDLED = "raise"
"""The name of the exception that is being handled. Kernels cannot use it."""


def handled(frame: Frame, line: int) -> KernelError:
    """The exception that `raise` alone raises again."""
    holder = frame.holder(_HANDLED)
    if holder is None:
        return KernelError("unsupported_operand", "raise has no exception to raise again", line)
    found: Raised = holder.names[_HANDLED]
    return found


_SIGNALS: dict[type[ast.stmt], int] = {ast.Pass: NEXT, ast.Break: BREAK, ast.Continue: CONTINUE}


@converts(ast.Pass, ast.Break, ast.Continue)
def _signal(node: ast.stmt) -> Statement:
    signal = _SIGNALS[type(node)]
    return lambda frame: signal

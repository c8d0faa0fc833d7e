"""Converts statements of a kernel to functions of a frame. Statements that are not listed here are
refused."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.targets.trainium import landing
from tilewright.targets.trainium.errors import KernelError, not_supported, shown
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.arithmetic import truth
from tilewright.targets.trainium.language.classes import (
    REQUIRED,
    Class,
    ClassKind,
    set_attribute,
)
from tilewright.targets.trainium.language.expressions import (
    call,
    expression,
    hashable,
    items_of_any,
    symbol_of,
    text_of,
)
from tilewright.targets.trainium.language.frames import (
    BREAK,
    CONTINUE,
    NEXT,
    RETURN,
    Frame,
    Function,
    Parameters,
    Statement,
)
from tilewright.targets.trainium.language.imports import imported
from tilewright.targets.trainium.language.tile_indices import region
from tilewright.targets.trainium.language.values import LoopRange, Missing, Namespace
from tilewright.targets.trainium.tiles.view import View

Target = Callable[[Frame, Any], None]


def block(nodes: Sequence[ast.stmt]) -> Statement:
    """Executes statements one after another."""
    steps = [statement(node) for node in nodes]

    count = len(steps)

    def run_all(frame: Frame) -> int:
        frame.run.step(count)
        for step in steps:
            signal = step(frame)
            if signal:
                return signal
        return NEXT

    return run_all


def statement(node: ast.stmt) -> Statement:
    """The function that executes a statement. An unsupported statement fails when it is reached.

    A file may contain code that never runs in a kernel: references, tests, a command line.
    """
    translate = _STATEMENTS.get(type(node))
    try:
        if translate is None:
            name = _NAMES.get(type(node), type(node).__name__)
            raise not_supported(f"{name} in a kernel", node.lineno)
        return translate(node)
    except KernelError as error:
        refused = error

    def refuse(frame: Frame) -> int:
        raise KernelError(refused.code, refused.message, refused.line, refused.kind)

    return refuse


_ENDS = ("too_deep", "too_large", "too_long", "assertion_failed")


def module(nodes: Sequence[ast.stmt], frame: Frame) -> None:
    """Execute a file's statements. A name that a statement cannot define is reported missing where
    it is used."""
    for node in nodes:
        frame.run.step()
        try:
            statement(node)(frame)
        except KernelError as error:
            if error.code in _ENDS:
                raise
            frame.run.depth = 0
            if error.code != "import_not_allowed":  # whose error says where the import is
                error.message += f" (line {error.line or node.lineno})"
            for name in _bound_names([node]):
                frame.names[name] = Missing(error)


def _expression(node: ast.Expr) -> Statement:
    value = expression(node.value)

    def compute(frame: Frame) -> int:
        value(frame)
        return NEXT

    return compute


def target_of(node: ast.expr) -> Target:
    """A function that assigns a value to a name, an element, or several of them."""
    if isinstance(node, ast.Name):
        return _to_name(node)
    if isinstance(node, (ast.Tuple, ast.List)):
        return _to_several(node)
    if isinstance(node, ast.Subscript):
        return _to_element(node)
    if isinstance(node, ast.Attribute):
        return _to_attribute(node)
    raise not_supported(f"assigning to {type(node).__name__}", node.lineno)


def _to_name(node: ast.Name) -> Target:
    name = node.id
    if name.startswith("__"):
        raise not_supported(f"the name {name}", node.lineno)

    def assign(frame: Frame, value: Any) -> None:
        frame.names[name] = value
        if type(value) is View and not value.buffer.record.name:
            value.buffer.record.name = name

    return assign


def _to_attribute(node: ast.Attribute) -> Target:
    owner, name, line = expression(node.value), node.attr, node.lineno
    if name.startswith("__"):
        raise not_supported(f"the attribute {name}", line)

    def assign(frame: Frame, value: Any) -> None:
        set_attribute(owner(frame), name, value, line)

    return assign


def _to_several(node: ast.Tuple | ast.List) -> Target:
    stars = [i for i, item in enumerate(node.elts) if isinstance(item, ast.Starred)]
    targets = [target_of(i.value if isinstance(i, ast.Starred) else i) for i in node.elts]
    line = node.lineno

    def assign(frame: Frame, value: Any) -> None:
        items = items_of_any(value)
        if stars and len(items) >= len(targets) - 1:
            at, many = stars[0], len(items) - len(targets) + 1
            items[at : at + many] = [items[at : at + many]]
        if len(items) != len(targets):
            raise KernelError(
                "index", f"{len(items)} values are assigned to {len(targets)} names", line
            )
        for target, item in zip(targets, items, strict=True):
            target(frame, item)

    return assign


def _to_element(node: ast.Subscript) -> Target:
    owner, key, line = expression(node.value), expression(node.slice), node.lineno

    def assign(frame: Frame, value: Any) -> None:
        place, item = owner(frame), key(frame)
        run = frame.run
        run.line = line
        if isinstance(place, View):
            if run.language == 2:
                raise KernelError(
                    "unsupported_assignment",
                    "NKI 2 writes tiles through operations with dst=, not by assignment",
                    line,
                )
            landing.assign(run, region(run, place, item), value)
            return
        _set_item(place, item, value, line)

    return assign


def _set_item(place: Any, key: Any, value: Any, line: int) -> None:
    if isinstance(place, dict):
        if len(place) >= arithmetic.MOST_ITEMS:
            raise KernelError("too_large", "a dict with too many keys", line)
        place[hashable(key, line)] = value
        return
    if not isinstance(place, list):
        raise KernelError(
            "unsupported_assignment", f"an element of a {type(place).__name__} is assigned to", line
        )
    if type(key) is not int or not -len(place) <= key < len(place):
        raise KernelError("index", f"list index {shown(key)} of {len(place)} items", line)
    place[key] = value


def _assign(node: ast.Assign) -> Statement:
    value, targets = expression(node.value), [target_of(t) for t in node.targets]

    def assign(frame: Frame) -> int:
        found = value(frame)
        for target in targets:
            target(frame, found)
        return NEXT

    return assign


def _annotated(node: ast.AnnAssign) -> Statement:
    if node.value is None:
        return lambda frame: NEXT
    value, target = expression(node.value), target_of(node.target)

    def assign(frame: Frame) -> int:
        target(frame, value(frame))
        return NEXT

    return assign


def _augmented(node: ast.AugAssign) -> Statement:
    symbol, line, value = symbol_of(node.op), node.lineno, expression(node.value)
    store = target_of(node.target)
    if isinstance(node.target, ast.Name):
        load: Callable[[Frame], Any] = expression(ast.copy_location(
            ast.Name(node.target.id, ast.Load()), node.target))  # fmt: skip
        return _augmented_name(load, store, value, symbol, line)
    if isinstance(node.target, ast.Attribute):
        load = expression(
            ast.copy_location(ast.Attribute(node.target.value, node.target.attr, ast.Load()),
                              node.target))  # fmt: skip
        return _augmented_name(load, store, value, symbol, line)
    owner, key = expression(node.target.value), expression(node.target.slice)
    item_of = _element(owner, key)

    def update(frame: Frame) -> int:
        place, item, old = item_of(frame)
        new = value(frame)
        run = frame.run
        run.line = line
        if isinstance(old, View):  # a region of a tile, or a tile in a list or dict
            _in_place(frame, old, symbol, new)
        else:
            _set_item(place, item, arithmetic.binary(run, symbol, old, new), line)
        return NEXT

    return update


def _element(
    owner: Callable[[Frame], Any], key: Callable[[Frame], Any]
) -> Callable[[Frame], tuple[Any, Any, Any]]:
    def find(frame: Frame) -> tuple[Any, Any, Any]:
        place, item = owner(frame), key(frame)
        if isinstance(place, View):
            return place, item, region(frame.run, place, item)
        from tilewright.targets.trainium.language.expressions import _item

        return place, item, _item(place, item)

    return find


def _augmented_name(
    load: Callable[[Frame], Any], store: Target, value: Callable[[Frame], Any], symbol: str,
    line: int,
) -> Statement:  # fmt: skip
    def update(frame: Frame) -> int:
        old = load(frame)
        new = value(frame)
        frame.run.line = line
        if isinstance(old, View):
            _in_place(frame, old, symbol, new)
        elif isinstance(old, list) and symbol == "+" and isinstance(new, (list, tuple)):
            store(frame, arithmetic.binary(frame.run, "+", old, list(new)))
        else:
            store(frame, arithmetic.binary(frame.run, symbol, old, new))
        return NEXT

    return update


def _in_place(frame: Frame, old: View, symbol: str, new: Any) -> None:
    """`tile += value` writes to the existing tile."""
    run = frame.run
    if run.language == 2:
        raise KernelError(
            "unsupported_assignment",
            f"NKI 2 has no {symbol}= on tiles: use nisa.tensor_tensor, or accumulate products in "
            "PSUM",
        )
    if symbol == "+":
        run.function = "+="
        landing.accumulate(run, old, new)
        return
    landing.assign(run, old, arithmetic.binary(run, symbol, old, new))


def _for(node: ast.For) -> Statement:
    if node.orelse:
        raise not_supported("else after a loop", node.lineno)
    values, target, body = expression(node.iter), target_of(node.target), block(node.body)
    line = node.lineno
    name = node.target.id if isinstance(node.target, ast.Name) else ""
    bound = sorted(_bound_names(node.body) - {name})

    def loop(frame: Frame) -> int:
        items = values(frame)
        run = frame.run
        if not isinstance(items, LoopRange):
            for value in items_of_any(items):
                run.step()
                target(frame, value)
                signal = body(frame)
                if signal == BREAK:
                    break
                if signal == RETURN:
                    return signal
            return NEXT
        once = run.language == 1 and items.kind != "static"
        before = {n: frame.names[n] for n in bound if n in frame.names} if once else {}
        for value in run.iterate(items.kind, items.values, line, name):
            # The NKI 1 compiler reads the body once: an assignment is visible to the next iteration
            # only through tiles.
            frame.names.update(before)
            target(frame, value)
            signal = body(frame)
            if signal == BREAK:
                _no_dynamic_end(once, "break", line)
                break
            if signal == RETURN:
                _no_dynamic_end(once, "return", line)
                return signal
        return NEXT

    return loop


def _no_dynamic_end(once: bool, word: str, line: int) -> None:
    if once:
        raise KernelError(
            "dynamic_control_flow_not_supported",
            f"{word} leaves a loop that the compiler traces once: use a mask or static_range",
            line,
        )


def _bound_names(nodes: Sequence[ast.stmt]) -> set[str]:
    """Names that statements define, without those inside functions and classes."""
    found: set[str] = set()
    waiting: list[ast.AST] = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.alias):
            found.add(node.asname or node.name.split(".")[0])
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        waiting.extend(ast.iter_child_nodes(node))
    return found


def _while(node: ast.While) -> Statement:
    if node.orelse:
        raise not_supported("else after a loop", node.lineno)
    test, body, line = expression(node.test), block(node.body), node.lineno

    def loop(frame: Frame) -> int:
        while True:
            condition = test(frame)
            frame.run.line = line
            frame.run.step()
            if not truth(condition):
                return NEXT
            signal = body(frame)
            if signal == BREAK:
                return NEXT
            if signal == RETURN:
                return signal

    return loop


def _if(node: ast.If) -> Statement:
    test, yes, no, line = expression(node.test), block(node.body), block(node.orelse), node.lineno

    def choose(frame: Frame) -> int:
        condition = test(frame)
        frame.run.line = line
        return yes(frame) if truth(condition) else no(frame)

    return choose


def _return(node: ast.Return) -> Statement:
    value = None if node.value is None else expression(node.value)

    def leave(frame: Frame) -> int:
        frame.result = None if value is None else value(frame)
        return RETURN

    return leave


def _assert(node: ast.Assert) -> Statement:
    test, line = expression(node.test), node.lineno
    message = None if node.msg is None else expression(node.msg)
    words = ast.unparse(node.test)[:200]

    def check(frame: Frame) -> int:
        condition = test(frame)
        frame.run.line = line
        if not truth(condition):
            said = "" if message is None else f": {text_of(message(frame))}"
            raise KernelError("assertion_failed", f"assert {words}{said}", line)
        return NEXT

    return check


def _raise(node: ast.Raise) -> Statement:
    words = "" if node.exc is None else ast.unparse(node.exc)[:200]

    def fail(frame: Frame) -> int:
        raise KernelError("assertion_failed", f"the kernel raises {words}", node.lineno)

    return fail


def _function(node: ast.FunctionDef) -> Statement:
    name = node.name
    if name.startswith("__"):
        raise not_supported(f"the name {name}", node.lineno)
    make = _maker(node)

    def define(frame: Frame) -> int:
        frame.names[name] = make(frame, frame)
        return NEXT

    return define


def _maker(node: ast.FunctionDef) -> Callable[[Frame, Frame], Any]:
    """Creates the function with its decorators, from the frame of its definition and the enclosing
    one."""
    parameters, body, name, line = parameters_of(node.args), _body(node), node.name, node.lineno
    decorate = _decoration(node.decorator_list, line)

    def make(frame: Frame, around: Frame) -> Any:
        return decorate(frame, Function(name, parameters, body, around, node))

    return make


def _decoration(nodes: Sequence[ast.expr], line: int) -> Callable[[Frame, Any], Any]:
    decorators = [expression(decorator) for decorator in reversed(nodes)]

    def decorate(frame: Frame, found: Any) -> Any:
        for decorator in decorators:
            chosen = decorator(frame)
            frame.run.line = line
            found = call(frame.run, chosen, [found], {})
        return found

    return decorate


def _body(node: ast.FunctionDef) -> Callable[[Frame], Any]:
    body: Statement | None = None

    def run_body(frame: Frame) -> Any:
        nonlocal body
        if body is None:
            body = block(node.body)
        body(frame)
        return frame.result

    return run_body


_SPECIAL = ("__init__", "__post_init__", "__iter__", "__getitem__")
"""Special methods of Python that are kept. The last two are kept only to report that they are not
supported."""
_BASES: dict[str, ClassKind] = {"NamedTuple": "tuple", "Enum": "enum", "IntEnum": "enum"}


def _class(node: ast.ClassDef) -> Statement:
    name, line = node.name, node.lineno
    if name.startswith("__") or node.keywords:
        raise not_supported("a class with a metaclass", line)
    bases = [expression(base) for base in node.bases]
    parts = [(item, _part_of_class(item)) for item in node.body]
    decorate = _decoration(node.decorator_list, line)

    def define(frame: Frame) -> int:
        inner = Frame(frame.run, frame)
        fields: dict[str, Any] = {}
        for item, part in parts:
            part(inner)
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                field = item.target.id
                fields[field] = inner.names.get(field, REQUIRED)
        kind: ClassKind = "plain"
        known = []
        for base in bases:
            found = base(frame)
            if isinstance(found, Class):
                known.append(found)
            elif isinstance(found, Namespace):
                kind = _BASES.get(found.name, kind)
            else:
                raise not_supported(f"a base of type {type(found).__name__}", line)
        frame.names[name] = decorate(frame, Class(name, kind, fields, inner.names, known))
        return NEXT

    return define


def _part_of_class(node: ast.stmt) -> Statement:
    """A statement in a class's body. The functions of the class do not see the names in the
    class."""
    if isinstance(node, ast.Assign) and all(
        isinstance(t, ast.Name) and t.id.startswith("__") for t in node.targets
    ):
        return _signal(NEXT)(node)  # __slots__ and similar names: nothing here depends on them
    if not isinstance(node, ast.FunctionDef):
        return statement(node)
    name = node.name
    make = _maker(node)

    def define(frame: Frame) -> int:
        if not name.startswith("__") or name in _SPECIAL:
            assert frame.outer is not None
            frame.names[name] = make(frame, frame.outer)
        return NEXT

    return define


def _try(node: ast.Try) -> Statement:
    """For imports, the handlers are used for modules that kernels do not have.

    For other statements, an error ends the kernel, as it does while the compiler traces it: no
    handler runs.
    """
    body, otherwise, after = block(node.body), block(node.orelse), block(node.finalbody)
    if not isinstance(node.body[0], (ast.Import, ast.ImportFrom)):

        def carry_on(frame: Frame) -> int:
            signal = body(frame) or otherwise(frame)
            return after(frame) or signal

        return carry_on
    handler = block(node.handlers[0].body) if node.handlers else None
    names = _bound_names(node.body)

    def attempt(frame: Frame) -> int:
        if body(frame):
            raise not_supported("try in a kernel", node.lineno)
        lacks = any(type(frame.names.get(name)) is Missing for name in names)
        if lacks and handler is not None:
            handler(frame)
        else:
            otherwise(frame)
        return after(frame)

    return attempt


def _delete(node: ast.Delete) -> Statement:
    """Delete names. A tile exists as long as it is used, whatever its names are."""
    for item in node.targets:
        if not isinstance(item, ast.Name):
            raise not_supported("del of anything but names", node.lineno)
    names, line = [item.id for item in node.targets if isinstance(item, ast.Name)], node.lineno

    def end(frame: Frame) -> int:
        for name in names:
            if name not in frame.names:
                raise KernelError("undefined_name", f"name {name!r} is not defined here", line)
            del frame.names[name]
        return NEXT

    return end


def parameters_of(node: ast.arguments) -> Parameters:
    """The parameters of a function. Annotations are ignored."""
    names = tuple(a.arg for a in (*node.posonlyargs, *node.args))
    keyword_only = tuple(a.arg for a in node.kwonlyargs)
    defaults = list(
        zip(names[len(names) - len(node.defaults) :], map(expression, node.defaults), strict=True)
    )
    for name, default in zip(keyword_only, node.kw_defaults, strict=True):
        if default is not None:
            defaults.append((name, expression(default)))
    return Parameters(
        names,
        keyword_only,
        tuple(defaults),
        node.vararg.arg if node.vararg else None,
        node.kwarg.arg if node.kwarg else None,
    )


def _import(node: ast.Import | ast.ImportFrom) -> Statement:
    found = imported(node)

    def bind(frame: Frame) -> int:
        frame.names.update(found(frame.run.language))
        return NEXT

    return bind


def _signal(signal: int) -> Callable[[ast.stmt], Statement]:
    return lambda node: lambda frame: signal


_STATEMENTS: dict[type[ast.stmt], Callable[[Any], Statement]] = {
    ast.Expr: _expression, ast.Assign: _assign, ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented, ast.For: _for, ast.While: _while, ast.If: _if,
    ast.Return: _return, ast.Assert: _assert, ast.Raise: _raise, ast.FunctionDef: _function,
    ast.ClassDef: _class, ast.Try: _try, ast.Delete: _delete,
    ast.Import: _import, ast.ImportFrom: _import, ast.Pass: _signal(NEXT),
    ast.Break: _signal(BREAK), ast.Continue: _signal(CONTINUE),
}  # fmt: skip
_NAMES: dict[type[ast.AST], str] = {
    ast.With: "with", ast.Global: "global",
    ast.Nonlocal: "nonlocal", ast.AsyncFunctionDef: "async",
    ast.AsyncFor: "async", ast.AsyncWith: "async", ast.Match: "match",
}  # fmt: skip

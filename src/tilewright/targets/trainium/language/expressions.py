"""Converts expressions of a kernel to functions of a frame. Expressions that are not listed here
are refused."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.arithmetic import (
    MOST_ITEMS,
    NUMBERS,
    bounded,
    of_numbers,
    truth,
)
from tilewright.targets.trainium.language.attributes import (
    LONGEST_TEXT,
    GridMaker,
    Grids,
    attribute,
)
from tilewright.targets.trainium.language.classes import (
    Bound,
    Class,
    Record,
    attribute_of_class,
    attribute_of_record,
    items_of,
)
from tilewright.targets.trainium.language.frames import Expression, Frame, Function
from tilewright.targets.trainium.language.grid import Launch, launch
from tilewright.targets.trainium.language.host_arrays import cast, elementwise
from tilewright.targets.trainium.language.host_arrays import item as item_of_array
from tilewright.targets.trainium.language.tile_indices import region
from tilewright.targets.trainium.language.values import (
    Builtin,
    Decorator,
    LoopRange,
    Missing,
    Namespace,
)
from tilewright.targets.trainium.operations.functions import Operator
from tilewright.targets.trainium.tiles.dtypes import DType, HostArray, HostType
from tilewright.targets.trainium.tiles.index import Index, arange
from tilewright.targets.trainium.tiles.view import View

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%",
    ast.Pow: "**", ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|",
    ast.BitXor: "^",
}  # fmt: skip
_COMPARE: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
}  # fmt: skip
_UNARY: dict[type[ast.unaryop], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~"}
_FAST = {"+", "-", "*", "//", "%"}
_SAFE = 1 << 100


def symbol_of(node: ast.operator) -> str:
    """The text of an operator."""
    found = _BINARY.get(type(node))
    if found is None:
        raise not_supported(f"the operator {type(node).__name__}", getattr(node, "lineno", None))
    return found


def expression(node: ast.expr) -> Expression:
    """The function that computes an expression."""
    translate = _EXPRESSIONS.get(type(node))
    if translate is None:
        raise not_supported(_NAMES.get(type(node), type(node).__name__), node.lineno)
    return translate(node)


def _constant(node: ast.Constant) -> Expression:
    value = node.value
    if isinstance(value, (bytes, complex)):
        raise not_supported(f"a literal of type {type(value).__name__}", node.lineno)
    if isinstance(value, int) and abs(value) >= arithmetic.LARGEST:
        raise KernelError("too_large", "a literal grows beyond 2**256", node.lineno)
    return lambda frame: value


def _name(node: ast.Name) -> Expression:
    name, line = node.id, node.lineno
    if name.startswith("__") and name != "__name__":
        raise not_supported(f"the name {name}", line)

    def load(frame: Frame) -> Any:
        here: Frame | None = frame
        while here is not None:
            found = here.names.get(name, here)
            if found is not here:
                if type(found) is Missing:
                    raise used(found, line)
                return found
            here = here.outer
        raise KernelError("undefined_name", f"name {name!r} is not defined here", line)

    return load


def used(missing: Missing, line: int) -> KernelError:
    """The error for a name that is used but has no value here."""
    found = missing.error
    return KernelError(found.code, found.message, line, found.kind)


def _attribute(node: ast.Attribute) -> Expression:
    value, name, line = expression(node.value), node.attr, node.lineno
    private = name.startswith("_")
    if name.startswith("__"):
        raise not_supported(f"the attribute {name}", line)

    def load(frame: Frame) -> Any:
        owner = value(frame)
        run = frame.run
        run.line = line
        if type(owner) is Namespace and name in owner.members:
            return owner.members[name]
        if private and type(owner) not in (Record, Class):
            raise not_supported(f"the attribute {name}", line)
        return attribute_named(run, owner, name)

    return load


def attribute_named(run: Execution, owner: Any, name: str) -> Any:
    """`owner.name`, for any value with attributes."""
    if type(owner) is Record:
        return attribute_of_record(run, owner, name)
    if type(owner) is Class:
        return attribute_of_class(owner, name)
    return attribute(run, owner, name)


def _binary(node: ast.BinOp) -> Expression:
    left, right = expression(node.left), expression(node.right)
    symbol, line = symbol_of(node.op), node.lineno
    plain = arithmetic.BINARY[symbol]
    fast = symbol in _FAST

    def compute(frame: Frame) -> Any:
        one, other = left(frame), right(frame)
        if fast and type(one) is int and type(other) is int and other:
            found = plain(one, other)
            if -_SAFE < found < _SAFE:
                return found
        frame.run.line = line
        return arithmetic.binary(frame.run, symbol, one, other)

    return compute


def _unary(node: ast.UnaryOp) -> Expression:
    operand, line = expression(node.operand), node.lineno
    if isinstance(node.op, ast.Not):

        def negate(frame: Frame) -> bool:
            value = operand(frame)
            frame.run.line = line
            return not truth(value)

        return negate
    symbol = _UNARY[type(node.op)]

    def compute(frame: Frame) -> Any:
        value = operand(frame)
        frame.run.line = line
        return arithmetic.unary(frame.run, symbol, value)

    return compute


def _boolean(node: ast.BoolOp) -> Expression:
    parts = [expression(value) for value in node.values]
    stops_at, line = isinstance(node.op, ast.Or), node.lineno

    def compute(frame: Frame) -> Any:
        found: Any = None
        for part in parts:
            found = part(frame)
            frame.run.line = line
            if truth(found) is stops_at:
                return found
        return found

    return compute


def _compare(node: ast.Compare) -> Expression:
    line = node.lineno
    parts = [expression(node.left), *(expression(item) for item in node.comparators)]
    steps = [_comparison(op, line) for op in node.ops]

    def compute(frame: Frame) -> Any:
        left, found = parts[0](frame), None
        for number, step in enumerate(steps):
            right = parts[number + 1](frame)
            frame.run.line = line
            found = step(frame, left, right)
            if number + 1 < len(steps) and not truth(found):
                return found
            left = right
        return found

    return compute


def _comparison(op: ast.cmpop, line: int) -> Callable[[Frame, Any, Any], Any]:
    symbol = _COMPARE.get(type(op))
    if symbol is not None:
        plain = arithmetic.COMPARE[symbol]

        def by_value(frame: Frame, left: Any, right: Any) -> Any:
            if type(left) in NUMBERS and type(right) in NUMBERS:
                return plain(left, right)
            return arithmetic.compare(frame.run, symbol, left, right)

        return by_value
    if isinstance(op, (ast.Is, ast.IsNot)):
        wanted = isinstance(op, ast.Is)
        return lambda frame, left, right: (left is right) == wanted
    inside = isinstance(op, ast.In)

    def contained(frame: Frame, left: Any, right: Any) -> bool:
        if not isinstance(right, (list, tuple, dict, str, range)):
            raise KernelError(
                "unsupported_operand", "'in' needs a list, tuple, dict or string", line
            )
        if isinstance(right, str) and not isinstance(left, str):
            raise KernelError("unsupported_operand", "only a string can be in a string", line)
        if isinstance(right, (str, dict)):
            return (isinstance(left, (int, float, str, tuple)) and bounded(left) in right) == inside
        return any(left is item or _same(left, item) for item in right) == inside

    return contained


def _same(left: Any, right: Any) -> bool:
    plain = (int, float, str, bool, tuple, type(None))
    return isinstance(left, plain) and isinstance(right, plain) and bounded(left) == bounded(right)


def _choice(node: ast.IfExp) -> Expression:
    test, yes, no = expression(node.test), expression(node.body), expression(node.orelse)
    line = node.lineno

    def compute(frame: Frame) -> Any:
        condition = test(frame)
        frame.run.line = line
        return yes(frame) if truth(condition) else no(frame)

    return compute


def set_of(items: Sequence[Any], line: int) -> tuple[Any, ...]:
    """A set as a tuple, because kernels only need its members and their number."""
    return tuple(dict.fromkeys(hashable(item, line) for item in items))


def _set(node: ast.Set) -> Expression:
    parts, line = _items(node.elts), node.lineno
    return lambda frame: set_of(_all_items(parts, frame), line)


def _sequence(node: ast.Tuple | ast.List) -> Expression:
    make: Callable[[list[Any]], Any] = tuple if isinstance(node, ast.Tuple) else list
    if any(isinstance(item, ast.Starred) for item in node.elts):
        parts = _items(node.elts)
        return lambda frame: make(_all_items(parts, frame))
    simple = [expression(item) for item in node.elts]
    return lambda frame: make([item(frame) for item in simple])


def _items(nodes: list[ast.expr]) -> list[tuple[bool, Expression]]:
    """The items of a call or sequence, and whether each stands for several (`*items`)."""
    return [
        (True, expression(n.value)) if isinstance(n, ast.Starred) else (False, expression(n))
        for n in nodes
    ]


def _all_items(parts: list[tuple[bool, Expression]], frame: Frame) -> list[Any]:
    found: list[Any] = []
    for several, part in parts:
        value = part(frame)
        if several:
            found.extend(items_of_any(value))
            if len(found) > MOST_ITEMS:
                raise KernelError("too_large", f"a sequence of {len(found):,} items")
        else:
            found.append(value)
    return found


def items_of_any(value: Any) -> list[Any]:
    """All items of a value over which a loop may iterate."""
    found = iterable(value)
    if len(found) > MOST_ITEMS:
        raise KernelError("too_large", f"a sequence of {len(found):,} items")
    return list(found)


def iterable(value: Any) -> Any:
    """A value over which a loop may iterate, in addition to the ranges of NKI."""
    if isinstance(value, LoopRange):
        return value.values
    if isinstance(value, dict):
        return list(value)
    if isinstance(value, (list, tuple, range, str)):
        return value
    if isinstance(value, (Class, Record)):
        return items_of(value)
    raise KernelError("unsupported_operand", f"a value of type {type(value).__name__} has no items")


def _dict(node: ast.Dict) -> Expression:
    keys = [None if key is None else expression(key) for key in node.keys]
    values = [expression(value) for value in node.values]
    line = node.lineno

    def compute(frame: Frame) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:  # {**other}
                found.update(_options(value(frame), line))
            else:
                found[hashable(key(frame), line)] = value(frame)
        return found

    return compute


def hashable(key: Any, line: int) -> Any:
    """A key of a dict: plain values only."""
    return _plain_key(bounded(key), line)


def _plain_key(key: Any, line: int) -> Any:
    if isinstance(key, (int, float, str, bool, type(None))):
        return key
    if isinstance(key, tuple) and all(_plain_key(item, line) is item for item in key):
        return key
    raise KernelError(
        "unsupported_operand", f"a {type(key).__name__} cannot be a key of a dict", line
    )


def _slice(node: ast.Slice) -> Expression:
    lower, upper, step = [
        _none if n is None else expression(n) for n in (node.lower, node.upper, node.step)
    ]
    if step is _none:
        return lambda frame: slice(lower(frame), upper(frame))
    return lambda frame: slice(lower(frame), upper(frame), step(frame))


def _none(frame: Frame) -> None:
    """A missing part of a slice."""


def _subscript(node: ast.Subscript) -> Expression:
    value, key, line = expression(node.value), expression(node.slice), node.lineno

    def load(frame: Frame) -> Any:
        owner, item = value(frame), key(frame)
        frame.run.line = line
        if isinstance(owner, View):
            return region(frame.run, owner, item)
        if isinstance(owner, HostArray):
            return item_of_array(frame.run, owner, item)
        return _item(owner, item)

    return load


def _item(owner: Any, key: Any) -> Any:
    if isinstance(owner, Index):
        return owner.axes(key if isinstance(key, tuple) else (key,))
    if isinstance(owner, GridMaker):
        return grids(key)
    if isinstance(owner, Record):
        owner = items_of(owner)
    if isinstance(owner, Function) and owner.is_kernel:
        return launch(owner, key)
    if isinstance(owner, Class):
        return attribute_of_class(owner, str(key))
    if isinstance(owner, (list, tuple, str, range)):
        if not isinstance(key, (int, slice)):
            raise KernelError(
                "index", f"a {type(owner).__name__} is indexed with {text_of(key):.40}"
            )
        try:
            return owner[key]
        except (IndexError, TypeError, ValueError) as error:
            raise KernelError("index", f"{error} (of {len(owner)})") from None
    if isinstance(owner, dict):
        if not isinstance(key, (int, float, str, bool, tuple)) or bounded(key) not in owner:
            raise KernelError("index", f"a dict has no key {text_of(key):.40}")
        return owner[key]
    raise KernelError(
        "unsupported_operand", f"a value of type {type(owner).__name__} cannot be indexed"
    )


def grids(key: Any) -> Grids:
    """`nl.mgrid[a:b, c:d]` as one grid for each slice."""
    items = key if isinstance(key, tuple) else (key,)
    found = []
    for axis, item in enumerate(items):
        if not isinstance(item, slice) or not isinstance(item.stop, int):
            raise KernelError("unsupported_indexing", "nl.mgrid takes slices with ends")
        line = arange(item.start or 0, item.stop, item.step or 1)
        steps = [0] * len(items)
        counts = [1] * len(items)
        steps[axis], counts[axis] = line.steps[0], line.counts[0]
        found.append(Index(line.offset, tuple(steps), tuple(counts)))
    return Grids(found)


def _call(node: ast.Call) -> Expression:
    function, line, column = expression(node.func), node.lineno, node.col_offset
    keywords: list[tuple[str | None, Expression]] = [
        (item.arg, expression(item.value)) for item in node.keywords
    ]
    parts = _items(node.args)
    starred = any(several for several, _ in parts)
    plain = [part for _, part in parts]

    def compute(frame: Frame) -> Any:
        called = function(frame)
        args = _all_items(parts, frame) if starred else [part(frame) for part in plain]
        kwargs: dict[str, Any] = {}
        for name, value in keywords:
            if name is None:
                kwargs.update(_options(value(frame), line))
            else:
                kwargs[name] = value(frame)
        run = frame.run
        run.line, run.column = line, column
        return call(run, called, args, kwargs)

    return compute


def _options(value: Any, line: int) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise KernelError("unsupported_operand", "** needs a dict with strings as keys", line)
    return value


def call(run: Execution, called: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a value that kernels may call."""
    if isinstance(called, (Builtin, Function, Class, Bound, Launch)):
        return called.call(run, args, kwargs)
    if isinstance(called, Decorator):
        return _decorated(called, args)
    if isinstance(called, DType) and len(args) == 1 and type(args[0]) in NUMBERS:
        return float(args[0]) if called.is_float else int(args[0])
    if isinstance(called, HostType) and len(args) == 1 and type(args[0]) in NUMBERS:
        return float(args[0]) if called.name.startswith("float") else int(args[0])
    if isinstance(called, (DType, HostType)) and len(args) == 1 and isinstance(args[0], HostArray):
        return cast(run, args[0], called)
    if isinstance(called, Operator) and any(isinstance(arg, HostArray) for arg in args):
        if kwargs:
            raise not_supported(f"{called.spelled} of an array, with {', '.join(kwargs)},")
        return elementwise(run, called.name, args)
    if isinstance(called, Operator):
        if args and all(type(arg) in NUMBERS for arg in args):
            return of_numbers(called, args)
        raise not_supported(f"calling {called.spelled}: use the function of nl")
    if isinstance(called, View):
        raise KernelError("unsupported_operand", "a tile is not a function")
    raise KernelError("unsupported_operand", f"a {type(called).__name__} is not a function")


def _decorated(decorator: Decorator, args: Sequence[Any]) -> Any:
    """`nki.jit` does not change a function; `nki.jit(mode=...)` is the same decorator."""
    if len(args) != 1 or not isinstance(args[0], (Function, Class)):
        return decorator
    if isinstance(args[0], Class):
        args[0].kind = "dataclass" if decorator.name == "dataclass" else args[0].kind
    elif decorator.name.startswith("nki."):
        args[0].is_kernel = True
    return args[0]


def _text(node: ast.JoinedStr) -> Expression:
    parts: list[Expression] = []
    for value in node.values:
        if isinstance(value, ast.FormattedValue):
            if value.format_spec is not None and not _is_short(value.format_spec):
                raise not_supported("this format in an f-string", node.lineno)
            parts.append(_formatted(value))
        else:
            parts.append(expression(value))

    def compute(frame: Frame) -> str:
        return "".join(part(frame) for part in parts)[:LONGEST_TEXT]

    return compute


def _is_short(spec: ast.expr) -> bool:
    """Whether a format is a literal with a width of at most two digits."""
    values = spec.values if isinstance(spec, ast.JoinedStr) else []
    texts = [v.value for v in values if isinstance(v, ast.Constant)]
    return len(texts) == len(values) and all(
        isinstance(t, str) and sum(c.isdigit() for c in t) <= 2 for t in texts
    )


def _formatted(node: ast.FormattedValue) -> Expression:
    value = expression(node.value)
    spec = ""
    if isinstance(node.format_spec, ast.JoinedStr):
        spec = "".join(str(v.value) for v in node.format_spec.values if isinstance(v, ast.Constant))

    def compute(frame: Frame) -> str:
        found = value(frame)
        if type(found) in (int, float) and spec:
            try:
                return format(found, spec)
            except (ValueError, OverflowError) as error:
                raise KernelError("arithmetic", str(error), node.lineno) from None
        return text_of(found)

    return compute


def text_of(value: Any) -> str:
    """A value in an f-string or in a message."""
    if isinstance(value, (int, float, str, bool, type(None), DType)):
        return str(value)[:LONGEST_TEXT]
    if isinstance(value, (tuple, list)):
        items = ", ".join(text_of(item) for item in bounded(value)[:20])
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    return f"<{type(value).__name__}>"


def _comprehension(node: ast.ListComp | ast.GeneratorExp | ast.DictComp) -> Expression:
    from tilewright.targets.trainium.language.statements import target_of

    if isinstance(node, ast.DictComp):
        key, element = expression(node.key), expression(node.value)
    else:
        key, element = None, expression(node.elt)
    loops = []
    for generator in node.generators:
        if generator.is_async:
            raise not_supported("async", node.lineno)
        conditions = [expression(c) for c in generator.ifs]
        loops.append((target_of(generator.target), expression(generator.iter), conditions))
    line = node.lineno

    def walk(frame: Frame, depth: int, found: list[Any]) -> None:
        if depth == len(loops):
            if len(found) >= MOST_ITEMS:
                raise KernelError("too_large", f"a list of more than {MOST_ITEMS:,} items", line)
            item = element(frame)
            found.append(item if key is None else (hashable(key(frame), line), item))
            return
        target, values, conditions = loops[depth]
        for value in iterable(values(frame)):
            frame.run.step()
            target(frame, value)
            if all(truth(condition(frame)) for condition in conditions):
                walk(frame, depth + 1, found)

    def compute(frame: Frame) -> Any:
        found: list[Any] = []
        walk(Frame(frame.run, frame), 0, found)
        return found if key is None else dict(found)

    return compute


def _walrus(node: ast.NamedExpr) -> Expression:
    from tilewright.targets.trainium.language.statements import target_of

    value, target = expression(node.value), target_of(node.target)

    def compute(frame: Frame) -> Any:
        found = value(frame)
        target(frame, found)
        return found

    return compute


def _lambda(node: ast.Lambda) -> Expression:
    from tilewright.targets.trainium.language.statements import parameters_of

    body, parameters = expression(node.body), parameters_of(node.args)
    return lambda frame: Function("lambda", parameters, body, frame, node=node)


_EXPRESSIONS: dict[type[ast.expr], Callable[[Any], Expression]] = {
    ast.Constant: _constant, ast.Name: _name, ast.Attribute: _attribute, ast.BinOp: _binary,
    ast.UnaryOp: _unary, ast.BoolOp: _boolean, ast.Compare: _compare, ast.IfExp: _choice,
    ast.Tuple: _sequence, ast.List: _sequence, ast.Dict: _dict, ast.Slice: _slice,
    ast.Subscript: _subscript, ast.Call: _call, ast.JoinedStr: _text,
    ast.ListComp: _comprehension, ast.GeneratorExp: _comprehension,
    ast.DictComp: _comprehension, ast.Lambda: _lambda, ast.NamedExpr: _walrus,
    ast.Set: _set,
}  # fmt: skip
_NAMES: dict[type[ast.AST], str] = {
    ast.Await: "await", ast.Yield: "yield", ast.YieldFrom: "yield",
    ast.SetComp: "a set made by a loop", ast.Starred: "* here",
}  # fmt: skip

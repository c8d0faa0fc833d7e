"""Standard modules that kernel files use for data: functools, dataclasses and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain, product
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import REQUIRED, Class, FieldDefault, Record
from tilewright.targets.trainium.language.contents import items_of_any
from tilewright.targets.trainium.language.contexts import context_manager
from tilewright.targets.trainium.language.values import Builtin, Decorator, DefaultDict, Namespace


class Partial(Builtin):
    """`functools.partial(function, ...)`."""

    def __init__(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        super().__init__("partial", lambda run, *args, **kwargs: None, masked=False)
        self._inner, self._args, self._kwargs = function, tuple(args), dict(kwargs)

    def call(self, run: Execution, args: Sequence[object], kwargs: dict[str, Any]) -> Any:
        """Call the function with the arguments of both calls."""
        return call(run, self._inner, [*self._args, *args], {**self._kwargs, **kwargs})


class _PartialMaker(Builtin):
    def __init__(self) -> None:
        super().__init__("functools.partial", lambda run, function: None)

    def call(self, run: Execution, args: Sequence[object], kwargs: dict[str, Any]) -> Any:
        """Accepts any arguments; `nki.jit` with a mode is still a decorator."""
        if not args:
            raise KernelError("missing_argument", "functools.partial needs a function")
        if isinstance(args[0], Decorator):
            return args[0]
        return Partial(args[0], args[1:], kwargs)


def _reduce(run: Execution, function: Any, values: Any, *start: Any) -> Any:
    items = [*start[:1], *items_of_any(values)]
    if not items:
        raise KernelError("missing_argument", "functools.reduce of an empty sequence")
    total = items[0]
    for item in items[1:]:
        run.step()
        total = call(run, function, [total, item], {})
    return total


def _field(
    run: Execution, *, default: Any = REQUIRED, default_factory: Any = None, init: Any = True,
    repr: Any = True, compare: Any = True,
) -> Any:  # fmt: skip
    if default_factory is not None:
        return FieldDefault(lambda run: call(run, default_factory, [], {}))
    return default


def _replace(run: Execution, record: Any, **changes: Any) -> Record:
    if not isinstance(record, Record) or not set(changes) <= set(record.values):
        raise KernelError(
            "unsupported_operand", "dataclasses.replace takes a record and its fields"
        )
    return Record(record.cls, {**record.values, **changes})


def _named_tuple(run: Execution, name: Any, fields: Any) -> Class:
    names = fields.replace(",", " ").split() if isinstance(fields, str) else items_of_any(fields)
    return Class(str(name), "tuple", dict.fromkeys(map(str, names), REQUIRED), {})


def _default_dict(run: Execution, factory: Any = None) -> dict[Any, Any]:
    return {} if factory is None else DefaultDict(lambda: call(run, factory, [], {}))


def _simple_namespace(run: Execution, **values: Any) -> Record:
    return Record(Class("SimpleNamespace", "plain", {}, {}), dict(values))


def _product(run: Execution, *values: Any, repeat: Any = 1) -> list[tuple[Any, ...]]:
    lists = [items_of_any(value) for value in values] * int(repeat)
    count = 1
    for items in lists:
        count *= len(items)
    if count > arithmetic.MOST_ITEMS:
        raise KernelError("too_large", f"itertools.product of {count:,} items")
    return list(product(*lists))


def _operator(symbol: str) -> Builtin:
    def compute(run: Execution, a: Any, b: Any) -> Any:
        return arithmetic.binary(run, symbol, a, b)

    return Builtin(f"operator {symbol}", compute)


def _silent(name: str) -> Builtin:
    return Builtin(name, lambda run, *args, **options: None, masked=False)


def _logging() -> dict[str, object]:
    """Messages that kernels log are not kept."""
    words = ("debug", "info", "warning", "error", "exception", "critical", "log", "setLevel")
    silent: dict[str, object] = {word: _silent(f"logging.{word}") for word in words}
    logger = Namespace("logging.Logger", dict(silent))
    levels = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40, "CRITICAL": 50}
    get = Builtin("logging.getLogger", lambda run, *name: logger)
    return {**silent, **levels, "getLogger": get, "Logger": logger,
            "basicConfig": _silent("logging.basicConfig")}  # fmt: skip


def standard_modules() -> dict[str, Namespace]:
    """The modules by their paths."""
    enum = {name: Namespace(name, {}) for name in ("Enum", "IntEnum")}
    functools = {
        "reduce": Builtin("functools.reduce", _reduce), "partial": _PartialMaker(),
        "wraps": Decorator("functools.wraps"), "lru_cache": Decorator("functools.lru_cache"),
        "cache": Decorator("functools.cache"),
    }  # fmt: skip
    typing = {n: Namespace(n, {}) for n in ("NamedTuple", "Protocol", "Generic")}
    members: dict[str, Mapping[str, object]] = {
        "functools": functools,
        "itertools": {
            "product": Builtin("itertools.product", _product),
            "chain": Builtin(
                "itertools.chain", lambda run, *v: list(chain(*map(items_of_any, v)))
            ),
            "accumulate": Builtin(
                "itertools.accumulate", lambda run, v: list(accumulate(items_of_any(v)))
            ),
        },
        "dataclasses": {
            "dataclass": Decorator("dataclass"),
            "field": Builtin("dataclasses.field", _field),
            "replace": Builtin("dataclasses.replace", _replace),
        },
        "enum": {**enum, "auto": Decorator("enum.auto")},
        "types": {"SimpleNamespace": Builtin("types.SimpleNamespace", _simple_namespace)},
        "collections": {
            "namedtuple": Builtin("collections.namedtuple", _named_tuple),
            "defaultdict": Builtin("collections.defaultdict", _default_dict),
        },
        "operator": {
            "add": _operator("+"), "sub": _operator("-"), "mul": _operator("*"),
            "floordiv": _operator("//"),
        },
        "typing": typing,
        "logging": _logging(),
        "warnings": {"warn": _silent("warnings.warn")},
        "__future__": {"annotations": True},
        "contextlib": {"contextmanager": context_manager()},
        "abc": {"ABC": Namespace("ABC", {})},
    }  # fmt: skip
    return {path: Namespace(path, names) for path, names in members.items()}

"""Standard modules that kernel files use for data: functools, dataclasses and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import (
    accumulate,
    combinations,
    count,
    cycle,
    islice,
    pairwise,
    product,
    repeat,
    zip_longest,
)
from typing import Any

from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import (
    REQUIRED,
    Class,
    FieldDefault,
    Record,
    replaced,
)
from tilewright.targets.trainium.language.contents import each_of, item_of, items_of_any
from tilewright.targets.trainium.language.contexts import context_manager
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.python import builtins, number, whole
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


def _repeat(run: Execution, value: Any, times: Any = None) -> KernelIterator:
    return KernelIterator(run, repeat(value) if times is None else repeat(value, int(times)))


def _count(run: Execution, start: Any = 0, step: Any = 1) -> KernelIterator:
    return KernelIterator(run, count(number(start, "count"), number(step, "count")))


def _slice(run: Execution, values: Any, *bounds: Any) -> KernelIterator:
    return KernelIterator(run, islice(each_of(values), *bounds))


def _combinations(run: Execution, values: Any, length: Any) -> KernelIterator:
    return KernelIterator(run, combinations(items_of_any(values), whole(length, "combinations")))


def _longest(run: Execution, *values: Any, fillvalue: Any = None) -> KernelIterator:
    return KernelIterator(run, zip_longest(*map(each_of, values), fillvalue=fillvalue))


def _itertools() -> dict[str, object]:
    functions: dict[str, Callable[..., Any]] = {
        "product": _product, "repeat": _repeat, "count": _count, "islice": _slice,
        "combinations": _combinations, "zip_longest": _longest,
        "chain": lambda run, *v: KernelIterator(run, (i for one in v for i in each_of(one))),
        "cycle": lambda run, v: KernelIterator(run, cycle(items_of_any(v))),
        "pairwise": lambda run, v: KernelIterator(run, pairwise(each_of(v))),
        "accumulate": lambda run, v: list(accumulate(items_of_any(v))),
    }  # fmt: skip
    return {n: Builtin(f"itertools.{n}", f, masked=False) for n, f in functions.items()}


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
    typing: dict[str, object] = {n: Namespace(n, {}) for n in ("NamedTuple", "Protocol", "Generic")}
    typing["TYPE_CHECKING"] = False
    members: dict[str, Mapping[str, object]] = {
        "functools": functools,
        "itertools": _itertools(),
        "dataclasses": {
            "dataclass": Decorator("dataclass"),
            "field": Builtin("dataclasses.field", _field),
            "replace": Builtin(
                "dataclasses.replace", lambda run, record, **changes: replaced(record, changes)
            ),
        },
        "enum": {**enum, "auto": Decorator("enum.auto")},
        "types": {"SimpleNamespace": Builtin("types.SimpleNamespace", _simple_namespace)},
        "collections": {
            "namedtuple": Builtin("collections.namedtuple", _named_tuple),
            "defaultdict": Builtin("collections.defaultdict", _default_dict),
            "OrderedDict": builtins()["dict"],
        },
        "operator": {
            "add": _operator("+"), "sub": _operator("-"), "mul": _operator("*"),
            "floordiv": _operator("//"),
            "itemgetter": Builtin("operator.itemgetter", lambda run, key: Builtin(
                "itemgetter", lambda run, items: item_of(items, key))),
        },
        "typing": typing,
        "logging": _logging(),
        "warnings": {"warn": _silent("warnings.warn")},
        "__future__": {"annotations": True},
        "contextlib": {"contextmanager": context_manager()},
        "abc": {"ABC": Namespace("ABC", {})},
    }  # fmt: skip
    return {path: Namespace(path, names) for path, names in members.items()}

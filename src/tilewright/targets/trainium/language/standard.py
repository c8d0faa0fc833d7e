"""Standard modules that kernel files use for data: functools, dataclasses and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.arithmetic import bounded
from tilewright.targets.trainium.language.caches import cache, lru_cache, wraps
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.classes import (
    REQUIRED,
    Class,
    FieldDefault,
    Record,
    abstract,
    marked,
    replaced,
)
from tilewright.targets.trainium.language.contents import attribute_named, item_of, items_of_any
from tilewright.targets.trainium.language.contexts import contexts_module
from tilewright.targets.trainium.language.iteration_tools import itertools_module
from tilewright.targets.trainium.language.methods import count_items
from tilewright.targets.trainium.language.python import builtins, whole
from tilewright.targets.trainium.language.values import (
    Builtin,
    Counter,
    Decorator,
    DefaultDict,
    Deque,
    MemberSet,
    Namespace,
)


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


def _dataclass(
    run: Execution, cls: Any = None, *, frozen: Any = False, order: Any = False, slots: Any = False,
    kw_only: Any = False, repr: Any = True, eq: Any = True, init: Any = True,
) -> Any:  # fmt: skip
    for name, wanted in (("eq", eq), ("init", init)):
        if wanted is False:
            raise not_supported(f"dataclass({name}=False)")

    def change(run: Execution, cls: Any) -> Any:
        if not isinstance(cls, Class):
            raise KernelError("unsupported_operand", "dataclass takes a class")
        cls.becomes_dataclass(frozen=bool(frozen), ordered=bool(order))
        return cls

    return Builtin("dataclass", change) if cls is None else change(run, cls)


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


def _plain(value: Any, kind: Any) -> Any:
    """`asdict` or `astuple` of a value, with the objects inside it."""
    if isinstance(value, Record) and value.cls.kind == "dataclass":
        parts = {name: _plain(value.values[name], kind) for name in value.cls.fields}
        return parts if kind is dict else tuple(parts.values())
    if isinstance(value, (list, tuple)):
        return type(value)(_plain(item, kind) for item in value)
    return value


def _fields(run: Execution, value: Any) -> tuple[Record, ...]:
    cls = value.cls if isinstance(value, Record) else value
    if not isinstance(cls, Class) or cls.kind != "dataclass":
        raise KernelError("unsupported_operand", "fields takes a dataclass")
    return tuple(_simple_namespace(run, name=name) for name in cls.fields)


def _copied(value: Any, *, deep: bool) -> Any:
    """`copy.copy` and `copy.deepcopy`. Tiles and functions are not copied."""

    def inner(item: Any) -> Any:
        return _copied(item, deep=True) if deep else item

    if isinstance(value, Record):
        return Record(value.cls, {name: inner(item) for name, item in value.values.items()})
    if isinstance(value, Deque):
        return Deque(map(inner, value), value.most)
    if isinstance(value, (list, tuple)):
        return type(value)(map(inner, value))
    if isinstance(value, DefaultDict):
        new: dict[Any, Any] = DefaultDict(value.make)
        new.update({key: inner(item) for key, item in value.items()})
        return new
    if isinstance(value, dict):
        return type(value)({key: inner(item) for key, item in value.items()})
    return MemberSet(value) if isinstance(value, MemberSet) else value


def _copy(run: Execution, value: Any, *, deep: bool) -> Any:
    return _copied(bounded(value), deep=deep)


def _counter(run: Execution, values: Any = (), **counts: Any) -> Counter:
    found = Counter()
    count_items(found, 1, values if isinstance(values, dict) else items_of_any(values), **counts)
    return found


def _deque(run: Execution, values: Any = (), maxlen: Any = None) -> Deque:
    items = items_of_any(values)
    most = None if maxlen is None else whole(maxlen, "maxlen")
    return Deque(items if most is None else items[max(0, len(items) - most) :], most)


def _getter(run: Execution, *names: Any, find: Callable[..., Any]) -> Builtin:
    def get(run: Execution, value: Any) -> Any:
        found = [find(run, value, name) for name in names]
        return found[0] if len(found) == 1 else tuple(found)

    return Builtin("getter", get)


def _operator(symbol: str) -> Builtin:
    def compute(run: Execution, a: Any, b: Any) -> Any:
        return arithmetic.binary(run, symbol, a, b)

    return Builtin(f"operator {symbol}", compute)


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "and_": "&", "or_": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip


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
        "wraps": wraps(), "lru_cache": lru_cache(), "cache": cache(),
        "cached_property": marked("cached_property"),
    }  # fmt: skip
    typing: dict[str, object] = {n: Namespace(n, {}) for n in ("NamedTuple", "Protocol", "Generic")}
    typing["TYPE_CHECKING"] = False
    typing["TypeVar"] = Builtin("TypeVar", lambda run, name, *kinds, **options: Namespace(name, {}))
    typing["cast"] = Builtin("cast", lambda run, kind, value: value, masked=False)
    for name in ("final", "overload", "runtime_checkable"):
        typing[name] = Builtin(name, lambda run, value: value, masked=False)
    members: dict[str, Mapping[str, object]] = {
        "functools": functools,
        "itertools": itertools_module().members,
        "copy": {
            name: Builtin(f"copy.{name}", partial(_copy, deep=name == "deepcopy"))
            for name in ("copy", "deepcopy")
        },
        "dataclasses": {
            "dataclass": Builtin("dataclasses.dataclass", _dataclass),
            "asdict": Builtin("dataclasses.asdict", lambda run, value: _plain(value, dict)),
            "astuple": Builtin("dataclasses.astuple", lambda run, value: _plain(value, tuple)),
            "fields": Builtin("dataclasses.fields", _fields),
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
            "Counter": Builtin("collections.Counter", _counter, masked=False),
            "deque": Builtin("collections.deque", _deque),
        },
        "operator": {
            **{name: _operator(symbol) for name, symbol in _OPERATORS.items()},
            "neg": Builtin("operator.neg", lambda run, value: arithmetic.unary(run, "-", value)),
            "itemgetter": Builtin("operator.itemgetter", partial(
                _getter, find=lambda run, value, key: item_of(value, key))),
            "attrgetter": Builtin("operator.attrgetter", partial(_getter, find=attribute_named)),
        },
        "typing": typing,
        "logging": _logging(),
        "warnings": {"warn": _silent("warnings.warn")},
        "__future__": {"annotations": True},
        "contextlib": contexts_module(),
        "abc": {
            "ABC": Namespace("ABC", {}), "ABCMeta": Namespace("ABCMeta", {}),
            "abstractmethod": Builtin("abc.abstractmethod", abstract),
        },
    }  # fmt: skip
    return {path: Namespace(path, names) for path, names in members.items()}

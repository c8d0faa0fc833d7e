"""Classes in a kernel's text, which are records of its configuration: fields, methods and
constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.values import Builtin, Decorator

ClassKind = Literal["plain", "dataclass", "tuple", "enum"]
REQUIRED = object()
"""The default of a field that has none."""


@dataclass(frozen=True)
class FieldDefault:
    """`dataclasses.field(...)`: `make` gives the default of a new record."""

    make: Callable[[Execution], Any]


@dataclass(frozen=True)
class Method:
    """A function of a class with a decorator: "property", "staticmethod" or "classmethod"."""

    function: Function
    mark: str


class Class:
    """A class. Calling it creates a `Record`.

    `fields` are the annotated names in its body with their defaults. `members` are all names that
    its body defines, including those of its base classes; `own` are those of its body alone.
    `order` is the class and its base classes in the order in which Python looks for a member.
    """

    def __init__(
        self,
        name: str,
        kind: ClassKind,
        fields: Mapping[str, Any],
        members: dict[str, Any],
        bases: Sequence[Class] = (),
    ) -> None:
        self.name = name
        self.kind: ClassKind = kind
        self.own, self.own_fields = members, fields
        self.order = self._ordered(bases)
        self.fields: dict[str, Any] = {}
        self.members: dict[str, Any] = {}
        for cls in reversed(self.order):
            self.fields.update(cls.own_fields)
            self.members.update(cls.own)
        for base in bases:
            if base.kind != "plain" and kind == "plain":
                self.kind = base.kind
        for member in members.values():
            function = member.function if isinstance(member, Method) else member
            if isinstance(function, Function) and function.owner is None:
                function.owner = self
        if self.kind == "enum":
            self._make_members(members)

    def _ordered(self, bases: Sequence[Class]) -> list[Class]:
        try:
            self._type: type = type("", tuple(base._type for base in bases), {"of": self})
        except TypeError:
            raise KernelError(
                "unsupported_operand", f"the base classes of {self.name} have no common order"
            ) from None
        return [step.__dict__["of"] for step in self._type.__mro__[:-1]]

    def _make_members(self, names: Mapping[str, Any]) -> None:
        for number, (name, value) in enumerate(names.items(), 1):
            if not isinstance(value, (Function, Method)):
                shown = number if isinstance(value, Decorator) else value  # enum.auto()
                self.members[name] = Record(self, {"name": name, "value": shown})

    def becomes_dataclass(self) -> None:
        """Give it the `__init__` of a dataclass in place of an inherited one."""
        self.kind = "dataclass"
        if "__init__" not in self.own:
            self.own["__init__"] = self.members["__init__"] = None

    def inherits(self, other: Class) -> bool:
        """Whether it is `other` or has it among its base classes."""
        return other in self.order

    def call(self, run: Execution, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A new record; for an enum, the member with this value."""
        if self.kind == "enum":
            for member in items_of(self):
                if args and (member.values["value"] == args[0] or member is args[0]):
                    return member
            raise KernelError("unsupported_operand", f"{self.name} has no such member")
        record = Record(self, {})
        self.initialise(run, record, args, kwargs)
        return record

    def initialise(
        self, run: Execution, record: Record, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        """What `__init__` of the class does: the kernel's own, or that of a dataclass."""
        first = self.members.get("__init__")
        if isinstance(first, Function):
            first.call(run, [record, *args], kwargs)
            return
        self._fill(run, record, args, dict(kwargs))
        then = record.cls.members.get("__post_init__")
        if isinstance(then, Function):
            then.call(run, [record], {})

    def _fill(
        self, run: Execution, record: Record, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> None:
        fields = {} if self.kind == "plain" else self.fields
        if len(args) > len(fields):
            raise KernelError(
                "too_many_arguments", f"{self.name} takes {len(fields)} values, not {len(args)}"
            )
        given = dict(zip(fields, args, strict=False))
        for name, default in fields.items():
            if name in kwargs and name not in given:
                given[name] = kwargs.pop(name)
            elif name not in given:
                if default is REQUIRED:
                    raise KernelError("missing_argument", f"{self.name} needs {name!r}")
                given[name] = default.make(run) if isinstance(default, FieldDefault) else default
        if kwargs:
            raise KernelError(
                "unexpected_keyword", f"{self.name} has no field {next(iter(kwargs))!r}"
            )
        record.values.update({name: given[name] for name in fields})


class Record:
    """An instance of a class of the kernel's text."""

    __slots__ = ("cls", "values")

    def __init__(self, cls: Class, values: dict[str, Any]) -> None:
        self.cls = cls
        self.values = values

    def __eq__(self, other: object) -> bool:
        if self is not other and "__eq__" in self.cls.members:
            raise not_supported(f"comparing objects of {self.cls.name} that are items")
        if self.cls.kind not in ("dataclass", "tuple") or not isinstance(other, Record):
            return self is other
        return self.cls is other.cls and self.values == other.values

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, eq=False)
class Bound:
    """A method with the record from which it was taken."""

    function: Function
    owner: Any

    def call(self, run: Execution, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call it on its record."""
        return self.function.call(run, [self.owner, *args], kwargs)


def special_method(record: Any, name: str) -> Bound | None:
    """A method that Python calls for an operator or statement; None if the class lacks it."""
    found = record.cls.members.get(name) if isinstance(record, Record) else None
    return Bound(found, record) if isinstance(found, Function) else None


@dataclass(frozen=True, eq=False)
class Parent:
    """`super()`: an object, or a class, as its base classes see it."""

    cls: Class
    owner: Any

    def attribute(self, run: Execution, name: str) -> Any:
        """The member of the next class that has it."""
        if name == "__init__":
            return Builtin(name, self._initialise, masked=False)
        for base in self._next():
            found = base.own.get(name)
            if isinstance(found, Function):
                return Bound(found, self.owner)
            if isinstance(found, Method) and found.mark == "property":
                return found.function.call(run, [self.owner], {})
            if found is not None:
                return attribute_of_class(base, name)
        raise not_supported(f"attribute {name!r} of the base classes of {self.cls.name}")

    def _initialise(self, run: Execution, *args: Any, **kwargs: Any) -> None:
        following = self._next()
        with_own = [base for base in following if "__init__" in base.own or base.kind != "plain"]
        for base in (with_own or following)[:1]:
            base.initialise(run, self.owner, args, kwargs)

    def _next(self) -> list[Class]:
        """The classes that Python searches after this one for members of the owner."""
        cls = self.owner.cls if isinstance(self.owner, Record) else self.owner
        if not isinstance(cls, Class) or not cls.inherits(self.cls):
            raise KernelError(
                "unsupported_operand", f"super() is used on another object than a {self.cls.name}"
            )
        return cls.order[cls.order.index(self.cls) + 1 :]


def attribute_of_record(run: Execution, record: Record, name: str) -> Any:
    """A field, the value of a property, or a method."""
    if name in record.values:
        return record.values[name]
    found = record.cls.members.get(name, REQUIRED)
    if isinstance(found, Method):
        if found.mark == "property":
            return found.function.call(run, [record], {})
        return _of_class(found, record.cls)
    if isinstance(found, Function):
        return Bound(found, record)
    if found is REQUIRED:
        if name == "_replace" and record.cls.kind == "tuple":
            return Builtin(name, lambda run, **changes: replaced(record, changes))
        raise not_supported(f"attribute {name!r} of a {record.cls.name}")
    return found


def _of_class(method: Method, cls: Class) -> Function | Bound:
    return Bound(method.function, cls) if method.mark == "classmethod" else method.function


def attribute_of_class(cls: Class, name: str) -> Any:
    """A constant, a member of an enum or a function."""
    found = cls.members.get(name, REQUIRED)
    if isinstance(found, Method):
        return _of_class(found, cls)
    if found is REQUIRED:
        raise not_supported(f"attribute {name!r} of the class {cls.name}")
    return found


def replaced(record: Any, changes: Mapping[str, Any]) -> Record:
    """A copy of a record with other values of some fields."""
    if not isinstance(record, Record) or not set(changes) <= set(record.values):
        raise KernelError("unsupported_operand", "replace takes a record and some of its fields")
    return Record(record.cls, {**record.values, **changes})


def set_attribute(record: Any, name: str, value: Any, line: int) -> None:
    """`record.name = value`."""
    if not isinstance(record, Record) or record.cls.kind == "enum":
        raise not_supported(f"assigning to the attribute {name!r}", line)
    record.values[name] = value


def items_of(value: Class | Record) -> list[Any]:
    """The members of an enum, or the items of a named tuple."""
    if isinstance(value, Record) and value.cls.kind == "tuple":
        return list(value.values.values())
    if isinstance(value, Class) and value.kind == "enum":
        return [member for member in value.members.values() if isinstance(member, Record)]
    cls = value if isinstance(value, Class) else value.cls
    if "__getitem__" in cls.members:
        raise not_supported(f"a loop over the items of {cls.name}, which has no '__iter__',")
    raise KernelError("unsupported_operand", f"a {cls.name} has no items")


def marked(mark: str) -> Builtin:
    """`property`, `staticmethod` or `classmethod`."""

    def mark_it(run: Execution, function: Any) -> Method:
        if not isinstance(function, Function):
            raise KernelError("unsupported_operand", f"{mark} takes a function")
        return Method(function, mark)

    return Builtin(mark, mark_it)

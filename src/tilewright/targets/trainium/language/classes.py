"""Classes in a kernel's text, which are records of its configuration: fields, methods and
constants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

from tilewright.targets.trainium.errors import KernelError, not_supported
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language.frames import Function
from tilewright.targets.trainium.language.values import Builtin, Decorator

ClassKind = Literal["plain", "dataclass", "tuple", "enum", "numbers", "error"]
"""`IntEnum` is of the kind "numbers"."""
REQUIRED = object()
"""The default of a field that has none."""


@dataclass(frozen=True)
class FieldDefault:
    """`dataclasses.field(...)`: `make` gives the default of a new record."""

    make: Callable[[Execution], Any]


@dataclass(frozen=True)
class Method:
    """A function of a class with a decorator: "property", "cached_property", "staticmethod" or
    "classmethod"."""

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
        self.frozen = self.ordered = False
        """Whether it is a dataclass with these options."""
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
        if self.is_enum:
            self._make_members(members)

    @property
    def is_enum(self) -> bool:
        """Whether its members are constants."""
        return self.kind in ("enum", "numbers")

    def _ordered(self, bases: Sequence[Class]) -> list[Class]:
        try:
            self._type: type = type("", tuple(base._type for base in bases), {"of": self})
        except TypeError:
            raise KernelError(
                "unsupported_operand", f"the base classes of {self.name} have no common order"
            ) from None
        return [step.__dict__["of"] for step in self._type.__mro__[:-1]]

    def _make_members(self, names: Mapping[str, Any]) -> None:
        last: Any = 0
        for name, value in list(names.items()):
            if isinstance(value, (Function, Method)):
                continue
            last = last + 1 if isinstance(value, Decorator) else value  # enum.auto()
            values = {"name": name, "value": last}
            if self.kind == "numbers" and not isinstance(last, int):
                raise KernelError("unsupported_operand", f"{self.name}.{name} is not an integer")
            same = [m for m in items_of(self) if m.values["value"] == last]
            new = NumberMember(self, values) if self.kind == "numbers" else Record(self, values)
            self.own[name] = self.members[name] = same[0] if same else new

    def set_member(self, name: str, value: Any) -> None:
        """`Class.name = value`, which derived classes without a member of this name see."""
        self.own[name] = value
        for cls in [self, *self._derived()]:
            holder = next(step for step in cls.order if name in step.own)
            cls.members[name] = holder.own[name]

    def _derived(self) -> list[Class]:
        kinds: list[type] = self._type.__subclasses__()
        found: list[Class] = [kind.__dict__["of"] for kind in kinds]
        return found + [further for cls in found for further in cls._derived()]

    def becomes_dataclass(self, *, frozen: bool, ordered: bool) -> None:
        """Give it the `__init__` of a dataclass in place of an inherited one."""
        self.kind = "dataclass"
        self.frozen, self.ordered = frozen, ordered
        if "__init__" not in self.own:
            self.own["__init__"] = self.members["__init__"] = None

    def inherits(self, other: Class) -> bool:
        """Whether it is `other` or has it among its base classes."""
        return other in self.order

    def call(self, run: Execution, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """A new record; for an enum, the member with this value."""
        if self.is_enum:
            for member in items_of(self):
                if args and (member.values["value"] == args[0] or member is args[0]):
                    return member
            raise KernelError("unsupported_operand", f"{self.name} has no such member")
        for name, member in self.members.items():
            function = member.function if isinstance(member, Method) else member
            if isinstance(function, Function) and function.is_abstract:
                raise KernelError("unsupported_operand", f"{self.name} lacks {name!r}")
        record = Record(self, {"args": tuple(args)} if self.kind == "error" else {})
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
        if self.kind == "error":
            record.values["args"] = tuple(args)
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
                    raise KernelError(
                        "missing_argument", f"{self.name}() is missing the argument {name!r}"
                    )
                given[name] = default.make(run) if isinstance(default, FieldDefault) else default
        if kwargs:
            raise KernelError(
                "unexpected_keyword", f"{self.name} has no field {next(iter(kwargs))!r}"
            )
        record.values.update({name: given[name] for name in fields})


class NumberMember(int):
    """A member of an `IntEnum`."""

    cls: Class
    values: dict[str, Any]

    def __new__(cls, kind: Class, values: dict[str, Any]) -> NumberMember:
        """The number with its name."""
        member = super().__new__(cls, values["value"])
        member.cls, member.values = kind, values
        return member


class Record:
    """An instance of a class of the kernel's text."""

    __slots__ = ("cls", "values")

    def __init__(self, cls: Class, values: dict[str, Any]) -> None:
        self.cls = cls
        self.values = values

    def __eq__(self, other: object) -> bool:
        own = special_method(self, "__eq__")
        if own is not None and self is not other:
            return bool(own.call(own.function.run, [other], {}))
        if self.cls.kind not in ("dataclass", "tuple") or not isinstance(other, Record):
            return self is other
        return self.cls is other.cls and self.values == other.values

    def __hash__(self) -> int:
        own = special_method(self, "__hash__")
        if own is not None:
            found = own.call(own.function.run, [], {})
            return hash(found) if isinstance(found, int) else 0
        if self.cls.kind in ("dataclass", "tuple"):
            return hash(tuple(self.values.values()))
        return id(self)

    @property
    def has_hash(self) -> bool:
        """Whether it may be a key of a dict."""
        members, kind = self.cls.members, self.cls.kind
        if "__hash__" in members:
            return True
        return "__eq__" not in members and (kind != "dataclass" or self.cls.frozen)


def has_class(value: object) -> TypeGuard[Record | NumberMember]:
    """Whether a value is an object of one of the kernel's classes."""
    return isinstance(value, (Record, NumberMember))


@dataclass(frozen=True, eq=False)
class Bound:
    """A method with the record from which it was taken."""

    function: Any
    """A `Function` or another value that wraps one."""
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
                "unsupported_operand", f"super() is used on an object that is not a {self.cls.name}"
            )
        return cls.order[cls.order.index(self.cls) + 1 :]


def attribute_of_record(run: Execution, record: Record | NumberMember, name: str) -> Any:
    """A field, the value of a property, or a method."""
    if name in record.values:
        return record.values[name]
    found = record.cls.members.get(name, REQUIRED)
    if isinstance(found, Method):
        if found.mark == "property":
            return found.function.call(run, [record], {})
        if found.mark == "cached_property":
            return record.values.setdefault(name, found.function.call(run, [record], {}))
        return _of_class(found, record.cls)
    if isinstance(found, (Function, Wrapped)):
        return Bound(found, record)
    if found is REQUIRED:
        return _missing_attribute(run, record, name)
    return found


def _missing_attribute(run: Execution, record: Record | NumberMember, name: str) -> Any:
    if record.cls.kind == "tuple":
        if name == "_replace":
            return Builtin(name, lambda run, **changes: replaced(record, changes))
        if name == "_asdict":
            return Builtin(name, lambda run: dict(record.values))
        if name == "_fields":
            return tuple(record.values)
    own = special_method(record, "__getattr__")
    if own is not None and not name.startswith("__"):
        return own.call(run, [name], {})
    raise not_supported(f"attribute {name!r} of a {record.cls.name}")


def _of_class(method: Method, cls: Class) -> Function | Bound:
    return Bound(method.function, cls) if method.mark == "classmethod" else method.function


def attribute_of_class(cls: Class, name: str) -> Any:
    """A constant, a member of an enum or a function."""
    found = cls.members.get(name, REQUIRED)
    if isinstance(found, Method):
        return _of_class(found, cls)
    if name == "__init__" and not isinstance(found, Function):
        return Builtin(name, lambda run, record, *args, **kwargs: cls.initialise(
            run, record, args, kwargs), masked=False)  # fmt: skip
    if found is REQUIRED:
        raise not_supported(f"attribute {name!r} of the class {cls.name}")
    return found


def replaced(record: Any, changes: Mapping[str, Any]) -> Record:
    """A copy of a record with other values of some fields."""
    if not isinstance(record, Record) or not set(changes) <= set(record.values):
        raise KernelError(
            "unsupported_operand",
            "replace takes a dataclass object or a named tuple, and some of its fields",
        )
    return Record(record.cls, {**record.values, **changes})


def set_attribute(record: Any, name: str, value: Any, line: int) -> None:
    """`record.name = value`."""
    if isinstance(record, Class) and not record.is_enum and record.kind != "error":
        record.set_member(name, value)
        return
    if not isinstance(record, Record) or record.cls.is_enum:
        raise not_supported(f"assigning to the attribute {name!r}", line)
    if record.cls.frozen or record.cls.kind == "tuple":
        raise KernelError(
            "unsupported_assignment", f"the fields of a {record.cls.name} cannot be changed", line
        )
    record.values[name] = value


def items_of(value: Class | Record) -> list[Any]:
    """The members of an enum, or the items of a named tuple."""
    if isinstance(value, Record) and value.cls.kind == "tuple":
        return list(value.values.values())
    if isinstance(value, Class) and value.is_enum:
        return list(dict.fromkeys(m for m in value.members.values() if has_class(m)))
    cls = value if isinstance(value, Class) else value.cls
    if "__getitem__" in cls.members:
        raise not_supported(f"a loop over the items of {cls.name}, which has no '__iter__',")
    raise KernelError("unsupported_operand", f"a {cls.name} has no items")


class Wrapped(Builtin):
    """A function of the kernel with something around its calls, which is also a method."""


def abstract(run: Execution, function: Any) -> Any:
    """`abc.abstractmethod`: classes without another function of this name have no objects."""
    if isinstance(function, Function):
        function.is_abstract = True
    return function


def marked(mark: str) -> Builtin:
    """`property`, `cached_property`, `staticmethod` or `classmethod`."""

    def mark_it(run: Execution, function: Any) -> Method:
        if not isinstance(function, Function):
            raise KernelError("unsupported_operand", f"{mark} takes a function")
        return Method(function, mark)

    return Builtin(mark, mark_it)

"""Limits what `distributed` reads from connections to data and to the few kinds of objects that
processes of tilewright send.

`distributed` encodes parts of its messages with Python's pickle, and a pickle can call any function
of the process that reads it. Each process of a cluster therefore reads pickles with `PlainReader`,
which accepts only the names that the role of the process requires, and calls only those of them
that create records.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar

Name = tuple[str, str]
"""A module, and a name in it."""


_ALWAYS: Mapping[Name, bool] = {("builtins", "bytes"): False}


class Role(Enum):
    """What a process is in a cluster."""

    SCHEDULER = "scheduler"
    WORKER = "worker"
    SEARCH = "search"


READ: Mapping[Role, Mapping[Name, bool]] = {
    # the messages of a search
    Role.SCHEDULER: {
        **_ALWAYS,
        ("dask._expr", "Expr._reconstruct"): True,
        ("distributed.client", "_MapExpr"): False,
        ("tilewright.cluster.remote", "evaluate"): False,
    },
    # one of these messages
    Role.WORKER: {
        **_ALWAYS,
        ("dask._task_spec", "Task"): True,
        ("tilewright.cluster.remote", "evaluate"): False,
    },
    # the report of a scheduler that the workers of a message have ended
    Role.SEARCH: {
        **_ALWAYS,
        ("builtins", "int"): False,
        ("collections", "defaultdict"): True,
        ("collections", "deque"): True,
        ("distributed.core", "Status"): True,
        ("distributed.scheduler", "KilledWorker"): True,
        ("distributed.scheduler", "WorkerState"): True,
    },
}
"""The names that a process with each role reads, by whether a message may call them."""
OTHER_STEPS = (pickle.INST, pickle.OBJ, pickle.EXT1, pickle.EXT2, pickle.EXT4)
"""Steps of old pickles that call functions or find objects in ways which are not limited below."""


class RefusedMessageError(TypeError):
    """A message that contains an object which this process does not read.

    A `TypeError`, because `distributed` handles such errors where it reads parts of a message.
    """


_READER: Any = pickle._Unpickler


class PlainReader(_READER):  # type: ignore[misc]
    """Reads a pickle that contains data and objects with these names.

    It is the reader of the standard library that is written in Python, because only its steps can
    be limited. A message contains about 30 steps.
    """

    dispatch: ClassVar[dict[int, Callable[..., None]]] = {
        code: step for code, step in _READER.dispatch.items() if code not in map(ord, OTHER_STEPS)
    }

    def __init__(self, data: bytes, buffers: Iterable[Any], names: Mapping[Name, bool]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers, fix_imports=False)
        self._names = names
        self._called: list[object] = []

    def find_class(self, module: str, name: str) -> Any:
        """The object with this name; `RefusedMessageError` if it is not among the names."""
        if (module, name) not in self._names:
            raise RefusedMessageError(f"a message names {module}.{name}, which is refused.")
        found = super().find_class(module, name)
        if self._names[module, name]:
            self._called.append(found)
        return found

    def _require_called(self, found: object) -> None:
        if not any(found is called for called in self._called):
            raise RefusedMessageError("a message calls something that it may not call.")

    def load_reduce(self) -> None:
        """Call a function with arguments."""
        self._require_called(self.stack[-2])
        super().load_reduce()

    def load_newobj(self) -> None:
        """Create an object of a class."""
        self._require_called(self.stack[-2])
        super().load_newobj()

    def load_newobj_ex(self) -> None:
        """Create an object of a class with named arguments."""
        self._require_called(self.stack[-3])
        super().load_newobj_ex()

    def load_build(self) -> None:
        """Set the attributes of an object, which must not be a class or a function."""
        if isinstance(self.stack[-2], type | types.FunctionType):
            raise RefusedMessageError("a message changes a class or a function.")
        super().load_build()

    dispatch |= {
        ord(pickle.REDUCE): load_reduce,
        ord(pickle.NEWOBJ): load_newobj,
        ord(pickle.NEWOBJ_EX): load_newobj_ex,
        ord(pickle.BUILD): load_build,
    }


def reader(role: Role) -> Callable[..., Any]:
    """The counterpart of `pickle.loads` for a process with this role."""

    def loads(data: Any, *, buffers: Iterable[Any] = ()) -> Any:
        found = PlainReader(bytes(data), buffers, READ[role]).load()
        if isinstance(found, str):
            # dask sends the text of a traceback that cannot be read as an object, but fails if it
            # receives one
            raise RefusedMessageError("a message is a string.")
        return found

    return loads


def read_only_plain_messages(role: Role) -> None:
    """Read only what this role requires, in all of `distributed` in this process. The first role
    of a process stays.
    """
    import dask
    import distributed.client
    import distributed.protocol.pickle
    import distributed.scheduler

    readers = distributed.protocol.pickle, distributed.client, distributed.scheduler
    if readers[0].pickle is not pickle:
        return
    limited = types.ModuleType("pickle", "The standard library's, but with limited reading.")
    limited.__dict__.update(vars(pickle), loads=reader(role))
    for module in readers:
        module.pickle = limited
    # Otherwise, a message could name any object of a module of dask.
    dask.config.set({"distributed.scheduler.allowed-imports": []})

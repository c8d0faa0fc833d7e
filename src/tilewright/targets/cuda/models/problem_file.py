"""Reads a problem's file in KernelBench's form: the arguments of its `Model`, and a smaller
version."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.core.errors import WorkloadError
from tilewright.core.files import MAX_TEXT_BYTES, read_text
from tilewright.core.records import Argument, Workload
from tilewright.targets.cuda.models.answer_arguments import Form, InnerModule, UnsupportedArgument
from tilewright.targets.cuda.models.answer_values import TYPES
from tilewright.targets.cuda.models.oracle import process_of
from tilewright.targets.cuda.models.torch_problem import Given, TorchProblem
from tilewright.targets.cuda.shapes import MOST_BYTES

MOST_OPERATIONS, MOST_COMPARED = 1 << 24, 8 << 20
"""Maximum number of multiply-adds and bytes of one comparison on the CPU; a task has eight."""
_MOST_AXES, _MOST_ARRAYS = 8, 2000
_LARGEST_COUNT = 1 << 80
"""Maximum number of operations, more than all computers have executed."""


@dataclass(frozen=True)
class Described:
    """A problem with certain constants."""

    workload: Workload
    form: Form
    problem: TorchProblem
    graph: object = None
    """The operations of the model as the process that runs it recorded them."""


def read_problem(path: Path, target: str, name: str) -> tuple[Described, Described]:
    """The problem in a file with its own constants, and with those for the check on the CPU.

    `WorkloadError` says what is wrong with the file. `ToolchainMissingError` says how to install
    PyTorch.
    """
    try:
        text = read_text(path, MAX_TEXT_BYTES)
    except OSError as error:
        raise WorkloadError(f"{path} cannot be read: {error.strerror}.") from error
    found = _described(path, text)
    try:
        full = _made(path, text, {}, found["full"], f"{target}:{name}")
        constants = {str(n): int(value) for n, value in found["constants"].items()}
        reduced = _made(path, text, constants, found["reduced"], f"{target}:{name}")
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise WorkloadError(
            f"{path}: its Model is called with an unsupported argument ({error}); give only "
            "arrays of "
            f"{', '.join(TYPES)} and numbers."
        ) from None
    return full, reduced


@lru_cache(maxsize=4)
def _described(path: Path, text: str) -> Mapping[str, Any]:
    process = process_of(path, text)
    return process.ask("describe", most_operations=MOST_OPERATIONS, most_compared=MOST_COMPARED)[0]


def _made(
    path: Path, text: str, constants: Mapping[str, int], found: Mapping[str, Any], name: str
) -> Described:
    names = _Names(path)
    inputs = [names.argument(i, "input") or _plain(i) for i in found["inputs"]]
    state = {str(i["name"]): names.argument(i, "input") for i in found["state"]}
    outputs = tuple(
        names.argument({"name": f"out{i}" if i else "out", **o}, "output")
        for i, o in enumerate(found["outputs"])
    )
    arrays = tuple(i for i in inputs if isinstance(i, Argument))
    held = {name: a for name, a in state.items() if a is not None}
    written = tuple(a for a in outputs if a is not None)
    free = frozenset(
        a.name for a, i in zip(inputs, found["inputs"], strict=True)
        if isinstance(a, Argument) and i["free"] is True and a.dtype == "float32"
    )  # fmt: skip
    operations = max(1, int(found["operations"]))
    if operations > _LARGEST_COUNT:
        raise ValueError(f"{operations:.3g} operations")
    modules = {str(m["name"]): _module(m) for m in found.get("modules", ())}
    form = Form(tuple(inputs), written, tuple(_plain(i) for i in found["initial"]), held, modules)
    given = Given(arrays, free, tuple(held.values()), written)
    workload = Workload(
        name,
        name.partition(":")[0],
        form.arguments,
        operations,
        source=str(path),
    )
    problem = TorchProblem(path, text, constants, given)
    return Described(workload, form, problem, found.get("graph"))


class _Names:
    """Creates arguments from descriptions, each with its own name."""

    def __init__(self, path: Path) -> None:
        self._path, self._taken, self._bytes = path, set[str](), 0

    def argument(self, said: Mapping[str, Any], role: Any) -> Argument | None:
        """The argument, or None if it is not an array."""
        if "shape" not in said:
            return None
        shape, dtype = tuple(int(size) for size in said["shape"]), str(said["dtype"])
        if dtype not in TYPES:
            raise ValueError(f"{said.get('name')} is of type {dtype}")
        if len(shape) > _MOST_AXES or any(size < 1 for size in shape):
            raise ValueError(f"{said.get('name')} has the shape {list(shape)}")
        name = re.sub(r"\W", "_", str(said["name"]), flags=re.ASCII) or "x"
        while name in self._taken or len(self._taken) > _MOST_ARRAYS:
            if len(self._taken) > _MOST_ARRAYS:
                raise ValueError(f"more than {_MOST_ARRAYS} arrays")
            name += "_"
        self._taken.add(name)
        size = 8
        for extent in shape:
            size *= extent
        self._bytes += size
        if self._bytes > 2 * MOST_BYTES:
            raise WorkloadError(
                f"{self._path}: its arrays take more than {MOST_BYTES >> 30} GiB. Choose smaller "
                "shapes."
            )
        return Argument(name, shape, dtype, role)


def _module(said: Mapping[str, Any]) -> InnerModule:
    parameters = {str(p["name"]): _plain(p) for p in said["parameters"]}
    attributes = {str(a["name"]): _plain(a) for a in said["attributes"]}
    return InnerModule(str(said["kind"]), parameters, attributes)


def _plain(said: Mapping[str, Any]) -> object:
    if "value" in said:
        return said["value"]
    if "list" in said and isinstance(said["list"], Sequence):
        return tuple(said["list"])
    return UnsupportedArgument(f"of type {said.get('unknown')}")


def in_words(constants: Mapping[str, int]) -> str:
    """Constants as a message shows them."""
    return ", ".join(f"{name} = {value}" for name, value in constants.items())

"""What attacks on a task are made with: its comparisons, and kernels that must always fail."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.core.records import Argument
from tilewright.parts.cases import Case
from tilewright.parts.float_error import Bounded
from tilewright.parts.inputs import Array
from tilewright.parts.problem import Expected

_C_TYPES = {"float32": "float"}


class OpenCase:
    """The `CheckCase` role over one of a task's comparisons."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._arguments = {a.name: a for a in case.workload.arguments}

    @property
    def distribution(self) -> str:
        """Of the values of the inputs."""
        return self._case.check.distribution

    @property
    def given(self) -> Mapping[str, bytes]:
        """Every argument as the kernel finds it."""
        return {name: array.tobytes() for name, array in self._case.initial.items()}

    @property
    def expected(self) -> Mapping[str, bytes]:
        """The reference's outputs, in the arguments' types."""
        return self._as_bytes(self._case.expected)

    def reference(self, given: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """The reference's outputs for other inputs."""
        arrays = {name: self._array(name, data) for name, data in given.items()}
        return self._as_bytes(self._case.problem.reference(arrays))

    def mismatch(self, outputs: Mapping[str, bytes]) -> str | None:
        """The comparison every candidate has to pass."""
        return self._case.mismatch(outputs)

    def _array(self, name: str, data: bytes) -> Array:
        argument = self._arguments[name]
        return np.frombuffer(data, argument.dtype).reshape(argument.shape).copy()

    def _as_bytes(self, outputs: Mapping[str, Expected]) -> Mapping[str, bytes]:
        return {
            name: np.asarray(
                found.value if isinstance(found, Bounded) else found, self._arguments[name].dtype
            ).tobytes()
            for name, found in outputs.items()
        }


def hostile_kernels(arguments: Sequence[Argument]) -> Mapping[str, str]:
    """C sources by what they do."""
    given = [a for a in arguments if a.is_given]
    written = [a for a in arguments if a.is_written]
    sources = {
        "returns at once": "",
        "writes zeros": "".join(_fill(a, "0") for a in written),
    }
    if given:
        first = given[0]
        copied = f"{first.name}[i % {_count(first)}]"
        sources[f"copies {first.name}"] = "".join(_fill(a, copied) for a in written)
    read_only = [a for a in arguments if a.role == "input"]
    if read_only:
        first = read_only[0]
        target = f"(({_c_type(first)} *){first.name})"
        sources[f"changes {first.name}"] = f"  {target}[0] = {target}[0] + 1;\n"
    parameters = ", ".join(
        f"{'const ' * (a.role == 'input')}{_c_type(a)} *{a.name}" for a in arguments
    )
    return {n: f"void kernel({parameters}) {{\n{body}}}\n" for n, body in sources.items()}


def _fill(argument: Argument, value: str) -> str:
    return f"  for (long i = 0; i < {_count(argument)}; i++) {argument.name}[i] = {value};\n"


def _count(argument: Argument) -> int:
    return math.prod(argument.shape)


def _c_type(argument: Argument) -> str:
    return _C_TYPES.get(argument.dtype, f"{argument.dtype}_t")

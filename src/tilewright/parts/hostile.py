"""The comparisons and the wrong kernels with which preflight tests a task."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tilewright.core.records import Argument
from tilewright.core.roles import Data
from tilewright.parts import inputs
from tilewright.parts.case import Case
from tilewright.parts.cases import MOST_KEPT, expected_bytes
from tilewright.parts.element_types import c_type
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.inputs import Array
from tilewright.parts.problem import Expected, FormulaProblem, LeavesInputs


class OpenCase:
    """A `CheckCase` for one of a task's comparisons."""

    def __init__(self, case: Case, before: Callable[[], object] = lambda: None) -> None:
        """`before` is called before outputs of the reference are computed; it may free those of
        other cases.
        """
        self._case, self._before = case, before
        self._arguments = {a.name: a for a in case.workload.arguments}

    @property
    def distribution(self) -> str:
        """The name of the distribution of the inputs."""
        return self._case.check.distribution

    @property
    def arguments(self) -> Sequence[Argument]:
        """The arguments of this comparison."""
        return self._case.workload.arguments

    @property
    def given(self) -> Mapping[str, Data]:
        """Every argument before the call, including poisoned outputs that kernels of the target do
        not receive. Each access of a name makes its array.
        """
        return _Given(self._case, self._arguments)

    @property
    def expected(self) -> Mapping[str, Data]:
        """The reference's outputs, in the arguments' types."""
        self._before()
        return self._as_bytes(self._case.expected)

    def reference(self, given: Mapping[str, Data]) -> Mapping[str, Data]:
        """The reference's outputs for the given inputs, which may differ from those of the case.

        If the expected outputs of the case take gigabytes, they are freed first and computed again
        when they are needed, so that two such results never exist at the same time.
        """
        self._before()
        if expected_bytes(self._case.workload) > MOST_KEPT:
            self._case.forget_expected()
        arrays = {name: self._array(name, data) for name, data in given.items()}
        problem = self._case.problem
        if isinstance(problem, FormulaProblem):
            return self._as_bytes(problem.values(arrays))
        return self._as_bytes(problem.reference(arrays))

    def mismatch(self, outputs: Mapping[str, Data]) -> str | None:
        """The comparison that every candidate has to pass."""
        self._before()
        return self._case.mismatch(outputs)

    @property
    def careless(self) -> Mapping[str, float]:
        """For each shortcut that loses digits, its error divided by the allowed error."""
        return self._case.careless

    def _array(self, name: str, data: Data) -> Array:
        argument = self._arguments[name]
        array = np.frombuffer(data, argument.dtype).reshape(argument.shape)
        kept = array.flags.writeable or isinstance(self._case.problem, LeavesInputs)
        return array if kept else array.copy()

    def _as_bytes(self, outputs: Mapping[str, Expected]) -> Mapping[str, Data]:
        return {
            name: data_of(
                np.asarray(
                    found.exact if isinstance(found, TrackedArray) else found,
                    self._arguments[name].dtype,
                )
            )
            for name, found in outputs.items()
        }


def data_of(array: Array) -> memoryview:
    """The bytes of an array in row-major order. An array that already has this order is not
    copied.
    """
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data.toreadonly()


class _Given(Mapping[str, Data]):
    """Every argument of a case before the call. Arguments that the case does not contain are
    poisoned.
    """

    def __init__(self, case: Case, arguments: Mapping[str, Argument]) -> None:
        self._case, self._arguments = case, arguments

    def __getitem__(self, name: str) -> memoryview:
        known = self._case.initial
        if name in known:
            return data_of(known[name])
        number = [*self._arguments].index(name)
        rng = np.random.default_rng([self._case.check.seed, number])
        return data_of(inputs.poison(self._arguments[name], rng))

    def __iter__(self) -> Iterator[str]:
        return iter(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments)


def under_own_names(arguments: Sequence[Argument]) -> list[Argument]:
    """The arguments with the names that wrong kernels use, so that they do not conflict with names
    of the user.
    """
    return [replace(a, name=f"operand_{i}") for i, a in enumerate(arguments)]


def hostile_c_kernels(arguments: Sequence[Argument]) -> Mapping[str, str]:
    """The C sources of wrong kernels, by a description."""
    names = [a.name for a in arguments]
    arguments = under_own_names(arguments)
    given = [a for a in arguments if a.is_given]
    written = [a for a in arguments if a.is_written]
    sources = {
        "returns at once": "",
        "writes zeros": "".join(_fill(a, "0") for a in written),
    }
    if given:
        first = given[0]
        copied = f"{first.name}[i % {_count(first)}]"
        name = names[arguments.index(first)]
        sources[f"copies {name}"] = "".join(_fill(a, copied) for a in written)
    read_only = [a for a in arguments if a.role == "input"]
    if read_only:
        first = read_only[0]
        target = f"(({c_type(first.dtype)} *){first.name})"
        name = names[arguments.index(first)]
        sources[f"changes {name}"] = f"  {target}[0] = {target}[0] + 1;\n"
    return {n: f"{_head(arguments)} {{\n{body}}}\n" for n, body in sources.items()}


def works_at_first(start: str, arguments: Sequence[Argument], calls: int) -> str:
    """A C source that behaves like `start` for a number of calls of its process, and then returns
    immediately.
    """
    arguments = under_own_names(arguments)
    passed = ", ".join(f"(void *){a.name}" for a in arguments)
    return (
        f"#define kernel tilewright_honest\n{start}\n#undef kernel\nstatic int tilewright_calls;\n"
        f"{_head(arguments)} {{\n"
        f"  if (tilewright_calls++ < {calls}) tilewright_honest({passed});\n}}\n"
    )


def _head(arguments: Sequence[Argument]) -> str:
    parameters = (f"{'const ' * (a.role == 'input')}{c_type(a.dtype)} *{a.name}" for a in arguments)
    return f"void kernel({', '.join(parameters)})"


def _fill(argument: Argument, value: str) -> str:
    return f"  for (long i = 0; i < {_count(argument)}; i++) {argument.name}[i] = {value};\n"


def _count(argument: Argument) -> int:
    return math.prod(argument.shape)

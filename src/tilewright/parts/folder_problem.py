"""The reference of a kernel folder as a problem: inputs, expected outputs, and the error of honest
arithmetic.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Argument, Workload
from tilewright.parts.arithmetic import Format
from tilewright.parts.differences import exact_values
from tilewright.parts.error_tracking import TrackedArray, stored
from tilewright.parts.inputs import DECLARED, Array, distributions, draw
from tilewright.parts.problem import Expected, FormulaProblem
from tilewright.parts.user_code import import_file, users_code
from tilewright.parts.workload_file import Inputs


class FolderProblem:
    """The reference of a folder, whose `reference.py` is imported on first use in the evaluating
    process.

    `reference(**inputs)` receives the inputs by name as numpy arrays and returns the output, or
    a tuple of outputs in the order of `workload.toml`.
    """

    to_choose = "describe in workload.toml"

    def __init__(
        self,
        folder: Path,
        workload: Workload,
        reduction: int,
        fingerprint: str,
        values: Mapping[str, Inputs],
        constants: Mapping[str, Any] | None = None,
    ) -> None:
        self.reduction = reduction
        self.fingerprint = fingerprint
        self.distributions = DECLARED if values else distributions(workload.arguments)
        self._path = folder / "reference.py"
        self._inputs = [a for a in workload.arguments if a.is_given]
        self._outputs = [a for a in workload.arguments if a.is_written]
        self._leading = next((a for a in workload.arguments if a.is_given), None)
        self._values = values
        self._sound: set[str] = set()
        self._was_repeated = False
        self.constants = constants or {}
        """The arguments of kernels that are not arrays. `reference` receives those for which it has
        a parameter.
        """

    @cached_property
    def _module(self) -> ModuleType:
        return _import_reference(self._path)

    @property
    def independent(self) -> frozenset[str]:
        """The inputs whose values `workload.toml` does not describe, so that any numbers are
        allowed.
        """
        return frozenset(a.name for a in self._inputs) - self._values.keys()

    @property
    def generated(self) -> frozenset[str]:
        """The inputs that a function of the user returns as a whole."""
        return frozenset(n for n, v in self._values.items() if v.generator is not None)

    def draw(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        """Values of one input, as `workload.toml` describes them."""
        described = self._values.get(argument.name)
        if described is None:
            usual = "small" if distribution == DECLARED[0] else distribution
            leading = argument == self._leading
            return draw(argument, usual, self.reduction, rng, leading=leading)
        if described.generator is not None:
            return self._generated(argument, described.generator, rng)
        # In rows of one value each, all of a row is drawn once.
        one = distribution == DECLARED[1]
        shape = (*argument.shape[:-1], 1) if one else argument.shape
        if described.normal is not None:
            values = rng.normal(*described.normal, shape)
        elif distribution == DECLARED[2]:
            values = rng.choice(_ends(*(described.range or (0.0, 1.0))), shape)
        else:
            low, high = described.range or (0.0, 1.0)
            values = rng.uniform(low, high, shape)
        if np.dtype(argument.dtype).kind in "iu":
            bounds = np.iinfo(argument.dtype)
            values = np.clip(np.rint(values), bounds.min, bounds.max)
        return np.broadcast_to(values, argument.shape).astype(argument.dtype)

    def _generated(self, argument: Argument, name: str, rng: np.random.Generator) -> Array:
        function = getattr(self._module, name, None)
        if not callable(function):
            raise WorkloadError(
                f"{self._path} defines no function {name}(rng, shape), which workload.toml names "
                f"for the values of {argument.name}."
            )
        remedy = f"it must return the values of {argument.name}"
        with users_code(f"{self._path}: {name}(rng, {argument.shape})", remedy):
            again = deepcopy(rng)
            array = np.asarray(function(rng, argument.shape))
            if name not in self._sound and not _equal(array, function(again, argument.shape)):
                raise ValueError("different values for the same rng")
            self._sound.add(name)
            if array.dtype.kind in "iuf":
                array = array.astype(argument.dtype)
        return self._fitting(argument, array, name)

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Expected]:
        """The expected outputs; `WorkloadError` if the user's function fails or returns arrays of
        the wrong shape or type.
        """
        values = self._called(inputs, np.asarray)
        return {
            a.name: self._fitting(a, value, "reference")
            for a, value in zip(self._outputs, values, strict=True)
        }

    def _called(
        self,
        inputs: Mapping[str, Any],
        converted: Callable[[Any], Any],
        remedy: str = "it must compute the outputs from the inputs",
        what: str = "{call}",
    ) -> tuple[Any, ...]:
        function = self._module.reference
        inputs = {**inputs, **_taken(function, self.constants)}
        call = f"reference({', '.join(inputs)})"
        if (parameters := _unfit_parameters(function, inputs)) is not None:
            raise WorkloadError(
                f"{self._path}: reference has the parameters ({parameters}). Name them like the "
                f"inputs in workload.toml: {', '.join(inputs)}."
            )
        with users_code(f"{self._path}: {what.format(call=call)}", remedy):
            returned = function(**inputs)
            values = returned if isinstance(returned, tuple) else (returned,)
            values = tuple(converted(value) for value in values)
        if returned is None:
            raise WorkloadError(
                f"{self._path}: reference returned nothing. End it with `return` and the outputs "
                f"({', '.join(a.name for a in self._outputs)})."
            )
        if isinstance(returned, tuple) and len(returned) == len(self._outputs) == 1:
            raise WorkloadError(
                f"{self._path}: reference returned a tuple with one array. Return the array "
                f"itself, because there is only one output ({self._outputs[0].name})."
            )
        if len(values) != len(self._outputs):
            raise WorkloadError(
                f"{self._path}: reference returned {len(values)} arrays, expected "
                f"{len(self._outputs)}: {', '.join(a.name for a in self._outputs)}."
            )
        return values

    def _fitting(self, argument: Argument, array: Array, function: str) -> Array:
        if array.shape != argument.shape or array.dtype != np.dtype(argument.dtype):
            raise self._misfit(argument, array, function)
        return array

    def _misfit(self, argument: Argument, array: Array, function: str) -> WorkloadError:
        if array.dtype == object and not array.shape:
            return WorkloadError(
                f"{self._path}: {function} returned an object of type "
                f"{type(array.item()).__name__} for {argument.name}, expected an array of "
                f"{argument.dtype}{list(argument.shape)}. Return a numpy array."
            )
        return WorkloadError(
            f"{self._path}: {function} returned {array.dtype}{list(array.shape)} for "
            f"{argument.name}, expected {argument.dtype}{list(argument.shape)}. "
            + (
                "Correct the shape here or in workload.toml."
                if array.shape != argument.shape
                else f'Convert the result (`.astype("{argument.dtype}")`), or correct the type in '
                "workload.toml."
            )
        )

    def check_repeated(self, inputs: Mapping[str, Array], before: Mapping[str, Expected]) -> None:
        """Call the reference again; `WorkloadError` if it does not return what it did `before`.

        The reference is called again only once in each process.
        """
        if self._was_repeated:
            return
        self._was_repeated = True
        for name, found in self.reference(inputs).items():
            if not _alike(exact_values(found), exact_values(before[name])):
                raise WorkloadError(
                    f"{self._path}: reference returned different results for {name} in two calls "
                    "with the same inputs. Make it deterministic: it may use neither random "
                    "numbers nor values that an earlier call left."
                )


def _alike(one: Array, other: Array) -> bool:
    """Whether arrays are equal except for rounding.

    A library may add products in another order in every call.
    """
    finite = np.abs(one[np.isfinite(one)])
    least = 1e-9 * float(finite.max(initial=0.0))
    return bool(np.allclose(one, other, rtol=1e-6, atol=least, equal_nan=True))


def _equal(one: Array, other: Any) -> bool:
    """Whether all bits of two arrays are equal."""
    return one.tobytes() == np.asarray(other).tobytes()


class FloatFolderProblem(FolderProblem, FormulaProblem):
    """The reference of a folder with floating-point outputs, whose formula is followed to find the
    error of honest arithmetic.

    Outputs of types that are narrower than float32 are computed in float32 and rounded once.

    If the folder has no tolerance, this error determines which results are correct, and a reference
    that cannot be followed is refused. If the folder has a tolerance, the error only determines the
    precision class.
    """

    required: bool
    """Whether the folder has no tolerance, so that the reference must be followed."""
    _called_with_numbers = False

    def formula(self, operands: Mapping[str, Any]) -> Mapping[str, Any]:
        """The user's reference, called with `TrackedArray` arrays.

        `WorkloadError` says whether the reference itself fails, or only cannot be followed.
        """
        self._check_with_numbers(operands)
        remedy = (
            "use the numpy operations on whole arrays that docs/tolerance.md lists and copy no "
            "elements into other arrays, or give a [tolerance] in workload.toml"
        )
        what = (
            "to find the allowed error, tilewright calls {call} with arrays that record its "
            "operations, which"
        )
        values = self._called(operands, lambda value: value, remedy, what)
        for argument, value in zip(self._outputs, values, strict=True):
            if not isinstance(value, TrackedArray) or value.shape != argument.shape:
                raise WorkloadError(
                    f"{self._path}: reference returns values for {argument.name} that it does not "
                    "compute from its inputs by numpy operations on whole arrays, so tilewright "
                    f"cannot find the allowed error; {remedy}."
                )
        return {
            a.name: value if a.dtype == self.numbers.name else stored(value, a.dtype)
            for a, value in zip(self._outputs, values, strict=True)
        }

    def _check_with_numbers(self, operands: Mapping[str, Any]) -> None:
        """Call the reference once as the user would; `WorkloadError` if it fails even then."""
        if self._called_with_numbers:
            return
        numbers = {
            a.name: np.array(getattr(operands[a.name], "exact", operands[a.name]), a.dtype)
            for a in self._inputs
        }
        for argument, array in zip(self._outputs, self._called(numbers, np.asarray), strict=True):
            self._fitting(argument, array, "reference")
        self._called_with_numbers = True

    def reference(self, inputs: Mapping[str, Array]) -> Mapping[str, Any]:
        """All outputs, exact and with their deviations."""
        return FormulaProblem.reference(self, inputs)

    def followed(self, inputs: Mapping[str, Array], numbers: Format) -> Mapping[str, Any]:
        """All outputs; those of an ordinary call if the reference cannot be followed and need
        not.
        """
        try:
            return FormulaProblem.followed(self, inputs, numbers)
        except WorkloadError:
            if self.required:
                raise
            return FolderProblem.reference(self, inputs)


def _ends(low: float, high: float) -> Array:
    """The ends of a range, and zero if the range contains it: kernels treat zero apart, and random
    numbers almost never are.
    """
    return np.array([low, 0.0, high] if low < 0 < high else [low, high], np.float64)


def _taken(function: Callable[..., Any], constants: Mapping[str, Any]) -> dict[str, Any]:
    """The constants for which the user's reference has a parameter."""
    parameters = inspect.signature(function).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    return {n: v for n, v in constants.items() if takes_all or n in parameters}


def _unfit_parameters(function: Callable[..., Any], inputs: Mapping[str, Any]) -> str | None:
    """The parameters of the user's reference if it cannot be called with the inputs by name."""
    signature = inspect.signature(function)
    try:
        signature.bind(**inputs)
    except TypeError:
        return ", ".join(signature.parameters)[:200]
    return None


def _import_reference(path: Path) -> ModuleType:
    module = import_file(path)
    if not callable(getattr(module, "reference", None)):
        raise WorkloadError(
            f"{path} defines no function reference(...). Add one that takes the inputs by name "
            "and returns the output."
        )
    return module

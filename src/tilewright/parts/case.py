"""One private test case of a task: its inputs, and the comparison of outputs with the reference."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.core.records import PRECISIONS, Argument, Check, Tolerance, Workload
from tilewright.core.roles import Data
from tilewright.parts import inputs
from tilewright.parts.arithmetic import ALL, COARSER, Arithmetic, careless_ways, honest_ways
from tilewright.parts.case_arguments import CaseArguments
from tilewright.parts.differences import (
    MOST_EXTREMES,
    Differing,
    allowed_errors,
    beyond,
    difference,
    exact_values,
    sentence,
)
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import (
    FACTOR,
    Error,
    HonestError,
    HopelessError,
    blocks,
    deviations_by_block,
    error_between,
    follow,
    honest_errors,
)
from tilewright.parts.inputs import Array
from tilewright.parts.problem import (
    DrawsInputs,
    Expected,
    FollowsElements,
    FormulaProblem,
    GeneratesInputs,
    LeavesInputs,
    MeasuresErrors,
    Problem,
    RepeatsReference,
    in_orders,
)

ORDERS_OF_EXTREMES = 16
"""Number of orders of their terms in which honest results of such elements are computed."""


LEAST_OF_PART = 256
"""Minimum number of elements of a part of an output for a comparison of the root mean square
error.
"""


Only: TypeAlias = Mapping[str, NDArray[np.bool_]]
"""A mask of elements for each output."""


@dataclass(frozen=True, eq=False)
class Case:
    """One set of inputs. `initial` contains every argument before the call of the kernel.

    `seed` is the seed of its values and of other random choices. Results contain only `check`, from
    which the seed cannot be computed. `alike` is a case of the same distribution, whose honest
    errors are used for this case too.
    """

    seed: int
    check: Check
    workload: Workload
    initial: Mapping[str, Array]
    problem: Problem
    alike: Case | None = None
    lowest: str = ""
    """The class of precision that is accepted; empty for the precision of the outputs' type."""
    _errors: dict[str, tuple[Array, Error]] = field(default_factory=dict, init=False, repr=False)

    @property
    def is_automatic(self) -> bool:
        """Whether the task has no tolerance of its own, so that integers must be exact."""
        return self.workload.tolerance == Tolerance()

    @property
    def given(self) -> dict[str, Array]:
        """A copy of the values that a kernel reads."""
        return {a.name: self.initial[a.name].copy() for a in self.workload.arguments if a.is_given}

    @property
    def _leaves_inputs(self) -> bool:
        """Whether the reference never writes its inputs, which then need not be copied."""
        return isinstance(self.problem, LeavesInputs)

    @property
    def _read_only(self) -> dict[str, Array]:
        """The values that a kernel reads, without a copy."""
        found = {a.name: self.initial[a.name].view() for a in self.workload.arguments if a.is_given}
        for values in found.values():
            values.flags.writeable = False
        return found

    @cached_property
    def expected(self) -> Mapping[str, Expected]:
        """The outputs of the reference, which are computed on first use and kept."""
        found = self.problem.reference(self._read_only if self._leaves_inputs else self.given)
        shapes = {a.name: a.shape for a in self.workload.arguments}
        return {name: expected.reshape(shapes[name]) for name, expected in found.items()}

    @cached_property
    def honest(self) -> Mapping[str, HonestError]:
        """The error of honest arithmetic for each output; empty if the reference is not a formula.

        Raises `HopelessError` if honest arithmetic itself fails.
        """
        if self.alike is not None:
            return self.alike.honest
        problem = self.problem
        if isinstance(problem, MeasuresErrors):
            return problem.honest(self.given)
        if not isinstance(problem, FormulaProblem):
            return {}
        rng = np.random.default_rng(self.seed)
        drawn = [self.given]
        whole = False

        def draw() -> Mapping[str, Array]:
            nonlocal whole
            is_own = bool(drawn)
            operands = problem.operands(drawn.pop() if drawn else self._redrawn_values(rng))
            sample = problem.sample(operands, rng)
            whole = is_own and sample is operands
            return sample

        def formula(operands: Mapping[str, Any]) -> Mapping[str, Any]:
            found = problem.formula(operands)
            if whole:  # these are all outputs, so the reference need not be called once more
                self._keep(found)
            return found

        lower = bool(self.lowest)
        return honest_errors(formula, draw, problem.numbers, only_different=lower)

    def _keep(self, outputs: Mapping[str, TrackedArray]) -> None:
        """Keep outputs of the reference as the expected ones, unless these are known already."""
        if "expected" not in self.__dict__:
            shapes = {a.name: a.shape for a in self.workload.arguments}
            self.__dict__["expected"] = {
                name: found.followed_alone().reshape(shapes[name])
                for name, found in outputs.items()
            }

    @cached_property
    def careless(self) -> Mapping[str, float]:
        """For each shortcut (`careless_ways`), its error divided by the allowed error.

        The errors are computed on a sample of the outputs. Shortcuts that change no element of it
        are left out.
        """
        if isinstance(self.problem, MeasuresErrors):
            return {}
        if not any(isinstance(expected, TrackedArray) for expected in self.expected.values()):
            return {}
        problem = cast(FormulaProblem, self.problem)
        sample = problem.sample(
            problem.operands(self.given), np.random.default_rng(self.check.seed)
        )
        numbers = problem.numbers
        shortcuts = {n: w for n, w in careless_ways(numbers).items() if not self._permits(w)}
        ways = (Arithmetic("plain", format=numbers), *shortcuts.values())
        followed = follow(problem.formula, sample, ways, numbers)
        plain = {name: found.results[0] for name, found in followed.items()}
        return {
            wrong: max(self._excess(n, f.results[i], f) for n, f in followed.items())
            for i, wrong in enumerate(shortcuts, 1)
            if not all(np.array_equal(f.results[i], plain[n]) for n, f in followed.items())
        }

    def _permits(self, way: Arithmetic) -> bool:
        """Whether the accepted precision allows the shortcut."""
        digits = {coarse.name: coarse.digits for coarse in COARSER}.get(self.lowest, ALL)
        return digits <= min(way.input_digits, way.digits, way.function_digits) < ALL

    def forget_expected(self) -> None:
        """Free the outputs of the reference, which are computed again on the next access."""
        self.__dict__.pop("expected", None)

    def forget_inputs(self) -> None:
        """Free the arguments, which are drawn again on the next access, if that is possible."""
        if isinstance(self.initial, CaseArguments):
            self.initial.forget()

    def redrawn(self, rng: np.random.Generator, only: Container[str] | None = None) -> Case:
        """The case with new values of its distribution for every input.

        If `only` is given, only the inputs that it names get new values.
        """
        drawn = self._redrawn_values(rng, only)
        return replace(self, initial={**self.initial, **drawn}, alike=self.alike or self)

    def changed(
        self, count: int, only: Container[str] | None = None, turn: int | None = None
    ) -> Case:
        """The case with at most this many elements of every input drawn again, or of every input in
        `only`; each `turn` draws other ones.

        Inputs whose elements may depend on one another (`GeneratesInputs`) are kept. If there are
        no other inputs, the last of them is drawn again as a whole.
        """
        rng = np.random.default_rng((self.seed, count, *([] if turn is None else [turn])))
        generated = self.problem.generated if isinstance(self.problem, GeneratesInputs) else ()
        drawn = self._redrawn_values(rng, only)
        changed = {}
        for name, values in drawn.items():
            if name not in generated:
                places = rng.integers(values.size, size=count)
                changed[name] = self.initial[name].copy()
                changed[name].reshape(-1)[places] = values.reshape(-1)[places]
        changed = changed or dict(list(drawn.items())[-1:])
        return replace(self, initial={**self.initial, **changed}, alike=self.alike or self)

    def _redrawn_values(
        self, rng: np.random.Generator, only: Container[str] | None = None
    ) -> dict[str, Array]:
        given = [a for a in self.workload.arguments if a.is_given]
        wanted = [a for a in given if only is None or a.name in only]
        return {a.name: drawn(self.workload, self.problem, a, self.check, rng) for a in wanted}

    def mismatch(self, outputs: Mapping[str, Data], only: Only | None = None) -> str | None:
        """A sentence with the first difference from the reference, or None.

        If `only` is given, only the elements that it marks are compared.
        """
        for argument, got in self._written(outputs, only):
            expected = self.expected[argument.name]
            if isinstance(expected, TrackedArray) and self.is_automatic:
                error, honest = self._error(argument, got, expected), self.honest[argument.name]
                if only is not None:
                    error = _of_part(error, only[argument.name])
                allowed, kind = honest.permitted(self.lowest), self.lowest or honest.name
                text = self._beyond_honest(argument, got, expected, error, allowed, kind)
            else:
                text = difference(argument, got, expected, self.workload.tolerance)
            if text is not None:
                self._errors.clear()
                if isinstance(self.problem, RepeatsReference):
                    # Otherwise, the kernel would be blamed for the reference's random numbers.
                    self.problem.check_repeated(self.given, self.expected)
                # Not the seed: this text is shown to proposers.
                return f"{text} ({self.check.distribution} inputs)"
        return None

    def _beyond_honest(
        self,
        argument: Argument,
        got: Array,
        expected: TrackedArray,
        error: Error,
        allowed: Error,
        kind: str,
    ) -> str | None:
        """A sentence if the error is larger than that of honest arithmetic, or None."""
        if error.rms <= allowed.rms and error.largest <= allowed.largest:
            return None
        beyond = Differing.of(
            (first, off > allowed.largest) for first, off in deviations_by_block(got, expected)
        )
        if beyond.count:
            if error.rms <= allowed.rms and self._are_honest(argument, got, beyond):
                return None
            exact, deviation = beyond.first_of(expected)
            return sentence(argument, got, exact, beyond, allowed.largest * deviation)
        worst = max(off.max() for _, off in deviations_by_block(got, expected))
        beyond = Differing.of(
            (first, off == worst) for first, off in deviations_by_block(got, expected)
        )
        exact, deviation = beyond.first_of(expected)
        return (
            f"the error of {argument.name} is {FACTOR * error.rms / allowed.rms:.3g} times that of "
            f"{kind} arithmetic (root mean square; {FACTOR:g} times is allowed): "
            + sentence(argument, got, exact, beyond, allowed.rms * deviation)
        )

    def _are_honest(self, argument: Argument, got: Array, beyond: Differing) -> bool:
        """Whether the errors of these elements are within a few times the honest error of the same
        elements.

        The limit for all elements is computed from a sample. In every kernel, a few of tens of
        millions of sums lose more digits than any sum of the sample. Each of these sums is
        therefore compared with honest results of the same sum, whose terms are added in several
        random orders. In a few fixed orders, a sum may be exact by chance.
        """
        problem = self.problem
        if not isinstance(problem, FormulaProblem) or not isinstance(problem, FollowsElements):
            return False
        if beyond.count > MOST_EXTREMES:
            return False
        places = np.stack(np.unravel_index(beyond.places, got.shape), axis=-1)
        operands = problem.elements(problem.operands(self.given), argument.name, places)
        numbers = problem.numbers
        honest = np.zeros(len(places))
        for terms in in_orders(operands, ORDERS_OF_EXTREMES):
            followed = follow(problem.formula, terms, honest_ways(numbers), numbers)[argument.name]
            exact = followed.exact.reshape(-1)
            for result in followed.results:
                honest = np.maximum(honest, np.abs(result.reshape(-1).astype(exact.dtype) - exact))
        off = np.abs(got[tuple(places.T)].astype(exact.dtype) - exact)
        return bool((np.isfinite(honest) & (off <= FACTOR * honest)).all())

    def passed(self, outputs: Mapping[str, Data], only: Only | None = None) -> Check:
        """The record of a passed comparison, with the precision of the outputs.

        If `only` is given, only the elements that it marks are considered.
        """
        written = self._written(outputs, only)
        found = {self._precision(argument, got, only) for argument, got in written}
        self._errors.clear()
        known = [name for name in PRECISIONS if name in found]
        return replace(self.check, precision=known[-1] if known else "")

    def excess(self, outputs: Mapping[str, Data], only: Only | None = None) -> float:
        """The largest error divided by the allowed error. A value above 1 is a mismatch.

        If `only` is given, only the elements that it marks are compared.
        """
        return max(
            self._excess(a.name, got, self.expected[a.name], only)
            for a, got in self._written(outputs, only)
        )

    def _written(
        self, outputs: Mapping[str, Data], only: Only | None = None
    ) -> list[tuple[Argument, Array]]:
        """The arrays that a kernel wrote.

        Elements that `only` does not mark are replaced by the expected values.
        """
        arguments = [a for a in self.workload.arguments if a.is_written]
        arrays = {a.name: np.frombuffer(outputs[a.name], a.dtype) for a in arguments}
        found = [(a, arrays[a.name].reshape(a.shape)) for a in arguments]
        if only is None:
            return found
        return [
            (a, np.where(only[a.name], got, exact_values(self.expected[a.name]).astype(a.dtype)))
            for a, got in found
        ]

    def _precision(self, argument: Argument, got: Array, only: Only | None) -> str:
        expected = self.expected[argument.name]
        if not isinstance(expected, TrackedArray):
            return "exact" if self.is_automatic else ""
        if only is not None and not self.is_automatic:
            return ""  # honest errors of all outputs take too long, and nothing else needs them
        try:
            honest = self.honest[argument.name]
        except HopelessError:
            return ""
        error = self._error(argument, got, expected)
        if only is not None:
            error = _of_part(error, only[argument.name])
            if error.rms == 0:
                return ""
        found = honest.precision(error)
        return "exact" if found and _equal(got, expected.exact) else found

    def _error(self, argument: Argument, got: Array, expected: TrackedArray) -> Error:
        """The error of an output, which is computed once for each call of the kernel."""
        known = self._errors.get(argument.name)
        if known is None or not _equal(_bytes(got), _bytes(known[0])):
            known = self._errors[argument.name] = got, error_between(got, expected)
        return known[1]

    def _excess(self, name: str, got: Array, expected: Expected, only: Only | None = None) -> float:
        if isinstance(expected, TrackedArray) and self.is_automatic:
            error = error_between(got, expected)
            if only is not None:
                error = _of_part(error, only[name])
            return error.over(self.honest[name].permitted(self.lowest))
        values, allowed = allowed_errors(expected, self.workload.tolerance)
        if allowed is None:
            return 0.0 if np.array_equal(got, values) else np.inf
        with np.errstate(all="ignore"):
            ratio = np.abs(got.astype(np.float64) - values) / allowed
        wrong = beyond(got, values, allowed)
        return float(np.max(np.where(wrong, np.fmax(ratio, 1.0), np.nan_to_num(ratio))))


def drawn(
    workload: Workload,
    problem: Problem,
    argument: Argument,
    check: Check,
    rng: np.random.Generator,
) -> Array:
    """New values of an argument, from the distribution of a check."""
    if isinstance(problem, DrawsInputs):
        return problem.draw(argument, check.distribution, rng)
    leading = argument == next(a for a in workload.arguments if a.is_given)
    return inputs.draw(argument, check.distribution, problem.reduction, rng, leading=leading)


def _of_part(error: Error, marked: NDArray[np.bool_]) -> Error:
    """The error of the marked elements, if all other elements are exact.

    With few elements, the largest error is used instead of the root mean square.
    """
    count = int(np.count_nonzero(marked))
    if count < LEAST_OF_PART:
        return Error(0.0, error.largest)
    return Error(error.rms * float(marked.size / count) ** 0.5, error.largest)


def _bytes(values: Array) -> Array:
    return values.reshape(-1).view(np.uint8)


def _equal(got: Array, exact: Array) -> bool:
    """Whether the elements are equal after `exact` is converted to the type of `got`."""
    flat, wanted = got.reshape(-1), exact.reshape(-1)
    return all(np.array_equal(flat[p], wanted[p].astype(got.dtype)) for p in blocks(flat.size))

"""Private test cases of a task: inputs, poisoned outputs, expected outputs, comparison."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tilewright.core.errors import WorkloadError
from tilewright.core.records import PRECISIONS, Argument, Check, Tolerance, Workload
from tilewright.parts import inputs
from tilewright.parts.arithmetic import ALL, COARSER, Arithmetic, careless_ways, honest_ways
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
from tilewright.parts.followed import Followed
from tilewright.parts.inputs import Array
from tilewright.parts.problem import (
    DrawsInputs,
    Expected,
    FollowsElements,
    FormulaProblem,
    MeasuresErrors,
    Problem,
    RepeatsReference,
    in_orders,
)

TIMED = 1000
"""The number of the case of a task's timed run. Further sessions use the following numbers."""

LARGE = 1 << 26
"""Total size of the arguments in bytes, from which on fewer sets of inputs are compared. Each
comparison of such a task takes seconds, and gigabytes for its expected outputs.
"""
OF_LARGE = ("small", "shifted mean", "outliers", "shifted below")
"""Distributions on which large tasks are compared. Together, they detect rounded inputs, one-pass
sums, omitted terms and maxima that were started at 0. Distributions that a task defines itself are
always compared.
"""
LEAST_OF_LARGE = 2
"""Minimum number of comparisons of large tasks. A single comparison would not detect a kernel that
returns the results of an earlier run.
"""
MOST_EXPECTED = 1 << 29
"""Size of the expected outputs of a case in float64 in bytes, up to which the expected outputs of
all cases are kept in memory.
"""
MOST_EXTREMES = 64
"""Maximum number of elements beyond the limit that are compared with their own honest results. If
there are more, the outputs are wrong.
"""
ORDERS_OF_EXTREMES = 16
"""Number of orders of their terms in which honest results of such elements are computed."""
LEAST_OF_PART = 256
"""Minimum number of elements of a part of an output for a comparison of the root mean square
error.
"""
_LEFT_OUT_OF_LARGE = frozenset(inputs.FLOAT_DISTRIBUTIONS) - set(OF_LARGE)

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
        """Whether the task has no tolerance of its own, so that whole numbers must be exact."""
        return self.workload.tolerance == Tolerance()

    @property
    def given(self) -> dict[str, Array]:
        """A copy of the values that a kernel reads."""
        return {a.name: self.initial[a.name].copy() for a in self.workload.arguments if a.is_given}

    @cached_property
    def expected(self) -> Mapping[str, Expected]:
        """The outputs of the reference, which are computed on first use and kept."""
        found = self.problem.reference(self.given)
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

        def draw() -> Mapping[str, Array]:
            values = drawn.pop() if drawn else self._redrawn_values(rng)
            return problem.sample(problem.operands(values), rng)

        lower = bool(self.lowest)
        return honest_errors(problem.formula, draw, problem.numbers, only_different=lower)

    @cached_property
    def careless(self) -> Mapping[str, float]:
        """For each shortcut (`careless_ways`), its error divided by the allowed error.

        The errors are computed on a sample of the outputs. Shortcuts that change no element of it
        are left out.
        """
        if isinstance(self.problem, MeasuresErrors):
            return {}
        if not any(isinstance(expected, Followed) for expected in self.expected.values()):
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
        """Whether a shortcut keeps all the digits that are asked for, and is none."""
        digits = {coarse.name: coarse.digits for coarse in COARSER}.get(self.lowest, ALL)
        return digits <= min(way.input_digits, way.digits, way.function_digits) < ALL

    def forget_expected(self) -> None:
        """Free the outputs of the reference, which are computed again on the next access."""
        self.__dict__.pop("expected", None)

    def redrawn(self, rng: np.random.Generator, only: Container[str] | None = None) -> Case:
        """The case with new values of its distribution for every input.

        If `only` is given, only the inputs that it names get new values.
        """
        drawn = self._redrawn_values(rng, only)
        return replace(self, initial={**self.initial, **drawn}, alike=self.alike or self)

    def _redrawn_values(
        self, rng: np.random.Generator, only: Container[str] | None = None
    ) -> dict[str, Array]:
        given = [a for a in self.workload.arguments if a.is_given]
        wanted = [a for a in given if only is None or a.name in only]
        return {a.name: drawn(self.workload, self.problem, a, self.check, rng) for a in wanted}

    def mismatch(self, outputs: Mapping[str, bytes], only: Only | None = None) -> str | None:
        """A sentence with the first difference from the reference, or None.

        Of the elements that `only` marks, where that is given; all others count as right.
        """
        for argument, got in self._written(outputs, only):
            expected = self.expected[argument.name]
            if isinstance(expected, Followed) and self.is_automatic:
                error, honest = self._error(argument, got, expected), self.honest[argument.name]
                if only is not None:
                    error = _of_part(error, only[argument.name])
                allowed, kind = honest.permitted(self.lowest), self.lowest or honest.name
                text = self._beyond_honest(argument, got, expected, error, allowed, kind)
            else:
                text = _difference(argument, got, expected, self.workload.tolerance)
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
        expected: Followed,
        error: Error,
        allowed: Error,
        kind: str,
    ) -> str | None:
        """Why the error is none of honest arithmetic, or None."""
        if error.rms <= allowed.rms and error.largest <= allowed.largest:
            return None
        beyond = _Differing.of(
            (first, off > allowed.largest) for first, off in deviations_by_block(got, expected)
        )
        if beyond.count:
            if error.rms <= allowed.rms and self._are_honest(argument, got, beyond):
                return None
            exact, deviation = beyond.first_of(expected)
            return _text(argument, got, exact, beyond, allowed.largest * deviation)
        worst = max(off.max() for _, off in deviations_by_block(got, expected))
        beyond = _Differing.of(
            (first, off == worst) for first, off in deviations_by_block(got, expected)
        )
        exact, deviation = beyond.first_of(expected)
        return (
            f"the error of {argument.name} is {FACTOR * error.rms / allowed.rms:.3g} times that of "
            f"{kind} arithmetic (root mean square; {FACTOR:g} times is allowed): "
            + _text(argument, got, exact, beyond, allowed.rms * deviation)
        )

    def _are_honest(self, argument: Argument, got: Array, beyond: _Differing) -> bool:
        """Whether these elements are off by no more than a few times an honest result of theirs.

        The limit for all elements follows from a sample. Of tens of millions of sums, few lose more
        digits than any of the sample, in every kernel: those are compared with their own results in
        several orders of their terms. In a few fixed orders, a sum may be exact by chance.
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

    def passed(self, outputs: Mapping[str, bytes], only: Only | None = None) -> Check:
        """The record of a passed comparison, with the precision of the outputs.

        Of the elements that `only` marks, where that is given.
        """
        written = self._written(outputs, only)
        found = {self._precision(argument, got, only) for argument, got in written}
        self._errors.clear()
        known = [name for name in PRECISIONS if name in found]
        return replace(self.check, precision=known[-1] if known else "")

    def excess(self, outputs: Mapping[str, bytes]) -> float:
        """The largest error divided by the allowed error. A value above 1 is a mismatch."""
        return max(
            self._excess(a.name, got, self.expected[a.name]) for a, got in self._written(outputs)
        )

    def _written(
        self, outputs: Mapping[str, bytes], only: Only | None = None
    ) -> list[tuple[Argument, Array]]:
        """What a kernel wrote; elements that `only` does not mark are right."""
        arguments = [a for a in self.workload.arguments if a.is_written]
        arrays = {a.name: np.frombuffer(outputs[a.name], a.dtype) for a in arguments}
        found = [(a, arrays[a.name].reshape(a.shape)) for a in arguments]
        if only is None:
            return found
        return [
            (a, np.where(only[a.name], got, _values(self.expected[a.name]).astype(a.dtype)))
            for a, got in found
        ]

    def _precision(self, argument: Argument, got: Array, only: Only | None) -> str:
        expected = self.expected[argument.name]
        if not isinstance(expected, Followed):
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

    def _error(self, argument: Argument, got: Array, expected: Followed) -> Error:
        """Counted once for outputs that are compared, then recorded."""
        known = self._errors.get(argument.name)
        if known is None or not _equal(_bytes(got), _bytes(known[0])):
            known = self._errors[argument.name] = got, error_between(got, expected)
        return known[1]

    def _excess(self, name: str, got: Array, expected: Expected) -> float:
        if isinstance(expected, Followed) and self.is_automatic:
            error = error_between(got, expected)
            return error.over(self.honest[name].permitted(self.lowest))
        values, allowed = _allowed(expected, self.workload.tolerance)
        if allowed is None:
            return 0.0 if np.array_equal(got, values) else np.inf
        with np.errstate(all="ignore"):
            ratio = np.abs(got.astype(np.float64) - values) / allowed
        wrong = _beyond(got, values, allowed)
        return float(np.max(np.where(wrong, np.fmax(ratio, 1.0), np.nan_to_num(ratio))))


class Cases:
    """The cases of a run by number, which are made on first access and kept as long as the task is
    open.

    The first cases use each distribution once, and the next cases use the distributions again with
    other values. Distributions on which float32 itself fails are never compared. Tasks that are
    large, or `costly` to compare, have few cases. `poisoned` outputs are needed only by kernels
    that receive arrays for their outputs.
    """

    def __init__(
        self,
        workload: Workload,
        problem: Problem,
        input_seed: int,
        lowest: str = "",
        costly: bool = False,
        poisoned: bool = True,
    ) -> None:
        self._lowest = lowest
        self._costly = costly
        self._poisoned = poisoned
        self.workload = workload
        self._problem = problem
        self._input_seed = input_seed
        self._made: dict[int, Case] = {}
        self._known = known_distributions(workload, problem)
        self._bytes = inputs.bytes_of(workload.arguments)
        written = [a for a in workload.arguments if a.is_written]
        self._expected_bytes = 8 * sum(math.prod(a.shape) for a in written)

    def __getitem__(self, number: int) -> Case:
        if number not in self._made:
            self._made[number] = self._drawn(number, self._known[number % len(self._known)])
        return self._made[number]

    def alone(self, number: int) -> Case:
        """The case. If expected outputs take gigabytes, those of all other cases are freed
        first.
        """
        if self._expected_bytes > MOST_EXPECTED:
            for other, case in self._made.items():
                if other != number:
                    case.forget_expected()
        return self[number]

    @cached_property
    def omissions(self) -> Mapping[str, str]:
        """The distributions that are not compared, with the reasons.

        Raises `WorkloadError` if no distribution is left.
        """
        found = {name: self._reason(number) for number, name in enumerate(self._known)}
        failed = {name: reason for name, reason in found.items() if reason is not None}
        if len(failed) == len(self._known):
            raise self._nothing_to_compare(failed[self._known[0]])
        return failed

    @cached_property
    def first(self) -> int:
        """The number of the first case that is compared, which is found without examining the later
        cases.
        """
        reasons = []
        for number in range(len(self._known)):
            reasons.append(self._reason(number))
            if reasons[-1] is None:
                return number
        raise self._nothing_to_compare(reasons[0] or "")

    def compared(self, least: int) -> list[int]:
        """The numbers of the cases that a correct kernel must pass: at least one for each
        distribution, and at least `least` cases.

        Large tasks use each distribution once, or one distribution twice. Further cases of a
        distribution are left out if float32 fails on their values.
        """
        count = len(self._known)
        used = [i for i, name in enumerate(self._known) if name not in self.omissions]
        wanted = max(LEAST_OF_LARGE if self._is_large else least, len(used))
        turns = -(-wanted // len(used))
        numbers = [turn * count + i for turn in range(turns) for i in used]
        return [n for n in numbers if n < count or self._reason(n) is None][:wanted]

    def timed(self, session: int = 0) -> Case:
        """The case of a timed run, with the first distribution that is compared.

        For whole numbers, a separate distribution is used (`inputs.OF_TIMED_INTEGERS`). Later
        distributions would time slow paths of a processor, such as those for subnormal numbers.
        Every candidate is timed on the case of session 0, which is kept.
        """
        number = TIMED + session
        if number in self._made:
            return self._made[number]
        alike = self[self.first]
        whole = self._known == inputs.DISTRIBUTIONS
        distribution = inputs.OF_TIMED_INTEGERS if whole else alike.check.distribution
        case = replace(self._drawn(number, distribution), alike=alike)
        if session == 0:
            self._made[number] = case
        return case

    @property
    def _is_large(self) -> bool:
        return self._costly or self._bytes >= LARGE

    def _reason(self, number: int) -> str | None:
        """Why a distribution is not compared, or None.

        Float32 itself may fail on it, which does not matter where the task gives a tolerance.
        """
        name = self._known[number % len(self._known)]
        if self._is_large and name in _LEFT_OUT_OF_LARGE and set(OF_LARGE) <= set(self._known):
            size = f"whose arguments have {self._bytes / 1e6:.0f} MB"
            if self._bytes < LARGE:
                size = f"of {self.workload.operations:.2g} operations"
            return f"a task {size} is compared on {', '.join(OF_LARGE)}"
        if self.workload.tolerance != Tolerance():
            return None
        try:
            _ = self[number].honest
        except HopelessError as error:
            return str(error)
        return None

    def _nothing_to_compare(self, reason: str) -> WorkloadError:
        return WorkloadError(
            f"{self.workload.name}: no values are known on which float32 arithmetic gives a "
            f"result to compare with ({reason}). Say in workload.toml what the inputs look like."
        )

    def _drawn(self, number: int, distribution: str) -> Case:
        seed = inputs.derived_seed(self._input_seed, number)
        rng = np.random.default_rng(seed)
        check = Check(inputs.shown_seed(seed), distribution)
        initial = {}
        left = sum(a.is_given for a in self.workload.arguments)
        for argument in self.workload.arguments:
            if argument.is_given:
                initial[argument.name] = drawn(self.workload, self._problem, argument, check, rng)
                left -= 1
            elif self._poisoned or left:  # what is drawn after it must not depend on this
                poison = inputs.poison(argument, rng, rng.choice(inputs.POISONED))
                if self._poisoned:
                    initial[argument.name] = poison
        return Case(seed, check, self.workload, initial, self._problem, lowest=self._lowest)


def known_distributions(workload: Workload, problem: Problem) -> tuple[str, ...]:
    """The distributions of a task's inputs, including those on which float32 fails."""
    if isinstance(problem, DrawsInputs):
        return problem.distributions
    return inputs.distributions(workload.arguments)


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


@dataclass(frozen=True)
class _Differing:
    """How many elements of an output differ, and where, in row-major order, the first ones are."""

    count: int
    places: Array

    @classmethod
    def of(cls, wrong: Iterable[tuple[int, NDArray[np.bool_]]]) -> _Differing:
        """From blocks of the output, each with the number of its first element."""
        count, places = 0, [np.zeros(0, np.intp)]
        for first, block in wrong:
            found = np.flatnonzero(block)
            if count < MOST_EXTREMES:
                places.append(first + found[:MOST_EXTREMES])
            count += found.size
        return cls(count, np.concatenate(places)[:MOST_EXTREMES])

    def first_of(self, expected: Followed) -> tuple[Any, Any]:
        """Exact value and deviation of the first one."""
        first = int(self.places[0])
        found = expected.reshape(-1)[first : first + 1]
        return found.exact[0], found.deviation[0]


def _of_part(error: Error, marked: NDArray[np.bool_]) -> Error:
    """The error of the marked elements, where all others have none.

    Of few elements the root mean square says no more than the largest error does.
    """
    count = int(np.count_nonzero(marked))
    if count < LEAST_OF_PART:
        return Error(0.0, error.largest)
    return Error(error.rms * float(marked.size / count) ** 0.5, error.largest)


def _bytes(values: Array) -> Array:
    return values.reshape(-1).view(np.uint8)


def _equal(got: Array, exact: Array) -> bool:
    """Whether all are equal once the second ones have the type of the first."""
    flat, wanted = got.reshape(-1), exact.reshape(-1)
    return all(np.array_equal(flat[p], wanted[p].astype(got.dtype)) for p in blocks(flat.size))


def _values(expected: Expected) -> Array:
    return expected.exact if isinstance(expected, Followed) else expected


def _difference(
    argument: Argument, got: Array, expected: Expected, tolerance: Tolerance
) -> str | None:
    flat, wanted = got.reshape(-1), _values(expected).reshape(-1)

    def wrong(part: slice) -> Array:
        values, allowed = _allowed(wanted[part], tolerance)
        return flat[part] != values if allowed is None else _beyond(flat[part], values, allowed)

    differing = _Differing.of((part.start, wrong(part)) for part in blocks(flat.size))
    if not differing.count:
        return None
    first = int(differing.places[0])
    values, allowed = _allowed(wanted[first : first + 1], tolerance)
    return _text(argument, got, values[0], differing, None if allowed is None else allowed[0])


def _text(argument: Argument, got: Array, wanted: Any, differing: _Differing, allowed: Any) -> str:
    first = int(differing.places[0])
    index = "".join(f"[{i}]" for i in np.unravel_index(first, got.shape))
    room = "" if allowed is None else f" within {allowed:.3g}"
    return (
        f"{differing.count} of {got.size} elements of {argument.name} differ, first at "
        f"{argument.name}{index}: got {got.reshape(-1)[first]}, expected {wanted}{room}"
    )


def _allowed(expected: Expected, tolerance: Tolerance) -> tuple[Array, Array | None]:
    """Expected values, and how far each may be off; None for not at all."""
    values = _values(expected)
    if tolerance == Tolerance():
        return values, None
    exact = values.astype(np.float64)
    return exact, tolerance.absolute + tolerance.relative * np.abs(exact)


def _beyond(got: Array, exact: Array, allowed: Array) -> Array:
    """Where |got - exact| > allowed; not-a-number is always wrong, and nothing is near infinity."""
    with np.errstate(invalid="ignore"):
        close = np.abs(got.astype(np.float64) - exact) <= allowed
        right: Array = np.where(np.isfinite(exact), close, got == exact)
    return ~right

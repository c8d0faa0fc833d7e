"""The private test cases of a run: which distributions of inputs are drawn, compared and timed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from tilewright.core.errors import WorkloadError
from tilewright.core.records import Check, Tolerance, Workload
from tilewright.parts import inputs
from tilewright.parts.case import Case, drawn
from tilewright.parts.case_arguments import CaseArguments
from tilewright.parts.error_tracking import TrackedArray
from tilewright.parts.float_error import (
    NOT_FINITE,
    HopelessError,
)
from tilewright.parts.inputs import Array
from tilewright.parts.problem import (
    DrawsInputs,
    HasUsersInputs,
    Problem,
)

TIMED = 1000
"""The number of the case of a task's timed run. Further sessions use the following numbers."""


LARGE = 1 << 26
"""Total size of the arguments in bytes, from which on fewer sets of inputs are compared. Each
comparison of such a task takes seconds, and gigabytes for its expected outputs.
"""


OF_LARGE = ("small", "shifted mean", "outliers", "shifted below")
"""Distributions on which large tasks are compared. Together, they detect rounded inputs, one-pass
sums, omitted terms and maxima initialised with 0. Distributions that a task defines itself are
always compared.
"""


LEAST_OF_LARGE = 2
"""Minimum number of comparisons of large tasks. A single comparison would not detect a kernel that
returns the results of an earlier run.
"""


MOST_KEPT = 1 << 29
"""Size in bytes of the arguments of a case, and of its expected outputs in float64, up to which
those of all cases are kept in memory.
"""


_LEFT_OUT_OF_LARGE = frozenset(inputs.FLOAT_DISTRIBUTIONS) - set(OF_LARGE)
_OVER_OWN_TOLERANCE = "it is not known whether float32 overflows for a task with its own tolerance"

CHANGED = 8
"""Number of elements of each input that `Cases.changed` changes."""

CHANGED_ALONE = 2
"""Number of cases of `Cases.alone_changed` for each input."""


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
        self._changed: dict[int, Case] = {}
        self._alone_changed: dict[int, list[Case]] = {}
        self._known = known_distributions(workload, problem)
        self._bytes = inputs.bytes_of(workload.arguments)
        self._expected_bytes = expected_bytes(workload)

    def __getitem__(self, number: int) -> Case:
        if number not in self._made:
            self._made[number] = self._drawn(number, self._known[number % len(self._known)])
        return self._made[number]

    def alone(self, number: int) -> Case:
        """The case. If arguments or expected outputs take gigabytes, those of all other cases are
        freed first.
        """
        for other, case in self._made.items():
            if other != number:
                if self._expected_bytes > MOST_KEPT:
                    case.forget_expected()
                if self._bytes > MOST_KEPT:
                    case.forget_inputs()
        return self[number]

    def changed(self, number: int) -> Case:
        """The case with this number, with a few elements of each input drawn again.

        A kernel that recognises inputs by a part of their elements returns the results of an
        earlier call. For large tasks, the case itself is returned.
        """
        if self._is_large:
            return self.alone(number)
        if number not in self._changed:
            self._changed[number] = self[number].changed(CHANGED)
        return self._changed[number]

    def alone_changed(self, number: int) -> list[Case]:
        """The case with this number, with one element of one input drawn again: for each input
        `CHANGED_ALONE` cases, and none for large tasks.

        A kernel that recognises only one of the inputs, or a part of them, returns the results of
        an earlier call.
        """
        if self._is_large:
            return []
        if number not in self._alone_changed:
            self._alone_changed[number] = [
                self[number].changed(1, {argument.name}, turn)
                for argument in self.workload.arguments
                if argument.is_given
                for turn in range(CHANGED_ALONE)
            ]
        return self._alone_changed[number]

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

        For integers, a separate distribution is used (`inputs.OF_TIMED_INTEGERS`). Later
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
        """Why a distribution is not compared, or None. The reason is that float32 itself fails on
        it, which does not matter if the task has a tolerance of its own.
        """
        name = self._known[number % len(self._known)]
        if self._is_large and name in _LEFT_OUT_OF_LARGE and set(OF_LARGE) <= set(self._known):
            size = f"whose arguments have {self._bytes / 1e6:.0f} MB"
            if self._bytes < LARGE:
                size = f"of {self.workload.operations:.2g} operations"
            return f"a task {size} is compared on {', '.join(OF_LARGE)}"
        if self.workload.tolerance != Tolerance():
            if self._known == inputs.DECLARED and name != inputs.DECLARED[0]:
                return self._not_finite(number)
            return _OVER_OWN_TOLERANCE if name in ("huge values", inputs.LATER) else None
        try:
            _ = self.alone(number).honest
        except HopelessError as error:
            return str(error)
        return None

    def _not_finite(self, number: int) -> str | None:
        """Where the reference returns NaN or infinity, for instance because an input is zero, which
        it need not be if `workload.toml` describes the inputs; None if all results are finite.
        """
        for name, found in self.alone(number).expected.items():
            values = np.asarray(found.exact if isinstance(found, TrackedArray) else found)
            if values.dtype.kind not in "iu" and not np.isfinite(values.astype(np.float64)).all():
                return f"{NOT_FINITE} NaN or infinity for {name}"
        return None

    def _nothing_to_compare(self, reason: str) -> WorkloadError:
        problem = self._problem
        remedy = problem.to_choose if isinstance(problem, HasUsersInputs) else "choose"
        if reason.startswith(NOT_FINITE):
            return WorkloadError(
                f"{self.workload.name}: {reason} with all inputs that were tried, so there is "
                f"nothing to compare a kernel with. Correct the reference, or {remedy} inputs for "
                "which it returns finite numbers."
            )
        return WorkloadError(
            f"{self.workload.name}: float32 arithmetic gives no result with which a kernel can be "
            f"compared on any of the inputs that were tried ({reason}). To correct this, {remedy} "
            "inputs on which the errors of float32 arithmetic are small."
        )

    def _drawn(self, number: int, distribution: str) -> Case:
        seed = inputs.derived_seed(self._input_seed, number)
        check = Check(inputs.shown_seed(seed), distribution)
        arguments = self.workload.arguments
        names = [a.name for a in arguments if a.is_given or self._poisoned]
        initial = CaseArguments(names, partial(self._values, number, seed, check))
        if self._bytes <= MOST_KEPT:  # mistakes of a generator of the user are found here
            for name in names:
                _ = initial[name]
        return Case(seed, check, self.workload, initial, self._problem, lowest=self._lowest)

    def _values(self, number: int, seed: int, check: Check) -> Mapping[str, Array]:
        """The arguments of the case with this number and this seed."""
        rng = np.random.default_rng(seed)
        # Each kind of contents occurs in as many cases in a row as there are kinds.
        fill = inputs.FILLS[(number + self._input_seed) % len(inputs.FILLS)]
        found: dict[str, Array] = {}
        left = sum(a.is_given for a in self.workload.arguments)
        for argument in self.workload.arguments:
            if argument.is_given:
                found[argument.name] = drawn(self.workload, self._problem, argument, check, rng)
                left -= 1
            elif self._poisoned or left:  # later draws must not depend on this one
                poison = inputs.poison(argument, rng, fill)
                if self._poisoned:
                    found[argument.name] = poison
        return found


def expected_bytes(workload: Workload) -> int:
    """The size of the expected outputs of one case in float64."""
    return 8 * sum(math.prod(a.shape) for a in workload.arguments if a.is_written)


def known_distributions(workload: Workload, problem: Problem) -> tuple[str, ...]:
    """The distributions of a task's inputs, including those on which float32 fails."""
    if isinstance(problem, DrawsInputs):
        return problem.distributions
    return inputs.distributions(workload.arguments)

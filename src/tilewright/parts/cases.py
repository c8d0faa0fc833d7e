"""Private test cases of a task: inputs, poisoned outputs, expected outputs, comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tilewright.core.records import Argument, Check, Tolerance, Workload
from tilewright.parts import inputs
from tilewright.parts.float_error import Bounded
from tilewright.parts.inputs import Array
from tilewright.parts.problem import DrawsInputs, Expected, Problem


@dataclass(frozen=True, eq=False)
class Case:
    """One set of inputs. `initial` holds every argument as the kernel finds it."""

    check: Check
    workload: Workload
    initial: Mapping[str, Array]
    problem: Problem

    @cached_property
    def expected(self) -> Mapping[str, Expected]:
        """The reference's outputs; computed on first use and kept."""
        given = {a.name: self.initial[a.name] for a in self.workload.arguments if a.is_given}
        return self.problem.reference({name: array.copy() for name, array in given.items()})

    def mismatch(self, outputs: Mapping[str, bytes]) -> str | None:
        """What differs from the reference, as a sentence with the first mismatch, or None."""
        for argument in self.workload.arguments:
            if not argument.is_written:
                continue
            got = np.frombuffer(outputs[argument.name], argument.dtype).reshape(argument.shape)
            text = _difference(argument, got, self.expected[argument.name], self.workload.tolerance)
            if text is not None:
                # Not the seed: this text is shown to proposers.
                return f"{text} ({self.check.distribution} inputs)"
        return None


class Cases:
    """The cases of a run by number, made when first asked for and kept while the task lives.

    Numbers 0 .. checks-1 are compared functionally; number `checks` is the timed run's, so that
    its inputs are new too.
    """

    def __init__(self, workload: Workload, problem: Problem, input_seed: int) -> None:
        self._workload = workload
        self._problem = problem
        self._input_seed = input_seed
        self._made: dict[int, Case] = {}

    def __getitem__(self, index: int) -> Case:
        if index not in self._made:
            known = self.distributions
            self._made[index] = self.drawn(index, known[index % len(known)])
        return self._made[index]

    @property
    def distributions(self) -> tuple[str, ...]:
        """Of values, taken in turn by the cases."""
        problem = self._problem
        return problem.distributions if isinstance(problem, DrawsInputs) else inputs.DISTRIBUTIONS

    def drawn(self, index: int, distribution: str) -> Case:
        """Case number `index`, with values of another distribution than its turn's."""
        seed = inputs.derived_seed(self._input_seed, index)
        rng = np.random.default_rng(seed)
        initial = {a.name: self._initial(a, distribution, rng) for a in self._workload.arguments}
        return Case(Check(seed, distribution), self._workload, initial, self._problem)

    def redrawn(self, case: Case, rng: np.random.Generator) -> Case:
        """The case with values of its distribution newly drawn for every argument that is given."""
        drawn = {
            a.name: self._initial(a, case.check.distribution, rng)
            for a in self._workload.arguments
            if a.is_given
        }
        return replace(case, initial={**case.initial, **drawn})

    def _initial(self, argument: Argument, distribution: str, rng: np.random.Generator) -> Array:
        if not argument.is_given:
            return inputs.poison(argument, rng)
        if isinstance(self._problem, DrawsInputs):
            return self._problem.draw(argument, distribution, rng)
        return inputs.draw(argument, distribution, self._problem.reduction, rng)


def _difference(
    argument: Argument, got: Array, expected: Expected, tolerance: Tolerance
) -> str | None:
    values, allowed = _allowed(expected, tolerance)
    wrong = got != values if allowed is None else _beyond(got, values, allowed)
    count = int(np.count_nonzero(wrong))
    if count == 0:
        return None
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    index = "".join(f"[{i}]" for i in first)
    room = "" if allowed is None else f" within {allowed[first]:.3g}"
    return (
        f"{count} of {wrong.size} elements of {argument.name} differ, first at "
        f"{argument.name}{index}: got {got[first]}, expected {values[first]}{room}"
    )


def _allowed(expected: Expected, tolerance: Tolerance) -> tuple[Array, Array | None]:
    """Expected values, and how far each may be off; None for not at all."""
    if isinstance(expected, Bounded):
        return expected.value, expected.error
    if tolerance == Tolerance():
        return expected, None
    exact = expected.astype(np.float64)
    return exact, tolerance.absolute + tolerance.relative * np.abs(exact)


def _beyond(got: Array, exact: Array, allowed: Array) -> Array:
    """Where |got - exact| > allowed; not-a-number is always wrong."""
    with np.errstate(invalid="ignore"):
        close: Array = np.abs(got.astype(np.float64) - exact) <= allowed
    return ~close

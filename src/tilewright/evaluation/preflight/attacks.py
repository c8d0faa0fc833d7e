"""Wrong outputs that any task's check must reject, made from inputs and correct outputs.

Each attack represents a kernel that is faster because it omits work. An attack is rejected if at
least one of the comparisons that a candidate must pass finds its outputs wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.core.records import Argument
from tilewright.evaluation.preflight.guesses import (
    all_largest,
    constant,
    copy_of,
    memoised,
    previous_result,
    rank_one,
    right_at_first,
)
from tilewright.evaluation.preflight.mistakes import (
    ignoring,
    last_rows_negated,
    negated,
    one_wrong,
    shifted_tile,
    unwritten,
    without_last_element,
    without_last_row,
    wrapped,
    wrong_on,
)
from tilewright.evaluation.preflight.views import Make, of_each_output

OTHER_INPUTS = "use inputs with a wider range of values, or correct the reference"
"""The remedy if the check accepts a wrong kernel."""
_TOLERANCE = "lower the tolerance"
TELLING = (
    "remove the tolerance from workload.toml, so that the limit is the error of float32 "
    "arithmetic, or use inputs of both signs, so that outputs differ from one another"
)
_SHAPE = "choose larger shapes, so that outputs differ from one another"


@dataclass(frozen=True)
class OutputAttack:
    """A wrong kernel: its name, a description, and what to change in the task if the check accepts
    it.
    """

    name: str
    text: str
    remedy: str
    make: Make = field(repr=False)


def attacks(arguments: Sequence[Argument], distributions: Sequence[str]) -> Iterator[OutputAttack]:
    """All attacks on a task with these arguments and these distributions of inputs."""
    yield OutputAttack("zeros", "writes zeros", OTHER_INPUTS, of_each_output(np.zeros_like))
    yield OutputAttack(
        "constant", "writes the most common value, or the mean, everywhere", TELLING, constant
    )
    yield OutputAttack(
        "rank-1 estimate",
        "multiplies the row means of the result by its column means",
        TELLING,
        rank_one,
    )
    yield OutputAttack(
        "extreme", "writes the largest value everywhere", OTHER_INPUTS, of_each_output(all_largest)
    )
    for argument in arguments:
        if argument.is_given:
            yield OutputAttack(
                f"copy of {argument.name}",
                f"copies {argument.name} to the output",
                OTHER_INPUTS,
                copy_of(argument.name),
            )
    yield OutputAttack("stale buffer", "writes nothing", OTHER_INPUTS, unwritten)
    yield OutputAttack(
        "previous result",
        "leaves the outputs of the previous run unchanged",
        OTHER_INPUTS,
        previous_result,
    )
    yield OutputAttack("skipped tail", "does not write the last row", _TOLERANCE, without_last_row)
    yield OutputAttack(
        "skipped element", "does not write the last element", _TOLERANCE, without_last_element
    )
    yield OutputAttack(
        "skipped saturation", "lets sums wrap around instead of saturating", OTHER_INPUTS, wrapped
    )
    for argument in arguments:
        if argument.is_given:
            yield OutputAttack(
                f"ignored {argument.name}",
                f"computes as if {argument.name} (a bias, a factor) were zero",
                f"remove {argument.name} from the task if it has no influence, or {OTHER_INPUTS}",
                ignoring(argument.name),
            )
    yield OutputAttack(
        "off by one, rows", "shifts the last tile by one row", _SHAPE, shifted_tile(0)
    )
    yield OutputAttack(
        "off by one, columns", "shifts the last tile by one column", _SHAPE, shifted_tile(-1)
    )
    yield OutputAttack("sign flip", "negates the result", OTHER_INPUTS, of_each_output(negated))
    yield OutputAttack(
        "sign flip of a tile",
        "negates the last rows",
        OTHER_INPUTS,
        of_each_output(last_rows_negated),
    )
    yield OutputAttack(
        "one wrong element",
        "is wrong in one element, by a hundredth of the range of the outputs",
        _TOLERANCE,
        one_wrong,
    )
    for distribution in dict.fromkeys(distributions):
        yield OutputAttack(
            f"wrong on {distribution}",
            f"is correct except for inputs of the distribution {distribution!r}",
            "compare inputs of every distribution",
            wrong_on(distribution),
        )
    yield OutputAttack(
        "first seed only",
        "is correct for the first inputs and writes zeros for all others",
        OTHER_INPUTS,
        right_at_first,
    )
    yield OutputAttack(
        "memoised by input",
        "looks up results for inputs that it saw during the check",
        OTHER_INPUTS,
        memoised,
    )

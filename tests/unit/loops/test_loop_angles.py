"""Sines and cosines of vectors without a branch for large angles."""

from __future__ import annotations

import pytest

from tilewright.proposers.loops.analysis.changes import NotApplicableError
from tilewright.proposers.loops.emit import emit
from tilewright.proposers.loops.parsing.kernel import parse
from tilewright.proposers.loops.planning.full_sequences import Whole
from tilewright.proposers.loops.planning.steps import TECHNIQUES, Step
from tilewright.proposers.loops.rewrites.angles import without_branches
from tilewright.proposers.loops.rewrites.vectorise import vectorise

SINES = (
    "void kernel(const float X[64], float Y[64]) { "
    "for (int i = 0; i < 64; i++) Y[i] = sinf(X[i]) - 2.0f * cosf(X[i] * 3.0f); }"
)


def test_a_kernel_without_branches_is_tried_too() -> None:
    found = [*Whole(16, 32, frozenset(TECHNIQUES)).sequences(parse(SINES))]
    texts = {"; ".join(str(step) for step, _ in steps): emit(after) for steps, after in found}
    branches, none = texts["vectorise 0 16"], texts["vectorise 0 16; angles 0 0"]
    assert "v_sin_of_large(x)" in branches
    assert "_of_large" not in none
    assert "v_sin_of_any(" in none
    assert "v_cos_of_any(" in none
    assert [*texts].index("vectorise 0 16") < [*texts].index("vectorise 0 16; angles 0 0")
    assert parse(none) == next(after for steps, after in found if str(steps[-1][0]) == "angles 0 0")


def test_it_is_not_offered_without_the_technique_or_without_sines() -> None:
    some = frozenset(TECHNIQUES) - {"angles"}
    assert not any(
        step.technique == "angles"
        for steps, _ in Whole(16, 32, some).sequences(parse(SINES))
        for step, _ in steps
    )
    other = parse(SINES.replace("sinf", "expf").replace("cosf", "expf"))
    with pytest.raises(NotApplicableError, match="no sines or cosines"):
        without_branches(vectorise(other, 0, 16), 0)
    assert Step("angles", 0).applied(parse(SINES)) is None

"""Plans: whose option a complete sequence stands under, and how plans and refusals are worded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from test_nki_join import filtered
from test_nki_legality import read

from tilewright.core.records import History, MenuOption
from tilewright.proposers.nki.analysis.dependence import NotApplicableError
from tilewright.proposers.nki.planning import planner as planning
from tilewright.proposers.nki.planning.moves import cost_of
from tilewright.proposers.nki.planning.planner import complete_sequences, draw, varied
from tilewright.proposers.nki.planning.steps import Step
from tilewright.proposers.nki.rewrites.unroll_and_jam import jam


def test_a_complete_sequence_stands_under_the_first_technique_that_is_offered() -> None:
    """Dropping a part of the menu must not drop the sequences that begin with it."""
    kernel, follow_ups = read(filtered(7, 8, 9)), ("join", "jam")
    found = [steps for steps, _ in complete_sequences(kernel, follow_ups)]
    begins, *_, ends = max(found, key=len)
    assert begins.technique != ends.technique
    menu = [MenuOption("other", "", ends.technique)]
    drafts = draw(kernel, menu, follow_ups, History(()), 8, random.Random(0))
    assert any(d.steps[0] == begins and d.option.id == "other" for d in drafts)


def test_dropout_never_drops_the_complete_sequences() -> None:
    """A kernel that one technique makes faster would have no plan if its option were left out."""
    kernel, follow_ups = read(filtered(7, 8, 9)), ("join", "jam")
    whole = [MenuOption("one", "", "join"), MenuOption("two", "", "jam")]
    menu = [MenuOption("other", "", "turn")]
    assert not list(draw(kernel, menu, follow_ups, History(()), 4, random.Random(0)))
    drafts = draw(kernel, menu, follow_ups, History(()), 4, random.Random(0), whole_menu=whole)
    assert {draft.option.id for draft in drafts} <= {"one", "two"}
    best = min(cost_of(after) for _, after in complete_sequences(kernel, follow_ups))
    again = draw(kernel, menu, follow_ups, History(()), 4, random.Random(0), whole_menu=whole)
    assert min(draft.cost for draft in again) == best


def test_the_first_plan_of_a_run_does_not_wait_for_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, follow_ups = read(filtered(7, 8, 9)), ("join", "jam")
    made = []

    def counted(*given: object) -> Iterator[Any]:
        for found in complete_sequences(kernel, follow_ups):
            made.append(found)
            yield found

    monkeypatch.setattr(planning, "complete_sequences", counted)
    menu = [MenuOption("one", "", "join"), MenuOption("two", "", "jam")]
    drafts = draw(kernel, menu, follow_ups, History(()), 4, random.Random(0), soon=True)
    first = next(drafts)
    assert len(made) == 1
    assert first.cost < cost_of(kernel)
    others = list(drafts)
    assert len(made) > 1
    assert len(others) <= 3
    assert first not in others
    alone = draw(kernel, menu, follow_ups, History(()), 1, random.Random(0), soon=True)
    assert [d.cost for d in alone] == [min(d.cost for d in (first, *others))]


def test_a_variant_runs_another_number_of_iterations_together() -> None:
    kernel = read(filtered(7, 8, 9))
    steps = (Step.parse("jam r 2"),)
    numbers = set()
    for seed in range(8):
        found = varied(steps, kernel, random.Random(seed))
        if found is not None:
            (step,), after = found
            assert after == step.apply(kernel)
            numbers.add(step.arguments[1])
    assert numbers
    assert "2" not in numbers
    assert varied((Step.parse("join 2"),), kernel, random.Random(0)) is None


def test_names_of_the_kernel_are_marked_in_sentences() -> None:
    assert Step.parse("hoist right m").sentence == "compute `right` before the loop over `m`"
    assert Step.parse("jam r 0").sentence == "run all iterations of the loop over `r` together"
    assert Step.parse("merge 3").sentence.startswith("merge instruction 3 with")


LARGE = """
for r in nl.affine_range(4):
    b = nl.ndarray((128, 30000), dtype=nl.float32, buffer=nl.sbuf)
    nisa.dma_copy(dst=b[:, 0:64], src=x[r * 128 : r * 128 + 128])
    a = nl.ndarray((128, 30000), dtype=nl.float32, buffer=nl.sbuf)
    nisa.tensor_copy(dst=a[:, 0:64], src=b[:, 0:64])
    nisa.dma_copy(dst=out[r * 128 : r * 128 + 128], src=a[:, 0:64])
"""


def test_the_first_tile_by_name_that_does_not_fit_is_named() -> None:
    with pytest.raises(NotApplicableError, match=r"^a would be too long for a partition$"):
        jam(read(LARGE), (1,), 4)

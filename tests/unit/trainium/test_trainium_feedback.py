"""What the feedback on a modelled kernel says about bounds and transfers."""

from __future__ import annotations

from pathlib import Path

from tilewright.core.records import Failed, Measured
from tilewright.targets.trainium import create_target

FOLDER = Path(__file__).parents[2] / "fixtures" / "foreign_nki" / "gqa_decode"


def gqa() -> Measured:
    task = create_target().open_folder(FOLDER, {})
    return measured(task.modelled(task.start))


def cumsum() -> Measured:
    task = create_target().open("cumsum-2048x2048", {})
    return measured(task.modelled(task.baselines["tuned"]))


def measured(outcome: Measured | Failed) -> Measured:
    assert isinstance(outcome, Measured)
    return outcome


def test_the_bound_at_which_a_search_stops_is_explained_beside_the_roofline() -> None:
    found = gqa()
    assert found.bound is not None
    assert f"{found.bound:,.0f}" == "15,030"
    assert (
        "including 15.00 us that the launch of any kernel takes. With the launch, the roofline is "
        "22.77 us (moving every argument once); for all kernels, only 15.03 us are certain (the "
        "launch and storing the outputs).\n"
    ) in found.feedback


def test_where_the_roofline_is_certain_it_is_the_only_bound() -> None:
    found = cumsum()
    assert found.bound is not None
    told = f"the roofline is {found.bound / 1e3:.2f} us (moving every argument once).\n"
    assert told in found.feedback


def test_longer_runs_are_recommended_where_runs_are_short() -> None:
    advice = "(`larger-transfers`, `adjacent-rows`)"
    assert advice in gqa().feedback
    assert advice not in cumsum().feedback

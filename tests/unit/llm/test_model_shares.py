from __future__ import annotations

from collections import Counter

import pytest

from tilewright.proposers.model_shares import implementer, plan_slots, planner


@pytest.mark.parametrize("models", [1, 2, 3, 5])
@pytest.mark.parametrize("plans", [1, 2, 6])
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_model_gets_its_share(models: int, plans: int, ranks: int) -> None:
    """Also where a step has fewer samples than there are models, and the beam one kernel."""
    names = [f"m{i}" for i in range(models)]
    planned: Counter[str] = Counter()
    implemented: Counter[str] = Counter()
    for iteration in range(1, models * models * 2 + 1):
        for rank in range(ranks):
            for slot in plan_slots(iteration, rank, plans):
                planned[planner(names, slot)] += 1
                for number in range(2):
                    implemented[implementer(names, slot, number, 2)] += 1
    for counts in (planned, implemented):
        assert len(counts) == models
        assert max(counts.values()) <= 1.25 * min(counts.values()), counts


def test_models_implement_each_others_plans() -> None:
    names = ["a", "b", "c"]
    pairs = {(planner(names, slot), implementer(names, slot, 0, 1)) for slot in range(9)}
    assert len(pairs) == 9

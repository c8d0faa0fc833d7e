"""Contract suite of the `Proposer` role.

Subclass `ProposerContract` in a test module and give the fixtures `proposer`, `brief` and `parent`
(a measured trial that the proposer can improve); pytest collects the inherited tests.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.core.records import Brief, Candidate, History, Trial
from tilewright.core.roles import Proposer


class ProposerContract:
    """What every proposer must do."""

    @pytest.fixture
    def proposer(self) -> Proposer:
        """Given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def brief(self) -> Brief:
        """Given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def parent(self) -> Trial:
        """Given by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def history(self, parent: Trial) -> History:
        """Only the parent so far."""
        return History([parent])

    def test_it_has_a_name(self, proposer: Proposer) -> None:
        """Provenance of every candidate."""
        assert proposer.name

    def test_plans_are_distinct_and_on_the_menu(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """At most as many as asked for, each on the parent and on an offered option."""
        plans = proposer.plan(brief, parent, history, 4, seed=1)
        assert 0 < len(plans) <= 4
        assert len({plan.id for plan in plans}) == len(plans)
        for plan in plans:
            assert plan.option in {option.id for option in brief.menu}
            assert plan.parent_id == parent.candidate.id
            assert plan.text.strip()
            assert plan.proposer

    def test_the_menu_is_respected(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """An option that was dropped is not planned."""
        for option in brief.menu:
            only = Brief(brief.workload, brief.target, (option,), brief.iteration, brief.iterations)
            plans = proposer.plan(only, parent, history, 4, seed=1)
            assert {plan.option for plan in plans} <= {option.id}

    def test_candidates_name_their_parent_and_plan(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """At most as many as asked for; none equals its parent."""
        found: list[Candidate] = []
        for plan in proposer.plan(brief, parent, history, 8, seed=1):
            candidates = proposer.implement(brief, parent, plan, 2, seed=1)
            assert len(candidates) <= 2
            for candidate in candidates:
                assert candidate.parent_id == parent.candidate.id
                assert candidate.plan is not None
                # The parameters may say how a variant of the plan was made.
                assert replace(candidate.plan, parameters=plan.parameters) == plan
                normal = proposer.normalize(candidate.source)
                assert normal != proposer.normalize(parent.candidate.source)
            found += candidates
        assert found, "no plan could be carried out"

    def test_the_same_seed_proposes_the_same(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """Plans and candidates."""
        first = proposer.plan(brief, parent, history, 4, seed=3)
        assert proposer.plan(brief, parent, history, 4, seed=3) == first
        for plan in first:
            candidates = proposer.implement(brief, parent, plan, 2, seed=3)
            assert proposer.implement(brief, parent, plan, 2, seed=3) == candidates

    def test_normal_forms_are_stable(self, proposer: Proposer, parent: Trial) -> None:
        """The same text has the same form, however often it is asked for."""
        source = parent.candidate.source
        assert proposer.normalize(source) == proposer.normalize(source)

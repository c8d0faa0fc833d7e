"""Contract suites of the `Proposer` role, and of the optional roles of proposers.

Subclass one of them in a test module and define the fixtures `proposer`, `brief` and `parent` (a
measured trial that the proposer can improve). `StreamingPlannerContract`, `ResponderContract` and
`FindsUnsupportedCodeContract` include the tests of all proposers. Pytest collects the inherited
tests.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from tilewright.core.records import Brief, Candidate, Failed, History, Trial
from tilewright.core.roles import FindsUnsupportedCode, Proposer, Responder, StreamingPlanner


class ProposerContract:
    """Tests that every proposer must pass."""

    @pytest.fixture
    def proposer(self) -> Proposer:
        """The proposer under test; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def brief(self) -> Brief:
        """The target's brief; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def parent(self) -> Trial:
        """A trial that the proposer can improve; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def history(self, parent: Trial) -> History:
        """A history that contains only the parent."""
        return History([parent])

    def test_it_has_a_name(self, proposer: Proposer) -> None:
        """A proposer has a name, which is stored with every candidate."""
        assert proposer.name

    def test_plans_are_distinct_and_on_the_menu(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """There are at most as many plans as requested. Each refers to the parent and to an offered
        option."""
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
        """A proposer makes no plan with an option that was dropped from the menu."""
        for option in brief.menu:
            only = Brief(brief.workload, brief.target, (option,), brief.iteration, brief.iterations)
            plans = proposer.plan(only, parent, history, 4, seed=1)
            assert {plan.option for plan in plans} <= {option.id}

    def test_candidates_name_their_parent_and_plan(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """There are at most as many candidates as requested, and none equals its parent."""
        found: list[Candidate] = []
        for plan in proposer.plan(brief, parent, history, 8, seed=1):
            candidates = proposer.implement(brief, parent, plan, 2, seed=1)
            assert len(candidates) <= 2
            for candidate in candidates:
                assert candidate.parent_id == parent.candidate.id
                assert candidate.plan is not None
                # The text and the parameters may record how a variant of the plan was made.
                assert candidate.plan.base_text == plan.text
                same = replace(candidate.plan, text=plan.text, parameters=plan.parameters)
                assert same == plan
                normal = proposer.normalize(candidate.source, brief.target)
                assert normal != proposer.normalize(parent.candidate.source, brief.target)
            found += candidates
        assert found, "no plan could be carried out"

    def test_the_same_seed_proposes_the_same(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """The same seed gives the same plans and candidates."""
        first = proposer.plan(brief, parent, history, 4, seed=3)
        assert proposer.plan(brief, parent, history, 4, seed=3) == first
        for plan in first:
            candidates = proposer.implement(brief, parent, plan, 2, seed=3)
            assert proposer.implement(brief, parent, plan, 2, seed=3) == candidates

    def test_normal_forms_are_stable(self, proposer: Proposer, brief: Brief, parent: Trial) -> None:
        """The same text always has the same normal form."""
        source = parent.candidate.source
        first = proposer.normalize(source, brief.target)
        assert proposer.normalize(source, brief.target) == first


class StreamingPlannerContract(ProposerContract):
    """Tests for proposers that return plans one by one."""

    def test_plans_that_come_one_by_one_are_the_same(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """Plans that are returned one by one are the same plans in the same order."""
        assert isinstance(proposer, StreamingPlanner)
        whole = proposer.plan(brief, parent, history, 4, seed=2)
        assert list(proposer.each_plan(brief, parent, history, 4, seed=2)) == whole

    def test_whoever_stops_listening_gets_the_first_ones(
        self, proposer: Proposer, brief: Brief, parent: Trial, history: History
    ) -> None:
        """A caller that stops early gets the first plans, and may ask again."""
        assert isinstance(proposer, StreamingPlanner)
        whole = proposer.plan(brief, parent, history, 4, seed=2)
        for count in range(len(whole) + 1):
            some = list(islice(proposer.each_plan(brief, parent, history, 4, seed=2), count))
            assert some == whole[:count]


class ResponderContract(ProposerContract):
    """Tests for proposers that can correct their own failed candidates."""

    FAILURE = Failed("check", "wrong_result", "C[0][0]: got 1, expected 2", line=1)

    @pytest.fixture
    def failed(self, proposer: Proposer, brief: Brief, parent: Trial, history: History) -> Trial:
        """A candidate of the proposer that failed."""
        for plan in proposer.plan(brief, parent, history, 4, seed=1):
            for candidate in proposer.implement(brief, parent, plan, 1, seed=1):
                return Trial(1, 1, candidate, self.FAILURE)
        raise AssertionError("no plan could be carried out")

    def test_corrections_are_children_of_the_same_parent(
        self, proposer: Proposer, brief: Brief, parent: Trial, failed: Trial, history: History
    ) -> None:
        """A correction has the parent of the failed kernel and differs from the failed kernel."""
        assert isinstance(proposer, Responder)
        for corrected in proposer.respond(brief, parent, [failed], history, seed=1):
            assert corrected.parent_id == parent.candidate.id
            assert corrected.source != failed.candidate.source
            assert corrected.proposer == failed.candidate.proposer

    def test_the_same_seed_corrects_the_same(
        self, proposer: Proposer, brief: Brief, parent: Trial, failed: Trial, history: History
    ) -> None:
        """The same seed gives the same correction."""
        assert isinstance(proposer, Responder)
        first = proposer.respond(brief, parent, [failed], history, seed=1)
        assert proposer.respond(brief, parent, [failed], history, seed=1) == first

    def test_what_others_wrote_is_left_to_them(
        self, proposer: Proposer, brief: Brief, parent: Trial, failed: Trial, history: History
    ) -> None:
        """A proposer does not correct candidates of other proposers."""
        assert isinstance(proposer, Responder)
        other = replace(failed.candidate, proposer="somebody else")
        trials = [replace(failed, candidate=other)]
        assert proposer.respond(brief, parent, trials, history, seed=1) == []


class FindsUnsupportedCodeContract(ProposerContract):
    """Tests for proposers that list the code that they will not change."""

    def test_what_is_left_alone_is_a_line_of_the_kernel(
        self, proposer: Proposer, brief: Brief, parent: Trial
    ) -> None:
        """Each entry names a line of the kernel and the reason, in the order of the text, and is
        always the same."""
        assert isinstance(proposer, FindsUnsupportedCode)
        source = parent.candidate.source
        found = proposer.left_alone(brief.target, source, brief.workload)
        assert proposer.left_alone(brief.target, source, brief.workload) == found
        assert [part.line for part in found] == sorted(part.line for part in found)
        for part in found:
            assert 1 <= part.line <= len(source.splitlines())
            assert part.text.strip()
            assert part.reason.strip()

    @pytest.mark.parametrize("source", ["", "this is not a kernel {", "\n\n"])
    def test_where_it_understands_nothing_it_says_so(
        self, proposer: Proposer, brief: Brief, source: str
    ) -> None:
        """If the proposer does not understand a text, it reports this and never raises an
        exception."""
        assert isinstance(proposer, FindsUnsupportedCode)
        for part in proposer.left_alone(brief.target, source, brief.workload):
            assert part.reason.strip()

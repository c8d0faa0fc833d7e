"""Models that leave numbers open: what they are told, and what becomes of their replies."""

from __future__ import annotations

from dataclasses import replace

import pytest
from world import BRIEF, HISTORY, PARENT, PLAN, MemoryCalls, caller, failed

from tilewright.core.config import Settings
from tilewright.core.errors import ConfigurationError
from tilewright.core.templates import MACROS
from tilewright.proposers.llm.messages import Reply
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.proposer import LLMProposer
from tilewright.proposers.parameters import NAME, ParametersFirst
from tilewright.tuner.parameters.searches import GuidedParameters

TEMPLATE = "TUNE(TM, 4, 8, 16)\nTUNE(TN, 4, 8)\nTUNE_REQUIRE(TM >= TN * 2)\nvoid kernel(void) {}\n"
FIRST = "#define TM 8\n#define TN 4\n// requires TM >= TN * 2\nvoid kernel(void) {}"


def proposer(source: str, templates: bool = True, store: MemoryCalls | None = None) -> LLMProposer:
    made, _ = caller(lambda request: Reply(f"```c\n{source}```"), store)
    return LLMProposer(["openai/a"], Prompts(templates=templates), made, templates=templates)


def test_prompts_say_how_numbers_are_left_open_only_where_they_may_be() -> None:
    def prompts(templates: bool) -> list[str]:
        made = Prompts(templates=templates)
        asked = (made.plan(BRIEF, PARENT, HISTORY), made.implement(BRIEF, PARENT, PLAN))
        return [messages[-1].text for messages in asked]

    plan, implement = prompts(templates=True)
    assert "may leave numbers open" in plan
    assert "`TUNE(TM, 16, 32, 64)`" in implement
    assert "`TUNE_REQUIRE(TM * TN <= 1024)`" in implement
    plan, implement = prompts(templates=False)
    assert "open" not in plan
    assert "TUNE" not in implement


def test_a_template_becomes_its_first_instance_with_the_template_in_the_plan() -> None:
    (made,) = proposer(TEMPLATE).implement(BRIEF, PARENT, PLAN, 1, seed=0)
    assert made.source.strip() == FIRST
    assert made.plan is not None
    assert made.plan.text == PLAN.text
    assert made.plan.parameters["tune.TM"] == 8
    assert str(made.plan.parameters["template"]).strip() == TEMPLATE.strip()


def test_its_other_instances_are_tried_once_the_first_one_was_measured() -> None:
    models = proposer(TEMPLATE)
    (made,) = models.implement(BRIEF, PARENT, PLAN, 1, seed=0)
    trial = replace(PARENT, index=1, candidate=made)
    whole = ParametersFirst(models, GuidedParameters(), None, MACROS)
    plans = whole.plan(BRIEF, trial, HISTORY.extended([trial]), 6, 0)
    assert {plan.proposer for plan in plans} == {NAME}
    assert {(p.parameters["tune.TM"], p.parameters["tune.TN"]) for p in plans} == {
        (16, 4),
        (16, 8),
    }


def test_a_correction_does_not_keep_the_template_of_what_it_corrects() -> None:
    plan = replace(PLAN, proposer="openai/a", parameters={"template": TEMPLATE, "tune.TM": 8})
    broken = failed()
    candidate = replace(broken.candidate, plan=plan, proposer="openai/a")
    corrected = proposer("void kernel(int) {}\n").respond(
        BRIEF, PARENT, [replace(broken, candidate=candidate)], HISTORY, 0
    )
    assert corrected[0].plan is not None
    assert set(corrected[0].plan.parameters) == {"repairs"}


def test_a_template_that_cannot_be_filled_in_is_a_reply_that_is_of_no_use() -> None:
    store = MemoryCalls()
    made = proposer("TUNE(TM, large)\nvoid kernel(void) {}\n", store=store)
    assert made.implement(BRIEF, PARENT, PLAN, 1, seed=0) == []
    assert "template (line 1 of the template" in store.calls("run")[0].note


def test_without_templates_a_reply_stays_as_it_is() -> None:
    (made,) = proposer(TEMPLATE, templates=False).implement(BRIEF, PARENT, PLAN, 1, seed=0)
    assert made.source.strip() == TEMPLATE.strip()


def test_templates_and_turns_do_not_go_together() -> None:
    with pytest.raises(ConfigurationError, match="cannot be combined"):
        Settings(templates=True, turns=2)

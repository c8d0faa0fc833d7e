"""Golden prompts, and the checklist of components the papers list for each phase."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from world import BRIEF, HISTORY, PARENT, PLAN, START, caller, child, failed

from tilewright.core.config import Settings
from tilewright.core.plugins import load_target
from tilewright.core.records import (
    Brief,
    Candidate,
    History,
    Measured,
    MenuOption,
    Schedule,
    Trial,
)
from tilewright.proposers.llm.messages import Message, Reply, Request
from tilewright.proposers.llm.prompts.render import COMPONENTS, Prompts
from tilewright.proposers.llm.proposer import LLMProposer
from tilewright.search.beam import BeamSearch
from tilewright.search.proposing import Batches, SearchTask

SAMPLED_PLANS = 3
SAMPLED_IMPLEMENTATIONS = 2
GOLDEN = Path(__file__).parents[2] / "golden" / "prompts"


def text(messages: tuple[Message, ...]) -> str:
    return "\n\n".join(m.text for m in messages) + "\n"


def grandchild() -> tuple[Trial, History]:
    first = child(1, 800.0)
    plan = replace(PLAN, option="widen", parent_id=first.candidate.id)
    second = Candidate(START + "// 2\n", first.candidate.id, plan, "m")
    trial = replace(child(2, 500.0), candidate=second)
    return trial, HISTORY.extended([first, trial])


PROMPTS = {
    "plan": lambda p: p.plan(BRIEF, *grandchild()),
    "implement": lambda p: p.implement(BRIEF, PARENT, PLAN),
    "repair": lambda p: p.repair(BRIEF, PARENT, failed()),
}


@pytest.mark.parametrize("edits", [False, True])
@pytest.mark.parametrize("phase", PROMPTS)
def test_golden(phase: str, edits: bool) -> None:
    """TILEWRIGHT_UPDATE_GOLDEN=1 writes the files anew; look at the difference then."""
    rendered = text(PROMPTS[phase](Prompts(edits=edits)))
    file = GOLDEN / f"{phase}{'-edits' if edits else ''}.txt"
    if os.environ.get("TILEWRIGHT_UPDATE_GOLDEN"):
        file.write_text(rendered)
    assert rendered == file.read_text()


# What the papers' sections on planning, implementing and diversity put into a prompt, and the words
# by which each is recognised here.
PLAN_CHECKLIST = {
    "accelerator ISA": "`copy(from, to)` moves 8 bytes",
    "current code": START.strip(),
    "feedback: latency": "latency: 1,000 cycles",
    "feedback: utilisation": "25.0% of its peak",
    "feedback: scratchpad use": "scratchpad kb: 96",
    "feedback: what binds": "most time goes to: dma wait (70%)",
    "menu, after dropout": "`widen`: Move more bytes",
    "instruction": "Select exactly one optimisation",
    "rules": "End with a fence.",
    "iteration t of T": "iteration 3 of 15",
}
IMPLEMENT_CHECKLIST = {
    "accelerator ISA": "`copy(from, to)` moves 8 bytes",
    "current code": START.strip(),
    "the plan": "Tile loop i by 4.",
    "in-context example triggered by the plan": "Split `i` into `io` and `ii`.",
    "instruction": "Carry out the plan",
    "rules": "Use no library.",
}


# What they do for diversity shows in which prompts are sent, to whom and how often. For each way:
# how many different ones there are among the requests of a search, and what switches it off.
DIVERSITY_CHECKLIST: dict[str, tuple[Callable[[Sequence[Request]], int], int, str]] = {
    "optimisation menu dropout, anew for each parent and iteration": (
        lambda sent: len({offered(r) for r in sent if r.phase == "plan"}),
        4,
        "dropout",
    ),
    "ensemble: plans of several models": (
        lambda sent: len({r.model for r in sent if r.phase == "plan"}),
        3,
        "ensemble",
    ),
    "ensemble: implementations of several models": (
        lambda sent: len({r.model for r in sent if r.phase == "implement"}),
        3,
        "ensemble",
    ),
    "several plans sampled for each parent": (
        lambda sent: len({r.key for r in sent if r.phase == "plan"}),
        4 * SAMPLED_PLANS,
        "",
    ),
    "several implementations sampled for each plan": (
        lambda sent: len({r.key for r in sent if r.phase == "implement"}),
        4 * SAMPLED_PLANS * SAMPLED_IMPLEMENTATIONS,
        "",
    ),
}


def offered(request: Request) -> str:
    """The menu in a plan prompt."""
    prompt = text(request.messages)
    return prompt[prompt.index("# Optimisations to choose from") :].partition("\n# ")[0]


def sent_in_two_iterations(*without: str) -> list[Request]:
    """What a search asks for two parents in each of two iterations."""
    settings = Settings(
        plans=SAMPLED_PLANS, implementations=SAMPLED_IMPLEMENTATIONS, without=without, dropout=0.5
    )
    made, transport = caller(lambda r: Reply(f"OPTION: other\nBy {r.key}."))
    names = ("openai/a", "openai/b", "openai/c")
    asked = names[:1] if "ensemble" in without else names
    menu = tuple(MenuOption(f"o{i}", f"Option {i}.") for i in range(12))
    batches = Batches(
        SearchTask(
            BRIEF.workload,
            replace(BRIEF.target, menu=menu),
            LLMProposer(asked, Prompts(without), made),
            settings,
        ),
        BeamSearch(2, 15, 4),
        lambda event: None,
    )
    history = HISTORY.extended([child(1, 800.0)])
    for iteration in (1, 2):
        batches.propose(iteration, list(history), history)
    return transport.sent


@pytest.mark.parametrize("component", DIVERSITY_CHECKLIST)
def test_diversity_comes_from(component: str) -> None:
    count, wanted, switch = DIVERSITY_CHECKLIST[component]
    assert count(sent_in_two_iterations()) == wanted
    if switch:
        assert count(sent_in_two_iterations(switch)) == 1


@pytest.mark.parametrize("component", PLAN_CHECKLIST)
def test_plan_prompts_hold(component: str) -> None:
    assert PLAN_CHECKLIST[component] in text(Prompts().plan(BRIEF, PARENT, HISTORY))


@pytest.mark.parametrize("component", IMPLEMENT_CHECKLIST)
def test_implement_prompts_hold(component: str) -> None:
    assert IMPLEMENT_CHECKLIST[component] in text(Prompts().implement(BRIEF, PARENT, PLAN))


def test_plan_prompts_hold_the_ancestors() -> None:
    rendered = text(PROMPTS["plan"](Prompts()))
    assert "1. `tile`: 800 cycles" in rendered
    assert "2. `widen`: 500 cycles" in rendered


def test_plan_prompts_hold_what_made_a_similar_kernel_fast() -> None:
    schedule = Schedule("toyaccel:copy-64", (PLAN,), (9000.0, 4000.0), "cycles")
    rendered = text(Prompts().plan(replace(BRIEF, schedule=schedule), PARENT, HISTORY))
    assert "For toyaccel:copy-64 these steps were taken" in rendered
    assert "1. `tile` (9,000 -> 4,000 cycles): Tile loop i by 4." in rendered
    assert "similar kernel" not in text(Prompts().plan(BRIEF, PARENT, HISTORY))


def test_a_target_may_say_itself_what_binds() -> None:
    assert isinstance(PARENT.outcome, Measured)
    told = replace(PARENT, outcome=replace(PARENT.outcome, feedback="the DMA, on line 2"))
    rendered = text(Prompts().plan(BRIEF, told, HISTORY))
    assert "- the DMA, on line 2" in rendered
    assert "most time goes to" not in rendered


def test_repair_prompts_hold_stage_line_and_mismatch() -> None:
    rendered = text(PROMPTS["repair"](Prompts()))
    assert "compiles, but fails its check" in rendered
    assert "->    2 |   copy(y, x);" in rendered
    assert "y[0][3]: got 0, expected 7" in rendered


def test_options_dropped_from_the_menu_are_not_named() -> None:
    brief = replace(BRIEF, menu=BRIEF.menu[:1])
    assert "`tile`" not in text(Prompts().plan(brief, PARENT, HISTORY))


def test_examples_wait_for_their_trigger() -> None:
    plan = replace(PLAN, text="Move more at a time.")
    assert "# Example" not in text(Prompts().implement(BRIEF, PARENT, plan))


@pytest.mark.parametrize(
    ("component", "words"),
    [
        ("isa", "`copy(from, to)` moves 8 bytes"),
        ("menu", "Move more bytes"),
        ("feedback", "latency: 500 cycles"),
        ("history", "800 cycles"),
        ("examples", "Split `i`"),
    ],
)
def test_each_component_can_be_switched_off_alone(component: str, words: str) -> None:
    phase = "implement" if component == "examples" else "plan"
    assert words in text(PROMPTS[phase](Prompts()))
    assert words not in text(PROMPTS[phase](Prompts(without=[component])))
    for other in set(COMPONENTS) - {component}:
        assert words in text(PROMPTS[phase](Prompts(without=[other])))


def test_the_stable_part_is_the_same_for_all_prompts() -> None:
    stable = {PROMPTS[phase](Prompts())[0] for phase in PROMPTS}
    assert len(stable) == 1
    assert stable.pop().stable


def test_gemmini_prompts_hold_everything() -> None:
    target = load_target("gemmini").brief()
    task = load_target("gemmini").open("gemm-512x512x512", {})
    brief = Brief(task.workload, target, target.menu, 1, 15)
    parent = replace(PARENT, candidate=Candidate(task.start))
    rendered = text(Prompts().plan(brief, parent, History([parent])))
    for command in target.commands:
        assert command.name in rendered, command.name
    for option in target.menu:
        assert option.text in rendered
    assert target.rules.strip() in rendered
    assert task.start.strip() in rendered
    assert "- `A`: int8[512][512], input" in rendered

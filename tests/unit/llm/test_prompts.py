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
    Failed,
    History,
    Measured,
    MenuOption,
    Outcome,
    Schedule,
    Tolerance,
    Trial,
)
from tilewright.proposers.llm.attempts import describe_ancestors, describe_others, describe_tried
from tilewright.proposers.llm.conversations import Terms
from tilewright.proposers.llm.messages import Message, Reply, Request
from tilewright.proposers.llm.prompts.render import COMPONENTS, Prompts
from tilewright.proposers.llm.proposer import LLMProposer
from tilewright.search.beam import BeamSearch
from tilewright.search.in_process import StepByStep
from tilewright.search.proposing import Batches
from tilewright.search.steps import SearchTask
from tilewright.tools import toolbox

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


def attempted() -> tuple[Trial, History]:
    """The grandchild after three attempts to make it faster: wrong, slower, and faster."""
    trial, history = grandchild()
    wrong = Candidate(
        START + "// 3\n", trial.candidate.id, replace(PLAN, text="Tile by 2.\n\nHow."), "m"
    )
    failure = Failed("check", "wrong_result", "y[0][3]: got 0, expected 7.")
    slower = replace(wrong, source=START + "// 4\n", plan=replace(PLAN, text="Tile by 8."))
    faster = replace(wrong, source=START + "// 5\n", plan=replace(PLAN, text="Tile by 16."))
    return trial, history.extended(
        [
            Trial(3, 2, wrong, failure),
            replace(child(4, 510.0), candidate=slower),
            replace(child(5, 490.0), candidate=faster),
        ]
    )


PROMPTS = {
    "plan": lambda p: p.plan(BRIEF, *grandchild()),
    "plan with attempts": lambda p: p.plan(BRIEF, *attempted()),
    "implement": lambda p: p.implement(BRIEF, PARENT, PLAN),
    "repair": lambda p: p.repair(BRIEF, PARENT, failed()),
}
TOOLS = [(tool.usage, tool.text) for tool in toolbox.TOOLS.values()]


def test_golden_turns() -> None:
    rendered = text(
        Prompts().turns(
            BRIEF,
            *attempted(),
            0,
            Terms(6, TOOLS, 4, 9, ("cpu.load_use: 2, cycles until a word can be used",)),
        )
    )
    file = GOLDEN / "turns.txt"
    if os.environ.get("TILEWRIGHT_UPDATE_GOLDEN"):
        file.write_text(rendered)
    assert rendered == file.read_text()


@pytest.mark.parametrize("edits", [False, True])
@pytest.mark.parametrize("phase", PROMPTS)
def test_golden(phase: str, edits: bool) -> None:
    """TILEWRIGHT_UPDATE_GOLDEN=1 writes the files anew; look at the difference then."""
    rendered = text(PROMPTS[phase](Prompts(edits=edits)))
    file = GOLDEN / f"{phase.replace(' ', '-')}{'-edits' if edits else ''}.txt"
    if os.environ.get("TILEWRIGHT_UPDATE_GOLDEN"):
        file.write_text(rendered)
    assert rendered == file.read_text()


# What the papers' sections on planning, implementing and diversity put into a prompt, and the words
# by which each is recognised here.
PLAN_CHECKLIST = {
    "accelerator ISA": "`copy(from, to)` moves 8 bytes",
    "current code": START.strip(),
    "feedback: latency": "latency: 1,000 cycles",
    "feedback: utilisation": "25.0% of the peak",
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
    "the plan's option and what it should save": "OPTION: tile: Tile the loops.\nEXPECTED: half",
    "in-context example of the plan's option": "Split `i` into `io` and `ii`.",
    "instruction": "Carry out the plan",
    "rules": "Use no library.",
}


# What they do for diversity shows in which prompts are sent, to whom and how often. For each way:
# how many different ones there are among the requests of a search, and what switches it off.
DIVERSITY_CHECKLIST: dict[str, tuple[Callable[[Sequence[Request]], int], int, str]] = {
    "optimisation menu dropout, anew for each plan": (
        lambda sent: len({offered(r) for r in sent if r.phase == "plan"}),
        4 * SAMPLED_PLANS,
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
    proposer = LLMProposer(asked, Prompts(without), made)
    task = SearchTask(BRIEF.workload, replace(BRIEF.target, menu=menu), proposer, settings)
    batches = Batches(task, BeamSearch(2, 15, 4), StepByStep(task), lambda event: None)
    history = HISTORY.extended([child(1, 800.0)])
    for iteration in (1, 2):
        list(batches.stream(iteration, list(history), history))
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
    assert "1. `tile` (Tile loop i by 4.): 1,000 cycles -> 800 cycles" in rendered
    assert "): 800 cycles -> 500 cycles" in rendered


def test_plan_prompts_hold_what_made_a_similar_kernel_fast() -> None:
    schedule = Schedule("toyaccel:copy-64", (PLAN,), (9000.0, 4000.0), "cycles")
    rendered = text(Prompts().plan(replace(BRIEF, schedules=(schedule,)), PARENT, HISTORY))
    assert "For toyaccel:copy-64, the following steps were applied" in rendered
    assert "1. `tile` (9,000 -> 4,000 cycles): Tile loop i by 4." in rendered
    assert "carries out step" not in rendered
    assert "similar kernel" not in text(Prompts().plan(BRIEF, PARENT, HISTORY))
    taken_up = replace(BRIEF, schedules=(schedule,), step=0)
    assert "your plan carries out step 1" in text(Prompts().plan(taken_up, PARENT, HISTORY))


def test_plan_prompts_name_the_latency_at_which_the_search_stops() -> None:
    brief = replace(BRIEF, stop_within=0.01)
    outcome = PARENT.outcome
    assert isinstance(outcome, Measured)
    bounded = replace(PARENT, outcome=replace(outcome, bound=900.0))
    told = (
        "The search stops once a kernel takes at most 909 cycles, which is 1 % above the bound of "
        "900 cycles. Even the fastest kernel may need more than this bound, which does not"
    )
    assert told in text(Prompts().plan(brief, bounded, HISTORY))
    for asked, parent in [(BRIEF, bounded), (brief, PARENT)]:
        assert "The search stops" not in text(Prompts().plan(asked, parent, HISTORY))


def test_plan_prompts_mark_the_lines_that_the_measurement_names() -> None:
    outcome = PARENT.outcome
    assert isinstance(outcome, Measured)
    named = replace(PARENT, outcome=replace(outcome, feedback="dma wait 9 at line 2."))
    rendered = text(Prompts().plan(BRIEF, named, HISTORY))
    assert rendered.count("// line") == 1
    assert "\n  copy(x, y);  // line 2\n" in rendered
    assert "// line" not in text(Prompts().plan(BRIEF, PARENT, HISTORY))


def test_kernels_that_are_to_be_changed_have_no_marks() -> None:
    outcome = PARENT.outcome
    assert isinstance(outcome, Measured)
    named = replace(PARENT, outcome=replace(outcome, feedback="dma wait 9 at line 2."))
    at_once = text(Prompts(without=["plan"]).plan(BRIEF, named, HISTORY))
    implemented = text(Prompts().implement(BRIEF, named, PLAN))
    assert "// line" not in at_once + implemented
    listed = "that the measurement names, counted from 1:\n- line 2: `copy(x, y);`\n"
    assert listed in at_once
    assert listed in implemented
    told = replace(outcome, feedback="line 2: 9 cycles `copy(x, y);`")
    quoted = text(Prompts().implement(BRIEF, replace(PARENT, outcome=told), PLAN))
    assert "that the measurement names" not in quoted


def test_dropout_spares_the_options_that_the_measurement_recommends() -> None:
    outcome = PARENT.outcome
    assert isinstance(outcome, Measured)
    last = BRIEF.menu[-1].id
    brief = replace(BRIEF, dropout=0.99)
    told = replace(PARENT, outcome=replace(outcome, feedback=f"Less code helps (`{last}`)."))
    for number in range(8):
        assert last in {option.id for option in Prompts().menu(brief, told, number)}
    offered = [o.id for n in range(8) for o in Prompts().menu(brief, PARENT, n)]
    assert offered.count(last) < 8
    without = Prompts(without=["feedback"])
    assert [o.id for n in range(8) for o in without.menu(brief, told, n)] == offered


def test_dropout_spares_the_options_that_notes_on_the_compiled_code_recommend() -> None:
    last = BRIEF.menu[-1].id
    brief = replace(BRIEF, dropout=0.99)
    prompts = Prompts(notes=lambda source: [f"Line 3 calls expf (`{last}`)."])
    for number in range(8):
        assert last in {option.id for option in prompts.menu(brief, PARENT, number)}


def test_indented_lines_of_feedback_become_a_list_of_their_own() -> None:
    outcome = PARENT.outcome
    assert isinstance(outcome, Measured)
    told = replace(PARENT, outcome=replace(outcome, feedback="Costly lines:\n  line 3: 9\nEnd."))
    assert "\n- Costly lines:\n  - line 3: 9\n- End.\n" in text(
        Prompts().plan(BRIEF, told, HISTORY)
    )


def test_dropout_leaves_room_for_a_change_of_ones_own() -> None:
    """No few options drawn at random fit every kernel."""
    own = MenuOption("other", "Another change.")
    brief = replace(BRIEF, menu=(*BRIEF.menu, own), dropout=0.99)
    for number in range(8):
        assert own in Prompts().menu(brief, PARENT, number)


def test_a_target_may_say_itself_what_binds() -> None:
    assert isinstance(PARENT.outcome, Measured)
    told = replace(PARENT, outcome=replace(PARENT.outcome, feedback="the DMA, on line 2"))
    rendered = text(Prompts().plan(BRIEF, told, HISTORY))
    assert "- the DMA, on line 2" in rendered
    assert "most time goes to" not in rendered


def test_plan_prompts_hold_what_was_tried() -> None:
    rendered = text(PROMPTS["plan with attempts"](Prompts()))
    assert "- `tile` (Tile by 2.): wrong result: y[0][3]: got 0, expected 7.\n" in rendered
    assert "- `tile` (Tile by 8.): slower, 510 cycles (+2.0%)\n" in rendered
    assert "- `tile` (Tile by 16.): faster, " in rendered
    assert "What was tried" not in text(PROMPTS["plan"](Prompts()))


def test_plan_prompts_name_the_fastest_kernels_of_other_branches() -> None:
    """Neither ancestors nor attempts on the kernel; of a template's instances the fastest."""
    trial, history = grandchild()
    branch = [replace(child(n, 400.0 + 100 * n), index=n) for n in range(3, 9)]
    first = replace(branch[0], candidate=_planned(30, "Two templates of rows.", {"template": "t"}))
    made = {"instance": first.candidate.id, "tune.TM": 16}
    instance = Trial(9, 2, _planned(31, "Set TM = 16.", made), measured(450.0, None))
    other = Trial(10, 2, _planned(32, "Reorder.", {}), measured(455.0, None))
    history = history.extended([first, *branch[1:], instance, other])
    assert describe_others(trial, history) == [
        "`tile` (Two templates of rows.): 450 cycles (-10.0%)",
        "`tile` (Reorder.): 455 cycles (-9.0%)",
        "`tile` (Tile loop i by 4.): 800 cycles (+60.0%)",
        "`tile` (Tile loop i by 4.): 900 cycles (+80.0%)",
    ]
    own = describe_others(instance, history)
    assert not any("Two templates" in line for line in own)
    rendered = text(Prompts().plan(BRIEF, trial, history))
    said = (
        "Each line says what was done last, the latency, and the difference from the kernel above."
    )
    start = f"# The fastest other kernels of this search\n\n{said}\n\n- `tile` (Two templates"
    assert start in rendered
    assert "other kernels" not in text(Prompts(without=["failed"]).plan(BRIEF, trial, history))


def test_the_values_of_a_template_are_one_line_of_what_was_tried() -> None:
    """They would else push eight kernels of other structure out of the list. The values that were
    tried before those of the kernel are told, too: a new plan should not try them again."""
    trial, history = grandchild()
    brings: dict[str, str | int] = {"template": "t", "tune.TM": 1}
    first = Trial(3, 2, _planned(39, "Tile it.", brings), measured(480.0, {}))
    made = [{"instance": first.candidate.id, "tune.TM": n} for n in (2, 3, 4, 5)]
    outcomes = (measured(450.0, {}), measured(600.0, {}), measured(470.0, {}), measured(510.0, {}))
    tried = [
        Trial(4 + n, 3, _planned(40 + n, f"Set TM = {n}.", dict(one)), outcome)
        for n, (one, outcome) in enumerate(zip(made, outcomes, strict=True))
    ]
    wrong = Failed("check", "wrong_result", "y[0]: got 1.")
    failed = Trial(8, 3, _planned(44, "Set TM = 6.", {**made[0], "tune.TM": 6}), wrong)
    history = history.extended([first, *tried, failed])
    assert describe_tried(tried[0], history) == [
        "other values of its open numbers, 5: none faster than TM = 2; the fastest are "
        "TM = 4: 470 cycles (+4.4%); TM = 1: 480 cycles (+6.7%); TM = 5: 510 cycles (+13.3%); "
        "1 failed, the last one was TM = 6 (wrong result)"
    ]
    assert describe_tried(first, history) == []
    assert not any("open numbers" in line for line in describe_tried(trial, history))


def _planned(number: int, said: str, parameters: dict[str, str | int]) -> Candidate:
    plan = replace(PLAN, text=said, parameters=parameters)
    return Candidate(START + f"// {number}\n", PARENT.candidate.id, plan, "m")


def test_a_search_that_never_stops_near_the_bound_asks_for_any_gain() -> None:
    """Near the bound, no change makes a kernel 1 % faster, and models would only answer `none`."""
    trial, history = grandchild()
    stops = replace(BRIEF, stop_within=0.01)
    assert "at least 1 % faster, do not" in text(Prompts().plan(stops, trial, history))
    never = replace(BRIEF, stop_within=0.0)
    assert "make this kernel faster, do not" in text(Prompts().plan(never, trial, history))


def test_a_corrected_attempt_counts_as_its_correction() -> None:
    trial, history = attempted()
    plan = replace(PLAN, parameters={"repairs": history[3].candidate.id})
    corrected = Candidate(START + "// 6\n", trial.candidate.id, plan, "m")
    history = history.extended([replace(child(6, 600.0), candidate=corrected)])
    rendered = text(Prompts().plan(BRIEF, trial, history))
    assert "wrong result" not in rendered
    assert "slower, 600 cycles (+20.0%)" in rendered


def attempts(
    parent: Trial, outcome: Outcome, causes: Sequence[str] = (), expected: float | None = None
) -> list[str]:
    """What is told of one attempt on a kernel that ended with `outcome`."""
    plan = replace(PLAN, expected_gain=expected)
    candidate = Candidate(START + "// 9\n", parent.candidate.id, plan, "m")
    return describe_tried(parent, History([parent, Trial(1, 1, candidate, outcome)]), causes)


def test_of_a_slower_attempt_the_causes_are_told_that_changed_most() -> None:
    before = measured(1000.0, {"busy": 600.0, "wait": 300.0, "port": 50.0, "cpu": 50.0})
    after = measured(1100.0, {"busy": 570.0, "wait": 420.0, "port": 900.0, "cpu": 59.0})
    parent = replace(PARENT, outcome=before)
    told = attempts(parent, after, ("busy", "wait", "cpu"))
    assert told == [
        "`tile` (Tile loop i by 4.): slower, 1,100 cycles (+10.0%): wait +120, busy -30"
    ]
    assert "port +850, wait +120" in attempts(parent, after)[0]
    assert attempts(parent, before)[0].endswith("as fast, 1,000 cycles (+0.0%)")


def test_what_a_plan_expected_is_told_beside_what_came_of_it() -> None:
    """So that a model sees by how much the forecasts of this search were wrong, and why."""
    before = measured(1000.0, {"busy": 600.0, "wait": 300.0, "cpu": 100.0})
    parent = replace(PARENT, outcome=before)
    slower = measured(1100.0, {"busy": 600.0, "wait": 400.0, "cpu": 100.0})
    faster = measured(800.0, {"busy": 600.0, "wait": 50.0, "cpu": 150.0})
    assert attempts(parent, slower, expected=1.25)[0].endswith(
        "slower, 1,100 cycles (+10.0%), 800 were expected: wait +100"
    )
    (told,) = attempts(parent, faster, expected=2.0)
    outcome_of_it = "800 cycles (-20.0%), 500 were expected: wait -250, cpu +50"
    assert told.endswith(f"faster, {outcome_of_it}")
    plan = replace(PLAN, expected_gain=2.0)
    made = Trial(1, 1, Candidate(START + "// 9\n", parent.candidate.id, plan, "m"), faster)
    assert describe_ancestors(made, History([parent, made])) == [
        "`tile` (Tile loop i by 4.): 1,000 cycles -> 800 cycles, 500 were expected: wait -250, "
        "cpu +50"
    ]
    other = _planned(70, "Another.", {})
    history = History([parent, made, Trial(2, 1, other, slower)])
    assert describe_others(made, history, ("wait", "cpu")) == [
        "`tile` (Another.): 1,100 cycles (+37.5%): wait +350, cpu -50"
    ]


def test_where_no_causes_are_counted_the_compiled_loops_of_other_kernels_are_told() -> None:
    """On a processor without counters, only they can say what made a kernel slow."""
    parent, slower = replace(PARENT, outcome=measured(1000.0, {})), measured(1100.0, {})
    made = Trial(1, 1, _planned(71, "Unroll.", {}), slower)
    note = "Innermost loops: line 55: 64-byte vectors, 9 instructions; line 2: scalar, 5"
    history = History([parent, made])
    shown = "compiled as 64-byte vectors, 9 instructions; scalar, 5"
    (told,) = describe_tried(parent, history, (), lambda source: [note])
    assert told == f"`tile` (Unroll.): slower, 1,100 cycles (+10.0%); {shown}"
    assert describe_tried(parent, history)[0].endswith("(+10.0%)")
    beside = Trial(2, 1, _planned(72, "Reorder.", {}), measured(900.0, {}))
    history = history.extended([beside])
    (told,) = describe_others(beside, history, (), lambda source: [note])
    assert told.endswith(f"1,100 cycles (+22.2%); {shown}")
    noted = Prompts(notes=lambda source: [note])
    assert shown in text(noted.plan(BRIEF, parent, history))
    assert shown not in text(Prompts(without=["feedback"], notes=lambda source: [note]).plan(
        BRIEF, parent, history
    ))  # fmt: skip


def test_notes_on_other_kernels_end_with_a_whole_loop() -> None:
    parent, slower = replace(PARENT, outcome=measured(1000.0, {})), measured(1100.0, {})
    made = Trial(1, 1, _planned(71, "Unroll.", {}), slower)
    loop = f"line 5: scalar, 9 instructions ({'x' * 90})"
    notes = [f"Innermost loops: {loop}; {loop}; {loop}.", "What else helps."]
    (told,) = describe_tried(parent, History([parent, made]), (), lambda source: notes)
    one = loop.removeprefix("line 5: ")
    assert told.endswith(f"; compiled as {one}; {one}")


def test_only_kernels_that_are_shown_are_compiled_for_their_notes() -> None:
    parent = replace(PARENT, outcome=measured(1000.0, {}))
    trials = [
        Trial(n, 1, _planned(80 + n, f"Change {n}.", {}), measured(500.0 + 50 * n, {}))
        for n in range(1, 31)
    ]
    compiled: list[str] = []

    def note(source: str) -> list[str]:
        compiled.append(source)
        return [f"Loops: line 2: {len(compiled)} instructions"]

    told = describe_tried(parent, History([parent, *trials]), (), note)
    assert all("compiled as" in line for line in told)
    assert len(told) == len(compiled) == 12


def test_kernels_derived_from_this_one_are_named() -> None:
    trials = [
        Trial(n, 1, _planned(60 + n, f"Change {n}.", {}), measured(latency, None))
        for n, latency in enumerate((450.0, 400.0, 490.0, 480.0, 470.0, 1100.0), 1)
    ]
    told = describe_tried(PARENT, History([PARENT, *trials]))
    assert told[:2] == [
        "`tile` (Change 2.): faster, 400 cycles (-60.0%)",
        "`tile` (Change 1.): faster, 450 cycles (-55.0%)",
    ]
    assert [line[:18] for line in told[2:4]] == ["`tile` (Change 5.)", "`tile` (Change 4.)"]
    assert len(told) == 5
    assert "`tile` (Change 6.): slower, 1,100 cycles (+10.0%)" in told[4]


def test_an_attempt_that_failed_often_hides_no_other_attempt() -> None:
    failures = [Failed("check", "wrong_result", "y[0]: got 1.")] * 9
    outcomes = [measured(1100.0, None), *failures]
    texts = ["Another change.", *["The same change."] * 9]
    trials = [
        Trial(n, 1, _planned(60 + n, text, {}), outcome)
        for n, (text, outcome) in enumerate(zip(texts, outcomes, strict=True), 1)
    ]
    told = describe_tried(PARENT, History([PARENT, *trials]))
    assert [line[:26] for line in told] == [
        "`tile` (Another change.): ",
        "`tile` (The same change.):",
    ]


def test_of_an_attempt_that_was_stopped_or_failed_the_first_reason_is_told() -> None:
    stopped = Failed("measure", "slower_than_limit", "stopped", bound=1500.0)
    assert attempts(PARENT, stopped)[0].endswith("slower, takes at least 1,500 cycles (+50.0%)")
    broken = Failed("build", "compile_error", CLANG_LOG, 3)
    reason = "): compile error: use of undeclared identifier 'missing'"
    assert attempts(PARENT, broken)[0].endswith(reason)
    wrong = Failed("check", "wrong_result", "y[0]: got 1.\ny[1]: got 2.")
    assert attempts(PARENT, wrong)[0].endswith("): wrong result: y[0]: got 1.")


def measured(latency: float, breakdown: dict[str, float] | None) -> Measured:
    """With this breakdown, or without one with that of the starting kernel."""
    outcome = PARENT.outcome
    assert isinstance(outcome, Measured)
    causes = outcome.breakdown if breakdown is None else breakdown
    return replace(outcome, latency=latency, breakdown=causes)


def test_in_one_phase_the_kernel_is_asked_for_at_once() -> None:
    rendered = text(PROMPTS["plan"](Prompts(without=["plan"])))
    assert "Answer with the complete new kernel" in rendered
    assert "Make a plan" not in rendered
    assert "another engineer" not in rendered


def test_the_filter_comes_before_the_dropout() -> None:
    menu = tuple(MenuOption(f"o{n}", f"Option {n}.") for n in range(12))
    brief = replace(BRIEF, menu=menu, dropout=0.5)

    def first_half(
        target: object, parent: Trial, menu: Sequence[MenuOption]
    ) -> tuple[MenuOption, ...]:
        assert parent is PARENT
        return tuple(menu[:6])

    prompts = Prompts(applicable=first_half)
    offered = [prompts.menu(brief, PARENT, number) for number in range(20)]
    assert {option for menu in offered for option in menu} == set(menu[:6])
    everything = Prompts(["filter"], applicable=first_half)
    assert any(set(everything.menu(brief, PARENT, n)) - set(menu[:6]) for n in range(20))


def test_repair_prompts_hold_stage_line_and_mismatch() -> None:
    rendered = text(PROMPTS["repair"](Prompts()))
    assert "compiles, but fails its check" in rendered
    assert "->    2 |   copy(y, x);" in rendered
    assert "y[0][3]: got 0, expected 7" in rendered


GCC_LOG = """kernel.c: In function 'kernel':
kernel.c:2:3: warning: unused variable 'k' [-Wunused-variable]
kernel.c:3:9: error: 'missing' undeclared (first use in this function)
    3 |   a = missing(b);
      |       ^~~~~~~
kernel.c:1:20: note: in expansion of macro 'TWICE'
kernel.c: In function 'other':
kernel.c:9:1: error: expected ';' before '}' token
    9 | }
kernel.c:12:1: error: unknown type name 'x'
"""
CLANG_LOG = """./kernel.c:3:9: error: use of undeclared identifier 'missing'
    3 |   a = missing(b);
      |       ^
1 error generated.
"""


def test_repair_prompts_hold_the_first_error_of_a_compiler_and_its_notes() -> None:
    candidate = Candidate("one\ntwo\nthree\n", PARENT.candidate.id, PLAN, "m")
    for log, line, further in ((GCC_LOG, 3, True), (CLANG_LOG, 3, False)):
        trial = Trial(1, 1, candidate, Failed("build", "compile_error", log, line))
        prompt = text(Prompts().repair(BRIEF, PARENT, trial))
        assert "missing" in prompt
        assert ("in expansion of macro" in prompt) == further
        assert ("(2 more errors left out" in prompt) == further
        for left_out in ("unused variable", "In function", "unknown type name", "generated"):
            assert left_out not in prompt


def test_a_log_without_an_error_message_is_shown_whole() -> None:
    candidate = Candidate("one\n", PARENT.candidate.id, PLAN, "m")
    log = "the compiler failed with status 4.\nkernel.c:1: warning: odd"
    trial = Trial(1, 1, candidate, Failed("build", "compile_error", log))
    assert log in text(Prompts().repair(BRIEF, PARENT, trial))


def test_options_dropped_from_the_menu_are_not_named() -> None:
    brief = replace(BRIEF, menu=BRIEF.menu[:1])
    assert "`tile`" not in text(Prompts().plan(brief, PARENT, HISTORY))


def test_examples_wait_for_their_option() -> None:
    plan = replace(PLAN, option="widen")
    assert "# Example" not in text(Prompts().implement(BRIEF, PARENT, plan))


@pytest.mark.parametrize(
    ("component", "words"),
    [
        ("isa", "`copy(from, to)` moves 8 bytes"),
        ("menu", "Move more bytes"),
        ("feedback", "latency: 500 cycles"),
        ("history", "800 cycles"),
        ("examples", "Split `i`"),
        ("costs", "A copy takes 3 cycles"),
        ("done", "`OPTION: none`"),
        ("failed", "slower, 510 cycles"),
    ],
)
def test_each_component_can_be_switched_off_alone(component: str, words: str) -> None:
    phase = {"examples": "implement", "failed": "plan with attempts"}.get(component, "plan")
    assert words in text(PROMPTS[phase](Prompts()))
    assert words not in text(PROMPTS[phase](Prompts(without=[component])))
    for other in set(COMPONENTS) - {component, "plan"}:  # one phase has no plans to speak of
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
        # Other names for the same commands are for kernels that people bring, not for models.
        assert command.unit == "macro" or command.name in rendered, command.name
    for option in target.menu:
        assert option.text in rendered
    assert target.rules.strip() in rendered
    assert task.start.strip() in rendered
    assert "- `A`: int8[512][512], input" in rendered


def test_prompts_state_the_formula_and_the_precision_of_their_own_workload() -> None:
    target = load_target("trainium")
    shown = {}
    for name in ("attention-512x128", "conv2d-1x128x8x16x128-k3", "rmsnorm-128x600"):
        task = target.open(name, {})
        brief = Brief(task.workload, target.brief(), target.brief().menu, 1, 15)
        parent = replace(PARENT, candidate=Candidate(task.start))
        shown[name.partition("-")[0]] = text(Prompts().plan(brief, parent, History([parent])))
    wanted = {
        "attention": ("softmax(q.T k) v.T", "queries and keys tfloat32"),
        "conv2d": ("filt[k][c][i][j]", "operands of products may be bfloat16"),
        "rmsnorm": ("a / sqrt(mean of a^2", "all values have the errors of float32"),
    }
    for name, words in wanted.items():
        for other, prompt in shown.items():
            assert all((word in prompt) == (other == name) for word in words), (name, other)
    folder = replace(task.workload, source="/kernels/rmsnorm")
    assert not target.brief().computation(folder)


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("softmax-64x128", "softmax of each of R rows"),
        ("conv3d-1x2x8x8x8x4-k3", "F[k][c], R x R x R"),
    ],
)
def test_prompts_for_a_gpu_state_what_is_computed(name: str, line: str) -> None:
    target = load_target("cuda")
    task = target.open(name, {})
    brief = Brief(task.workload, target.brief(), target.brief().menu, 1, 15)
    parent = replace(PARENT, candidate=Candidate(task.start))
    assert line in text(Prompts().plan(brief, parent, History([parent])))


@pytest.mark.parametrize(
    ("reference", "line"),
    [
        (
            '"""out = a + 1,\nin float32."""\ndef reference(a):\n    """Not this."""\n',
            "out = a + 1, in",
        ),
        ('def reference(a):\n    """out = a + 2."""\n', "out = a + 2."),
        (
            "def reference(a):  # as it is\n    return a\n",
            "the results of this function\n\n  ```python\n"
            "  def reference(a):  # as it is\n      return a\n  ```\n",
        ),
        (f"def reference(a):\n    return a{' + 1' * 600}\n", ""),
        ("def other(a):\n    return a\n", ""),
        ("def reference(", ""),
        (None, ""),
    ],
)
def test_prompts_for_a_folder_state_what_its_reference_says(
    tmp_path: Path, reference: str | None, line: str
) -> None:
    if reference is not None:
        (tmp_path / "reference.py").write_text(reference)
    target = load_target("trainium")
    task = target.open("rmsnorm-128x600", {})
    workload = replace(task.workload, source=str(tmp_path))
    brief = Brief(workload, target.brief(), target.brief().menu, 1, 15)
    parent = replace(PARENT, candidate=Candidate(task.start))
    prompt = text(Prompts().plan(brief, parent, History([parent])))
    assert ("- what is computed: " in prompt) == bool(line)
    assert f"- what is computed: {line}" in prompt or not line


NOTED = Prompts(notes=lambda source: [f"compiled loop at line {source.count(chr(10))}: scalar"])


def test_what_the_compiler_says_stands_beside_the_measurement() -> None:
    """Of the kernel that is to be made faster, in plans and in turns; its line is marked."""
    line = START.count("\n")
    asked = text(NOTED.plan(BRIEF, PARENT, HISTORY))
    assert f"- compiled loop at line {line}: scalar" in asked
    assert asked.count(f"// line {line}\n") == 1
    assert f"- compiled loop at line {line}: scalar" in text(
        NOTED.turns(BRIEF, PARENT, HISTORY, 0, Terms(6, TOOLS))
    )


def test_the_compiler_is_not_asked_where_nothing_is_told() -> None:
    def refuse(source: str) -> list[str]:
        raise AssertionError("asked")

    without = Prompts(without=["feedback"], notes=refuse)
    assert "compiled loop" not in text(without.plan(BRIEF, PARENT, HISTORY))
    assert Prompts(notes=refuse).implement(BRIEF, PARENT, PLAN)


def test_notes_that_the_measurement_has_already_are_told_once() -> None:
    assert isinstance(PARENT.outcome, Measured)
    note = NOTED._notes(START)[0] if NOTED._notes else ""
    told = replace(PARENT, outcome=replace(PARENT.outcome, feedback=f"Slow.\n{note}"))
    assert text(NOTED.plan(BRIEF, told, HISTORY)).count(note) == 1


def test_an_implementer_sees_the_lines_that_the_plan_names() -> None:
    first = START.splitlines()[0].strip()
    plan = replace(PLAN, text="Change line 1, then line 99, and line 1 again.")
    shown = text(Prompts().implement(BRIEF, PARENT, plan))
    assert f"- line 1: `{first}`" in shown
    assert shown.count("- line ") == 1
    assert "that the plan names" not in text(Prompts().implement(BRIEF, PARENT, PLAN))


def test_every_prompt_states_a_tolerance_that_the_workload_gives() -> None:
    workload = replace(BRIEF.workload, tolerance=Tolerance(0.5, 0.25))
    brief = replace(BRIEF, workload=workload)
    told = "differ from the reference by 0.5 + 0.25 times"
    assert told in text(Prompts().plan(brief, PARENT, HISTORY))
    assert told in text(Prompts().implement(brief, PARENT, PLAN))
    assert "- tolerance:" not in text(Prompts().plan(BRIEF, PARENT, HISTORY))


def test_an_implementer_sees_where_the_kernel_loses_time() -> None:
    shown = text(Prompts().implement(BRIEF, PARENT, PLAN))
    assert "most time goes to: dma wait (70%)" in shown
    without = text(Prompts(without=["feedback"]).implement(BRIEF, PARENT, PLAN))
    assert "# How it runs" not in without

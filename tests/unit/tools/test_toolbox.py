"""The tools: what each answers, and that no call can do more than its tool."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from bench_world import BROKEN, FASTER, START, TARGET, WRONG, ToyBench

from tilewright.core.errors import InputError
from tilewright.core.records import Candidate, Cause, Failed, Gap, MachineFact, Measured, Trial
from tilewright.tools.arguments import LONGEST_KERNEL, LONGEST_NOTE, MOST_KERNELS
from tilewright.tools.comparing import checked
from tilewright.tools.records import (
    Answer,
    Checked,
    Compared,
    Difference,
    Evaluated,
    Facts,
    Profiled,
    Refused,
    Rewrites,
    Shown,
    Submitted,
    Tried,
    answer_json,
)
from tilewright.tools.text import answer_text
from tilewright.tools.toolbox import TOOLS, call, sources_to_evaluate


@pytest.fixture
def bench() -> ToyBench:
    return ToyBench()


def told(bench: ToyBench, tool: str, **arguments: Any) -> Answer:
    """The answer, which must be usable as text and as JSON."""
    answer = call(bench, tool, arguments)
    assert answer_text(answer)
    assert json.loads(json.dumps(answer_json(answer), allow_nan=False))
    return answer


def test_check_builds_and_evaluates_nothing(bench: ToyBench) -> None:
    good = told(bench, "check", kernel=FASTER)
    assert good == Checked(Candidate(FASTER).id, builds=True)
    bad = told(bench, "check", kernel=BROKEN)
    assert isinstance(bad, Checked)
    assert (bad.builds, bad.kind, bad.line) == (False, "compile_error", 2)
    assert "expected ')'" in bad.error
    rule = checked("ab", Failed("check", "limit_exceeded", "too many rows", line=5))
    assert (rule.builds, rule.line) == (True, 5)
    assert "builds, but breaks a rule when it runs: limit exceeded at line 5" in answer_text(rule)
    assert bench.built == [FASTER, BROKEN]
    assert (len(bench.trials), bench.left) == (1, 5)


def test_a_kernel_that_was_only_looked_at_can_be_named_by_its_id(bench: ToyBench) -> None:
    """Its machine code was asked for with edits; nobody sends the whole kernel again."""
    edits = "<<<<<<< SEARCH\n  fence();\n=======\n>>>>>>> REPLACE"
    shown = told(bench, "show", kernel="start", edits=edits)
    assert isinstance(shown, Shown)
    found = told(bench, "evaluate", kernel=shown.candidate)
    assert isinstance(found, Evaluated)
    assert found.verdict == "correct"


def test_evaluate_says_what_is_saved_by_cause(bench: ToyBench) -> None:
    found = told(bench, "evaluate", kernel=FASTER, note="no fence")
    assert isinstance(found, Evaluated)
    assert (found.verdict, found.latency, found.trial, found.left) == ("correct", 800.0, 1, 4)
    assert found.to_parent is not None
    assert found.to_parent.latency == -200.0
    assert found.to_parent.share == -0.2
    assert found.to_parent.causes == {"fence": -200.0}
    assert bench.trials[1].candidate.plan is not None
    assert bench.trials[1].candidate.plan.text == "no fence"
    assert "-200 (-20.00%); fence -200" in answer_text(found)


def test_a_kernel_that_is_known_costs_nothing(bench: ToyBench) -> None:
    told(bench, "evaluate", kernel=FASTER)
    again = told(bench, "evaluate", kernel=Candidate(FASTER).id)
    assert isinstance(again, Evaluated)
    assert again.known
    assert bench.left == 4


def test_a_kernel_is_compared_with_the_best_before_it(bench: ToyBench) -> None:
    told(bench, "evaluate", kernel=FASTER)
    slower = START.replace("  fence();\n", "  fence();\n  fence();\n")
    found = told(bench, "evaluate", kernel=slower)
    assert isinstance(found, Evaluated)
    assert found.to_best is not None
    assert found.to_best.other == Candidate(FASTER).id
    assert found.to_best.latency == 400.0


def test_a_wrong_kernel_is_told_with_its_failure(bench: ToyBench) -> None:
    found = told(bench, "evaluate", kernel=WRONG)
    assert isinstance(found, Evaluated)
    assert (found.verdict, found.stage, found.line) == ("wrong_result", "check", 2)
    assert found.latency is None
    assert "expected 7" in found.error


UNKNOWN = (
    "0123456789abcdef",
    "ab12",
    "AB12CD34",
    "trial 7",
    "#3",
    "parents",
    " 0123456789abcdef\n",
    "\x1b[2J",
)


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("tool", ["evaluate", "submit", "try"])
def test_an_unknown_name_costs_no_evaluation(bench: ToyBench, tool: str, name: str) -> None:
    arguments = {"kernels": [{"kernel": name}]} if tool == "try" else {"kernel": name}
    found = told(bench, tool, **arguments)
    assert isinstance(found, Refused)
    assert found.reason.isprintable()
    assert (len(bench.trials), bench.left) == (1, 5)
    with pytest.raises(InputError):
        sources_to_evaluate(bench, tool, arguments)


def test_one_unknown_name_among_kernels_to_try_costs_none_of_them(bench: ToyBench) -> None:
    kernels = [{"kernel": FASTER}, {"kernel": "0123456789abcdef"}]
    assert isinstance(told(bench, "try", kernels=kernels), Refused)
    assert (len(bench.trials), bench.left) == (1, 5)


def test_a_name_may_have_spaces_around_it(bench: ToyBench) -> None:
    known = told(bench, "evaluate", kernel=FASTER)
    assert isinstance(known, Evaluated)
    again = told(bench, "evaluate", kernel=f" {known.candidate}\n")
    assert isinstance(again, Evaluated)
    assert again.known


def test_try_gives_one_table(bench: ToyBench) -> None:
    kernels = [{"kernel": FASTER}, {"kernel": WRONG}, {"kernel": "parent"}]
    found = told(bench, "try", kernels=kernels)
    assert isinstance(found, Compared)
    assert [k.verdict for k in found.kernels] == ["correct", "wrong_result", "correct"]
    assert [k.known for k in found.kernels] == [False, False, True]
    head = answer_text(found).splitlines()[1]
    assert head.split() == ["kernel", "trial", "verdict", "latency", "to", "parent", "fence"]


def test_try_says_how_many_evaluations_are_left(bench: ToyBench) -> None:
    answer = told(bench, "try", kernels=[{"kernel": FASTER}])
    assert answer_text(answer).endswith("\n4 evaluations left")


def test_edits_change_a_known_kernel(bench: ToyBench) -> None:
    edits = "<<<<<<< SEARCH\n  fence();\n=======\n>>>>>>> REPLACE\n"
    found = told(bench, "evaluate", kernel="parent", edits=edits)
    assert isinstance(found, Evaluated)
    assert found.candidate == Candidate(FASTER).id


@pytest.mark.parametrize("edits", ["no marks", "<<<<<<< SEARCH\nnowhere\n=======\n>>>>>>> REPLACE"])
def test_edits_that_fit_nowhere_are_refused(bench: ToyBench, edits: str) -> None:
    found = told(bench, "evaluate", kernel="parent", edits=edits)
    assert isinstance(found, Refused)
    assert "edit" in found.reason
    assert len(bench.trials) == 1


def test_profile_has_every_cause_counter_and_line(bench: ToyBench) -> None:
    found = told(bench, "profile")
    assert isinstance(found, Profiled)
    assert found.causes == {"copy": 700.0, "fence": 200.0}
    assert found.counters == {"instructions": 12.0}
    assert [(line.line, line.text) for line in found.lines] == [(2, "copy();"), (3, "fence();")]
    assert found.notes == "The copy waits."


def test_a_kernel_that_was_evaluated_may_be_named_by_its_source(bench: ToyBench) -> None:
    told(bench, "evaluate", kernel=FASTER)
    assert isinstance(told(bench, "profile", kernel=FASTER), Profiled)


def test_a_refusal_does_not_repeat_a_kernel(bench: ToyBench) -> None:
    refused = told(bench, "profile", kernel=FASTER)
    assert refused == Refused(
        "this kernel was not evaluated. Evaluate it, or give the id of an evaluated kernel."
    )


def test_profile_tells_phases_and_which_causes_overlap(bench: ToyBench) -> None:
    bench.target = replace(
        TARGET, causes=(Cause("copy", "copies", True), Cause("idle", "idles", True))
    )
    outcome = bench.trials[0].outcome
    assert isinstance(outcome, Measured)
    phases = ({"copy": 5.0}, {"copy": 600.0, "fence": 700.0}, {"copy": 90.0}, {"fence": 2.0})
    bench.trials[0] = replace(bench.trials[0], outcome=replace(outcome, phases=phases))
    found = told(bench, "profile", kernel="start")
    assert isinstance(found, Profiled)
    assert found.exclusive == ("copy",)
    assert [phase.when for phase in found.phases] == [
        "before the first work",
        "work, part 1 of 2",
        "work, part 2 of 2",
        "after the last work",
    ]
    text = answer_text(found)
    assert "causes in cycles, which add up to the latency:\n  copy: 700" in text
    assert "causes in cycles that overlap with these:\n  fence: 200" in text
    assert "work, part 1 of 2: 1,300 (fence 700, copy 600)" in text


def test_profile_tells_the_longest_times_without_work(bench: ToyBench) -> None:
    outcome = bench.trials[0].outcome
    assert isinstance(outcome, Measured)
    gaps = (
        Gap(0.0, 1_038.0, "cpu_fetch", 1),
        *(Gap(2_000.0 + 100 * n, 40.0 + n, "dma_wait", 2) for n in range(5)),
        Gap(9_000.0, 90.0, "fence", None),
    )
    bench.trials[0] = replace(bench.trials[0], outcome=replace(outcome, gaps=gaps))
    found = told(bench, "profile", kernel="start")
    assert isinstance(found, Profiled)
    lines = [text.strip() for text in bench.trials[0].candidate.source.splitlines()]
    assert [gap.text for gap in found.gaps] == [lines[0], *[lines[1]] * 5, ""]
    text = answer_text(found)
    assert [line.strip() for line in text.partition("without work, in cycles:\n")[2].splitlines()][
        :3
    ] == [
        f"cpu fetch: 1,038 from 0 on at line 1: {lines[0]}",
        "fence: 90 from 9,000 on",
        "dma wait: 44 from 2,400 on, 43 from 2,300 on, 42 from 2,200 on and 2 more at line 2: "
        + lines[1],
    ]


def test_lines_that_a_profile_leaves_out_are_counted(bench: ToyBench) -> None:
    outcome = bench.trials[0].outcome
    assert isinstance(outcome, Measured)
    by_line = {str(n): {"copy": float(n)} for n in range(1, 71)}
    bench.trials[0] = replace(bench.trials[0], outcome=replace(outcome, by_line=by_line))
    found = told(bench, "profile", kernel="start")
    assert isinstance(found, Profiled)
    assert (len(found.lines), found.lines_left_out) == (60, 10)
    assert "and 10 lines with less" in answer_text(found)


def test_facts_about_the_machine_are_told_with_their_meaning(bench: ToyBench) -> None:
    fact = MachineFact("l2.latency", "11", "fitted", "cycles to the first word")
    bench.target = replace(TARGET, facts=(fact,))
    assert "l2.latency: 11, cycles to the first word (fitted)" in answer_text(told(bench, "facts"))


def test_a_kernel_that_was_not_measured_has_no_profile(bench: ToyBench) -> None:
    told(bench, "evaluate", kernel=WRONG)
    found = told(bench, "profile", kernel=Candidate(WRONG).id)
    assert isinstance(found, Refused)
    assert "not measured" in found.reason


def test_facts_name_their_sources(bench: ToyBench) -> None:
    found = told(bench, "facts")
    assert isinstance(found, Facts)
    assert {(f.name, f.value, f.source) for f in found.facts} == {
        ("rows", "64", "the description of toyaccel"),
        ("DIM", "16", "the description of toyaccel"),
        ("compiler", "13.2", "this machine"),
    }
    assert "3 cycles" in found.costs


def test_tried_lists_what_was_made_from_a_kernel(bench: ToyBench) -> None:
    told(bench, "evaluate", kernel=FASTER, note="no fence")
    told(bench, "evaluate", kernel=WRONG, note="other copy")
    found = told(bench, "tried")
    assert isinstance(found, Tried)
    assert [(a.what, a.verdict, a.share) for a in found.attempts] == [
        ("no fence", "correct", -0.2),
        ("other copy", "wrong_result", None),
    ]


def test_tried_lists_what_was_made_beside_a_kernel(bench: ToyBench) -> None:
    told(bench, "evaluate", kernel=FASTER, note="no fence")
    told(bench, "evaluate", kernel=WRONG, note="other copy")
    found = told(bench, "tried", kernel=Candidate(FASTER).id)
    assert isinstance(found, Tried)
    assert found.attempts == ()
    assert [(a.what, a.verdict) for a in found.siblings] == [("other copy", "wrong_result")]
    assert "made from the same kernel as" in answer_text(found)


def test_show_gives_the_source_of_a_kernel(bench: ToyBench) -> None:
    told(bench, "evaluate", kernel=FASTER)
    found = told(bench, "show", kernel=Candidate(FASTER).id)
    assert found == Shown(Candidate(FASTER).id, FASTER)


def test_a_measured_difference_within_the_noise_is_told_as_such() -> None:
    beside = Difference("b", -1.0, -0.01)
    noisy = Evaluated("a", 1, "correct", latency=99.0, unit="ns", to_parent=beside, noise=0.02)
    assert "noise of its samples 2.0%" in answer_text(noisy)
    assert "(-1.00%, within the noise)" in answer_text(noisy)
    assert "within the noise" not in answer_text(replace(noisy, noise=0.005))
    table = answer_text(Compared("p", (noisy, replace(noisy, candidate="b", noise=0.005))))
    assert [line.count("(-1.00%, within the noise)") for line in table.splitlines()[2:4]] == [1, 0]


def test_submit_evaluates_what_was_not(bench: ToyBench) -> None:
    found = told(bench, "submit", kernel=FASTER)
    assert isinstance(found, Submitted)
    assert found.kernel.latency == 800.0
    assert bench.left == 4


def test_the_rewriter_can_be_asked(bench: ToyBench) -> None:
    found = told(bench, "rewrites", kernel=START)
    assert isinstance(found, (Rewrites, Refused))


def test_a_kernel_that_was_built_can_be_named_by_its_id(bench: ToyBench) -> None:
    told(bench, "check", kernel=FASTER)
    found = told(bench, "evaluate", kernel=Candidate(FASTER).id)
    assert isinstance(found, Evaluated)
    assert found.latency == 800.0


def test_a_spent_budget_refuses_evaluations(bench: ToyBench) -> None:
    bench.left = 0
    found = told(bench, "evaluate", kernel=FASTER)
    assert isinstance(found, Refused)
    assert "larger budget" in found.reason


HOSTILE = {
    "an unknown tool": ("shell", {"command": "rm"}),
    "a very long name": ("e" * 10**6, {}),
    "an unknown argument": ("evaluate", {"kernel": FASTER, "limit": "0"}),
    "no arguments": ("evaluate", {}),
    "arguments that are no object": ("evaluate", [FASTER]),
    "a number for a kernel": ("evaluate", {"kernel": 7}),
    "an empty kernel": ("evaluate", {"kernel": ""}),
    "a huge kernel": ("check", {"kernel": "x" * (LONGEST_KERNEL + 1)}),
    "a huge note": ("evaluate", {"kernel": FASTER, "note": "x" * (LONGEST_NOTE + 1)}),
    "a kernel of somebody else": ("evaluate", {"kernel": "0123456789abcdef"}),
    "a profile of a source": ("profile", {"kernel": FASTER}),
    "a flood of kernels": ("try", {"kernels": [{"kernel": FASTER}] * (MOST_KERNELS + 1)}),
    "kernels that are a text": ("try", {"kernels": FASTER}),
    "kernels that are no objects": ("try", {"kernels": [FASTER]}),
    "a kernel with an unknown field": ("try", {"kernels": [{"kernel": FASTER, "x": "y"}]}),
    "steps that do not exist": ("rewrite", {"kernel": START, "steps": "sudo 1"}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_call_that_cannot_be_used_is_refused_in_one_sentence(bench: ToyBench, case: str) -> None:
    name, arguments = HOSTILE[case]
    answer = call(bench, name, arguments)  # type: ignore[arg-type]
    assert isinstance(answer, Refused)
    assert 10 < len(answer.reason) < 1000
    assert (len(bench.trials), bench.left) == (1, 5)


def test_terminal_codes_in_arguments_do_not_come_back(bench: ToyBench) -> None:
    answer = call(bench, "profile", {"kernel": "\x1b[2Jabc"})
    assert "\x1b" not in answer_text(answer)


def test_schemas_describe_every_argument() -> None:
    for tool in TOOLS.values():
        schema = tool.schema
        assert schema["additionalProperties"] is False
        assert set(schema["required"]) <= set(schema["properties"])
        for described in schema["properties"].values():
            assert described["description"].endswith(".")


def test_only_tools_that_evaluate_name_kernels_to_evaluate(bench: ToyBench) -> None:
    assert sources_to_evaluate(bench, "evaluate", {"kernel": FASTER}) == [FASTER]
    kernels = [{"kernel": FASTER}, {"kernel": "parent"}]
    assert sources_to_evaluate(bench, "try", {"kernels": kernels}) == [FASTER, START]
    for name in sorted(set(TOOLS) - {"evaluate", "try", "submit"}):
        given = {p.name: FASTER for p in TOOLS[name].parameters if p.required}
        assert sources_to_evaluate(bench, name, given) == []


def test_long_histories_are_cut(bench: ToyBench) -> None:
    parent = bench.start
    for number in range(30):
        child = Candidate(f"{START}// {number}\n", parent.candidate.id, None, "m")
        bench.trials.append(Trial(number + 1, 1, child, replace(parent.outcome)))
    found = told(bench, "tried")
    assert isinstance(found, Tried)
    assert (len(found.attempts), found.earlier) == (20, 10)
    assert found.attempts[-1].trial == 30

"""Proposals in turns: what a reply may ask for, what it is answered, and what bounds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from turn_work import FASTER, UNWRITTEN, Work, calling, fenced, kernel, outcome_of
from world import BRIEF, HISTORY, PARENT, START

from tilewright.core.config import Settings
from tilewright.core.records import Candidate, Failed, Trial
from tilewright.proposers.llm.messages import Message, Request
from tilewright.tools.proposal import MOST_EVALUATED
from tilewright.tools.transcripts import tools_used
from tilewright.tools.turn_messages import LONGEST_FOLDED
from tilewright.tools.turn_replies import MOST_CALLS, ToolCall
from tilewright.tools.turns import LONGEST_ANSWER


def test_a_kernel_without_calls_is_submitted_and_ends_the_work() -> None:
    work = Work("OPTION: tile\nCHANGE: no fence\nEXPECTED: half\n" + fenced(FASTER)).go()
    ((submitted,),) = work.rounds
    assert submitted.source == FASTER
    assert submitted.parent_id == PARENT.candidate.id
    assert submitted.plan is not None
    assert (submitted.plan.option, submitted.plan.text) == ("tile", "no fence")
    assert (submitted.plan.expected, submitted.plan.turn) == ("half", 1)
    assert work.phases == ["turn 1"]


def test_evaluated_kernels_are_answered_with_what_they_save() -> None:
    work = Work(
        "OPTION: tile\nCHANGE: two ways\n"
        + fenced(kernel(1), FASTER)
        + calling({"tool": "try", "kernels": ["A", "B"]}),
        calling({"tool": "submit", "kernel": Candidate(FASTER).id}),
    ).go()
    assert [[c.source for c in made] for made in work.rounds] == [[kernel(1), FASTER]]
    answer = work.heard(2)
    assert "-100 (-10.00%)" in answer
    assert "-300 (-30.00%)" in answer
    assert "You have 3 turns left." in answer
    assert work.phases == ["turn 1", "turn 2"]  # what is submitted is known: nothing to evaluate
    assert {c.plan.turn for c in work.rounds[0] if c.plan} == {1}
    assert len({c.plan.id for c in work.rounds[0] if c.plan}) == 1


def test_what_costs_nothing_is_answered_without_an_evaluation() -> None:
    built: list[str] = []

    def check(source: str) -> Failed | None:
        built.append(source)
        return Failed("build", "compile_error", "kernel.c:1: error: no", line=1)

    work = Work(
        fenced(FASTER) + calling({"tool": "check", "kernel": "A"}, {"tool": "facts"}),
        fenced(kernel(1)),
        check=check,
    ).go()
    assert built == [FASTER]
    assert "does not build: compile error at line 1" in work.heard(2)
    assert "compiler: 13.2 (this machine)" in work.heard(2)
    assert [c.source for made in work.rounds for c in made] == [kernel(1)]
    assert work.trials[0].candidate.plan is not None
    assert work.trials[0].candidate.plan.turn == 2


def test_a_submitted_kernel_that_fails_is_not_the_end() -> None:
    broken = kernel(1).replace("copy1", "wrong")
    work = Work(fenced(broken), fenced(FASTER)).go()
    assert [made[0].source for made in work.rounds] == [broken, FASTER]
    assert "wrong result" in work.heard(2)


def test_turns_are_bounded() -> None:
    replies = [fenced(kernel(n)) + calling({"tool": "evaluate", "kernel": "A"}) for n in range(9)]
    work = Work(*replies, most=3).go()
    assert work.phases == ["turn 1", "turn 2", "turn 3"]
    assert len(work.trials) == 3
    assert "Submit a kernel in this turn" in work.heard(3)


def test_old_answers_are_folded_and_replies_stay_as_they_were() -> None:
    calls = calling({"tool": "facts"}, {"tool": "profile"})
    work = Work(calls, calls, calls, fenced(FASTER)).go()
    last = work.transport.sent[-1].messages
    assert [m.text for m in last if m.role == "assistant"] == [calls.strip()] * 3
    assert "costs" not in last[2].text
    assert len(last[2].text) <= 3 * LONGEST_FOLDED
    assert "costs" in last[-1].text


def long_kernel(number: int) -> str:
    return kernel(number) + "// a line that makes the kernel worth folding\n" * 12


def test_of_earlier_kernels_the_last_and_the_fastest_are_sent_whole_and_others_by_their_ids() -> (
    None
):
    fastest, *slower = [long_kernel(n) for n in range(4)]
    fastest = fastest.replace("  fence();\n", "")
    work = Work(
        *(fenced(k) + calling({"tool": "evaluate", "kernel": "A"}) for k in (fastest, *slower)),
        calling({"tool": "show", "kernel": Candidate(slower[0]).id}),
        fenced(FASTER),
        most=6,
    ).go()
    said = [m.text for m in work.transport.sent[-1].messages if m.role == "assistant"]
    assert [k in text for k, text in zip((fastest, *slower), said, strict=False)] == [
        True, False, False, True,
    ]  # fmt: skip
    assert f"(kernel {Candidate(slower[0]).id}, {slower[0].count(chr(10))} lines" in said[1]
    assert '"tool": "evaluate"' in said[1]
    assert slower[0].rstrip() in work.heard(6)


def test_what_is_kept_of_an_answer_holds_its_numbers() -> None:
    work = Work(
        fenced(kernel(1), FASTER) + calling({"tool": "try", "kernels": ["A", "B"]}),
        calling({"tool": "profile", "kernel": "best"}),
        calling({"tool": "facts"}),
        fenced(kernel(3)),
    ).go()
    folded = work.transport.sent[-1].messages[2].text
    assert f"{Candidate(FASTER).id} correct, 700 cycles (-30.00% of the parent)" in folded
    assert "\n" not in folded
    assert "(dma wait 400)" in work.transport.sent[-1].messages[4].text


def test_a_kernel_is_set_beside_the_best_one_before_it() -> None:
    work = Work(
        fenced(kernel(1)) + calling({"tool": "evaluate", "kernel": "A"}),
        fenced(FASTER, kernel(2)) + calling({"tool": "try", "kernels": ["A", "B"]}),
        fenced(kernel(3)),
    ).go()
    first = Candidate(kernel(1)).id
    assert f"compared with the best so far {first}:" in work.heard(3)
    assert "-200 (-22.22%)" in work.heard(3)
    assert "+0 (+0.00%)" in work.heard(3)


def test_edits_of_the_best_kernel_are_of_the_one_that_was_best_when_they_were_made() -> None:
    edit = "<<<<<<< SEARCH\n  fence();\n=======\n  fence(); // last\n>>>>>>> REPLACE\n"
    work = Work(
        fenced(FASTER)
        + f"```\n{edit}```\n"
        + calling(
            {"tool": "evaluate", "kernel": "A"},
            {"tool": "evaluate", "kernel": "best", "edits": "B"},
        ),
        fenced(kernel(1)),
    ).go()
    assert [made.source for made in work.rounds[0]] == [
        FASTER,
        START.replace(");\n}", "); // last\n}"),
    ]
    assert "refused" not in work.heard(2)


def test_a_kernel_near_its_bound_ends_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    replies = fenced(FASTER) + calling({"tool": "evaluate", "kernel": "A"}), fenced(kernel(1))
    monkeypatch.setattr("turn_work.BRIEF", replace(BRIEF, stop_within=0.01))
    assert len(Work(*replies, bound=690.0).go().phases) == 2
    assert len(Work(*replies, bound=695.0).go().phases) == 1


def test_terms_tell_what_the_run_has_left_and_halve_for_work_in_vain() -> None:
    turns = Work("", share=8, budget=len(HISTORY) + 5).turns
    terms = turns.terms(BRIEF, PARENT, HISTORY)
    assert (terms.share, terms.run_left) == (5, 5)
    assert "compiler: 13.2" in terms.facts
    slower = [
        Trial(
            len(HISTORY) + n, 7 + n, Candidate(kernel(n), PARENT.candidate.id), outcome_of("wrong")
        )
        for n in range(2)
    ]
    in_vain = HISTORY.extended(slower)
    assert Work("", share=8).turns.terms(BRIEF, PARENT, in_vain).share == 2


def test_edits_and_ids_name_earlier_kernels() -> None:
    edit = "<<<<<<< SEARCH\n  fence();\n=======\n>>>>>>> REPLACE\n"
    work = Work(
        fenced(kernel(1)) + calling({"tool": "evaluate", "kernel": "A"}),
        f"```\n{edit}```\n"
        + calling({"tool": "evaluate", "kernel": Candidate(kernel(1)).id, "edits": "A"}),
        calling({"tool": "tried"}),
    ).go()
    assert work.rounds[1][0].source == kernel(1).replace("  fence();\n", "")
    assert Candidate(kernel(1)).id in work.heard(4)


def test_a_kernel_that_was_built_can_be_named_in_a_later_turn() -> None:
    work = Work(
        fenced(FASTER) + calling({"tool": "check", "kernel": "A"}),
        calling({"tool": "facts"}),
        calling({"tool": "submit", "kernel": Candidate(FASTER).id}),
    ).go()
    assert [c.source for made in work.rounds for c in made] == [FASTER]


def test_the_same_replies_give_the_same_work() -> None:
    replies = (
        fenced(kernel(1), FASTER) + calling({"tool": "try", "kernels": ["A", "B"]}),
        calling({"tool": "profile", "kernel": "best"}),
        fenced(kernel(2)),
    )
    first, second = Work(*replies).go(), Work(*replies).go()
    assert [r.key for r in first.transport.sent] == [r.key for r in second.transport.sent]
    assert first.rounds == second.rounds


def test_a_reply_that_was_recorded_is_not_asked_for_again() -> None:
    replies = fenced(FASTER) + calling({"tool": "evaluate", "kernel": "A"}), "OPTION: none\nDone."
    first = Work(*replies).go()
    again = Work(*replies)
    again.store.replies.update(first.store.replies)
    again.go()
    assert again.rounds == first.rounds
    assert again.transport.sent == []


def test_several_proposals_of_one_plan_stay_apart() -> None:
    work = Work(fenced(FASTER) + calling({"tool": "evaluate", "kernel": "A"}))
    asked = [
        Request("command:m", "implement", (Message("user", "?"),), sample=str(n)) for n in range(3)
    ]
    made = work.turns.begin(BRIEF, PARENT, HISTORY, UNWRITTEN, asked)
    assert len({child.plan.id for child in made if child.plan}) == 3


def test_nothing_worthwhile_ends_the_work() -> None:
    work = Work("OPTION: none\nIt is at its bound.").go()
    assert work.rounds == []
    assert work.phases == ["turn 1"]
    assert work.notes == ["nothing worthwhile"]


def test_an_unaffordable_call_ends_the_work() -> None:
    work = Work(fenced(FASTER))
    work.turns._caller.ask = lambda requests: [None]  # type: ignore[method-assign,assignment]
    assert work.go().rounds == []


def test_trials_of_others_are_left_alone() -> None:
    assert Work("").turns.go_on([Trial(1, 1, Candidate(FASTER), outcome_of(FASTER))]) == []


HOSTILE: dict[str, Sequence[str] | str] = {
    "nothing": "",
    "prose": "I would remove the fence in kernel(x, y).",
    "malformed JSON": '```json\n[{"tool": "evaluate", "kernel": \n```',
    "JSON that is no list of calls": '```json\n[{"tool": 7}]\n```',
    "numbers of a million digits": '```json\n[{"tool": "check", "kernel": '
    + "9" * 10**6
    + "}]\n```",
    "JSON nested without end": '```json\n[{"tool": ' + "[" * 10**5 + "\n```",
    "an unknown tool": calling({"tool": "shell", "command": "rm -rf /"}),
    "a flood of calls": calling(*[{"tool": "facts"}] * 10_000),
    "a flood of kernels": "".join(fenced(kernel(n)) for n in range(200))
    + calling(*[{"tool": "evaluate", "kernel": kernel(n)} for n in range(200)]),
    "a huge argument": fenced("x" * 10**6) + calling({"tool": "evaluate", "kernel": "A"}),
    "a huge note": fenced(FASTER) + calling({"tool": "check", "kernel": "A", "note": "n" * 10**6}),
    "a name that no block has": calling({"tool": "evaluate", "kernel": "Z"}),
    "a kernel of somebody else": calling({"tool": "submit", "kernel": "0123456789abcdef"}),
    "the kernel it began with": calling({"tool": "evaluate", "kernel": "parent"}),
    "an open block": "```c\n" + FASTER,
    "two kernels and no calls": fenced(kernel(1), kernel(2)),
    "arguments that are lists of lists": calling({"tool": "try", "kernels": [[["A"]]]}),
    "terminal codes": fenced(FASTER) + calling({"tool": "\x1b[2J", "kernel": "A"}),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_reply_is_bounded_and_answered(case: str) -> None:
    """It costs its turn, is told why, and the next turn counts."""
    hostile = HOSTILE[case]
    assert isinstance(hostile, str)
    work = Work(hostile, fenced(FASTER), most=3).go()
    assert len(work.phases) <= 3
    assert sum(map(len, work.rounds)) <= MOST_EVALUATED + 1
    if len(work.phases) > 1:
        answer = work.heard(2)
        assert "\x1b" not in answer
        assert 20 < len(answer) <= (LONGEST_ANSWER + 100) * MOST_CALLS
        assert "left." in answer
    assert work.rounds
    assert work.rounds[-1][-1].source == FASTER


def test_a_hostile_author_never_gets_more_turns_than_it_has() -> None:
    for hostile in HOSTILE.values():
        assert isinstance(hostile, str)
        assert len(Work(hostile, most=3).go().phases) <= 3


def test_a_proposal_spends_no_more_than_its_share_and_then_asks_no_more() -> None:
    def tried(*numbers: int) -> str:
        names = [*"ABC"[: len(numbers)]]
        return fenced(*map(kernel, numbers)) + calling({"tool": "try", "kernels": names})

    work = Work(tried(0, 1), tried(2, 3), tried(4), share=4).go()
    assert [len(made) for made in work.rounds] == [2, 2]
    assert work.phases == ["turn 1", "turn 2"]
    work = Work(tried(0, 1, 2), tried(3), share=2).go()
    assert [len(made) for made in work.rounds] == [2]
    assert work.phases == ["turn 1"]
    assert Work(tried(0), budget=len(HISTORY), share=2).go().phases == []


def test_without_tools_a_proposal_has_one_turn() -> None:
    assert Settings(turns=6).turns_taken == 6
    assert Settings(turns=6, without=("tools",)).turns_taken == 1


def test_a_share_is_a_quarter_of_the_budget_unless_there_are_fewer_proposals() -> None:
    assert Settings().proposal_share(12) is None
    assert Settings(max_evaluations=10).proposal_share(12) == 3
    assert Settings(max_evaluations=10, share=7).proposal_share(12) == 7
    one = Settings(max_evaluations=10, iterations=1)
    assert [one.proposal_share(proposals) for proposals in (1, 2, 3, 4, 5)] == [10, 5, 4, 3, 3]
    assert Settings(max_evaluations=10, iterations=2, beam=1).proposal_share(1) == 5
    assert Settings(max_evaluations=10, iterations=2, beam=6).proposal_share(1) == 3
    assert Settings(max_evaluations=10, iterations=0).proposal_share(1) == 10


def test_a_transcript_has_the_answer_to_a_call_of_no_tool() -> None:
    """Also where an answer looks like the heading of the next one."""
    calls = (ToolCall("check", {}), ToolCall("shell", {"command": "ls"}), ToolCall("tried", {}))
    answers = Message(
        "user", "1. check: line\n\n2. call: refused: no 3. tried: x\n\n3. tried: none"
    )
    found = tools_used(calls, answers)
    assert [use.answer for use in found] == ["line", "refused: no 3. tried: x", "none"]
    assert [use.answer for use in tools_used(calls, None)] == ["", "", ""]

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from world import BRIEF, HISTORY, PARENT, PLAN, START, MemoryCalls, caller, failed

from tilewright.core.budget import Budget
from tilewright.proposers.llm.messages import Reply, Request
from tilewright.proposers.llm.prompts.render import Prompts
from tilewright.proposers.llm.proposer import LLMProposer

MODELS = ("openai/a", "openai/b")


def proposer(answer, models=MODELS, edits=False, store=None):  # type: ignore[no-untyped-def]
    made, transport = caller(answer, store)
    return LLMProposer(models, Prompts(edits=edits), made, edits=edits), transport


def code(source: str) -> Reply:
    return Reply(f"```c\n{source}```")


def test_plans_carry_option_text_and_model() -> None:
    made, transport = proposer(lambda r: Reply(f"OPTION: tile\nTile by {r.sample}."))
    plans = made.plan(BRIEF, PARENT, HISTORY, 4, seed=1)
    assert [p.option for p in plans] == ["tile"] * 4
    assert Counter(p.proposer for p in plans) == {"openai/a": 2, "openai/b": 2}
    assert len({r.key for r in transport.sent}) == 4


def test_equal_plans_count_once() -> None:
    made, _ = proposer(lambda r: Reply("OPTION: tile\nTile by 4."))
    assert len(made.plan(BRIEF, PARENT, HISTORY, 4, seed=1)) == 1


def test_a_kernel_in_which_no_plan_sees_anything_is_not_asked_about_again() -> None:
    store = MemoryCalls()
    made, transport = proposer(
        lambda r: Reply("OPTION: none\nIt is as fast as can be."), store=store
    )
    assert made.plan(BRIEF, PARENT, HISTORY, 2, seed=1) == []
    assert {call.note for call in store.calls("run")} == {
        "nothing worthwhile (It is as fast as can be.)"
    }
    assert made.plan(BRIEF, PARENT, HISTORY, 2, seed=2) == []
    assert len(transport.sent) == 4, "the same iteration, begun again, asks again"
    later = replace(BRIEF, iteration=BRIEF.iteration + 1)
    assert made.plan(later, PARENT, HISTORY, 2, seed=3) == []
    assert len(transport.sent) == 4


def test_one_plan_keeps_a_kernel_open() -> None:
    replies = iter(["OPTION: none\nNothing.", "OPTION: tile\nTile by 4."])
    made, _ = proposer(lambda r: Reply(next(replies, "OPTION: tile\nTile by 8.")))
    assert len(made.plan(BRIEF, PARENT, HISTORY, 2, seed=1)) == 1
    later = replace(BRIEF, iteration=BRIEF.iteration + 1)
    assert len(made.plan(later, PARENT, HISTORY, 2, seed=2)) == 1


def test_in_one_phase_there_are_only_kernels() -> None:
    reply = f"OPTION: tile\nCHANGE: Tiled by 4.\nEXPECTED: half\n\n```c\n{START}int t;\n```"
    made, transport = caller(lambda r: Reply(reply))
    single = LLMProposer(MODELS, Prompts(["plan"]), made)
    plans = single.plan(BRIEF, PARENT, HISTORY, 2, seed=1)
    assert transport.sent == []
    (first, second) = (single.implement(BRIEF, PARENT, plan, 1, seed=1) for plan in plans)
    assert [request.phase for request in transport.sent] == ["implement", "implement"]
    assert {c.plan.option for c in (*first, *second) if c.plan} == {"tile"}
    assert {c.plan.text for c in (*first, *second) if c.plan} == {"Tiled by 4"}


def test_implementations_of_one_plan() -> None:
    made, _ = proposer(lambda r: code(f"{START}int s{r.sample};\n"))
    candidates = made.implement(BRIEF, PARENT, PLAN, 2, seed=1)
    assert {c.proposer for c in candidates} == set(MODELS)
    assert all(c.plan == PLAN and c.parent_id == PARENT.candidate.id for c in candidates)


def test_unusable_replies_are_recorded_with_their_kind() -> None:
    store = MemoryCalls()
    made, _ = proposer(lambda r: Reply("I would rather not write void kernel(...)."), store=store)
    assert made.implement(BRIEF, PARENT, PLAN, 2, seed=1) == []
    assert all(call.note.startswith("no_code") for call in store.calls("run"))


def test_edits_apply_to_the_parent_and_whole_files_are_accepted_too() -> None:
    edit = "<<<<<<< SEARCH\n  fence();\n=======\n  fence(); flush();\n>>>>>>> REPLACE"
    made, _ = proposer(lambda r: Reply(edit), edits=True)
    (first, *_) = made.implement(BRIEF, PARENT, PLAN, 1, seed=1)
    assert first.source == START.replace("fence();", "fence(); flush();")
    whole = START.replace("fence();", "fence(); fence();")
    made, _ = proposer(lambda r: code(whole), edits=True)
    assert made.implement(BRIEF, PARENT, PLAN, 1, seed=1)[0].source == whole


def test_an_unchanged_kernel_is_no_candidate() -> None:
    store = MemoryCalls()
    made, _ = proposer(lambda r: code(START + "// better\n"), store=store)
    assert made.implement(BRIEF, PARENT, PLAN, 1, seed=1) == []
    assert [call.note for call in store.calls("run")] == ["unchanged"]


def test_repair_asks_the_author_and_keeps_the_plan() -> None:
    made, transport = proposer(lambda r: code(START.replace("8", "16")))
    (fixed,) = made.respond(BRIEF, PARENT, [failed()], HISTORY, seed=1)
    assert fixed.proposer == transport.sent[0].model == "openai/a"
    assert fixed.parent_id == PARENT.candidate.id
    assert fixed.plan is not None
    assert fixed.plan.text == PLAN.text
    assert fixed.plan.parameters["repairs"] == failed().candidate.id


def test_the_history_of_a_repair_that_departs_from_the_plan_says_what_it_does() -> None:
    new = code(START.replace("8", "16")).text
    made, _ = proposer(lambda r: Reply(f"CHANGE: Results go through DRAM.\n\n{new}"))
    (fixed,) = made.respond(BRIEF, PARENT, [failed()], HISTORY, seed=1)
    assert fixed.plan is not None
    assert fixed.plan.text.startswith("Results go through DRAM\n")
    assert PLAN.text in fixed.plan.text
    assert fixed.plan.parameters["repairs"] == failed().candidate.id


def test_what_is_too_slow_or_others_work_is_not_repaired() -> None:
    made, transport = proposer(lambda r: code(START))
    assert (
        made.respond(BRIEF, PARENT, [failed("slower_than_limit", "measure")], HISTORY, seed=1) == []
    )
    stranger = failed()
    stranger = replace(stranger, candidate=replace(stranger.candidate, proposer="builtin"))
    assert made.respond(BRIEF, PARENT, [stranger], HISTORY, seed=1) == []
    assert transport.sent == []


def test_json_models_are_asked_for_json() -> None:
    made, transport = proposer(
        lambda r: Reply('{"option": "tile", "plan": "Tile.", "expected": "less"}'),
        models=("openai/a?json=1",),
    )
    (plan,) = made.plan(BRIEF, PARENT, HISTORY, 1, seed=1)
    assert (plan.text, plan.expected) == ("Tile.", "less")
    asked: Request = transport.sent[0]
    assert asked.as_json
    assert "JSON" in asked.messages[-1].text


def test_every_plan_that_a_budget_pays_for_is_implemented() -> None:
    """With five calls, five plans were made, and no call was left to implement one."""

    def answer(request: Request) -> Reply:
        if request.phase == "plan":
            return Reply(f"OPTION: tile\nTile by {request.sample}.")
        return code(START.replace("fence", f"fence{len(transport.sent)}"))

    made_calls, transport = caller(answer, budget=Budget(calls=5))
    made = LLMProposer(MODELS, Prompts(), made_calls)
    plans = made.plan(BRIEF, PARENT, HISTORY, 6, seed=1)
    kernels = [made.implement(BRIEF, PARENT, plan, 1, seed=1) for plan in plans]
    assert len(plans) == 2
    assert all(kernels)
    assert [request.phase for request in transport.sent] == ["plan"] * 2 + ["implement"] * 2


def test_calls_that_were_kept_for_plans_nobody_implemented_are_made_later() -> None:
    def answer(request: Request) -> Reply:
        if request.phase == "plan":
            return Reply(f"OPTION: tile\nTile by {request.sample}.")
        return code(START.replace("fence", f"fence{len(transport.sent)}"))

    made_calls, transport = caller(answer, budget=Budget(calls=4))
    made = LLMProposer(MODELS, Prompts(), made_calls)
    assert len(made.plan(BRIEF, PARENT, HISTORY, 1, seed=1)) == 1
    later = replace(BRIEF, iteration=BRIEF.iteration + 1)
    (plan,) = made.plan(later, PARENT, HISTORY, 1, seed=2)
    assert len(made.implement(later, PARENT, plan, 2, seed=2)) == 2
    assert [request.phase for request in transport.sent] == ["plan"] * 2 + ["implement"] * 2

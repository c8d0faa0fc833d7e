"""Proposals in turns whose tools are called by the provider's protocol."""

from __future__ import annotations

import json

import pytest
from turn_work import FASTER, Work, fenced, kernel

from tilewright.core.records import Candidate
from tilewright.proposers.llm.messages import NativeCall, Reply
from tilewright.tools.proposal import MOST_EVALUATED
from tilewright.tools.toolbox import TOOLS
from tilewright.tools.turn_messages import LONGEST_ANSWERS
from tilewright.tools.turn_replies import MOST_CALLS

MODEL = "openai/m@http://127.0.0.1:1/v1"


def native(*calls: tuple[str, object], text: str = "") -> Reply:
    """A reply that calls these tools; arguments that are a text are not written as JSON."""
    made = tuple(
        NativeCall(f"c{n}", tool, given if isinstance(given, str) else json.dumps(given))
        for n, (tool, given) in enumerate(calls)
    )
    return Reply(text, calls=made, raw=json.dumps([call.id for call in made]))


def work(*replies: str | Reply, most: int = 4, share: int | None = None) -> Work:
    return Work(*replies, most=most, share=share, model=MODEL).go()


def test_calls_are_carried_out_and_each_has_its_result() -> None:
    found = work(
        native(("evaluate", {"kernel": FASTER, "note": "no fence"}), ("facts", {})),
        native(("submit", {"kernel": Candidate(FASTER).id})),
    )
    assert [[c.source for c in made] for made in found.rounds] == [[FASTER]]
    assert found.rounds[0][0].plan is not None
    assert found.rounds[0][0].plan.text == "no fence"
    first, second = found.transport.sent
    assert [tool.name for tool in first.tools] == list(TOOLS)
    said, answered = second.messages[-2:]
    assert said.raw == '["c0", "c1"]'
    assert [(r.call, r.name) for r in answered.results] == [("c0", "evaluate"), ("c1", "facts")]
    assert "-300 (-30.00%)" in answered.results[0].text
    assert answered.results[1].text.endswith("You have 3 turns left.")


def test_old_results_are_folded_once_and_the_last_folded_one_is_marked() -> None:
    facts = native(("facts", {}), ("profile", {}))
    found = work(facts, facts, facts, native(("submit", {"kernel": FASTER})))
    third, fourth = (request.messages for request in found.transport.sent[2:])
    assert "costs" not in fourth[2].results[0].text
    assert "costs" in fourth[-1].results[0].text
    assert [m.stable for m in fourth[1:]] == [False, False, False, True, False, False]
    # What is sent again is the same but for the mark, so that providers find it in their cache.
    assert [m.results for m in third[:3]] == [m.results for m in fourth[:3]]
    assert [m.raw for m in third[:4]] == [m.raw for m in fourth[:4]]


def test_a_model_that_writes_its_answer_as_text_is_read_too() -> None:
    found = work(fenced(FASTER))
    assert found.rounds[0][0].source == FASTER


def test_a_name_can_ask_for_calls_in_plain_text() -> None:
    found = Work(fenced(FASTER), model=f"{MODEL}?tools=no").go()
    (asked,) = found.transport.sent
    assert asked.tools == ()
    assert found.rounds[0][0].source == FASTER


def test_blocks_of_the_text_can_be_named() -> None:
    found = work(native(("evaluate", {"kernel": "A"}), text=fenced(FASTER)), fenced(kernel(1)))
    assert found.rounds[0][0].source == FASTER


def test_an_answer_that_was_cut_off_is_not_carried_out_and_answered_call_by_call() -> None:
    whole = native(("evaluate", {"kernel": kernel(1)}), ("check", '{"kernel": "voi'))
    cut = Reply(whole.text, stop="length", calls=whole.calls, raw=whole.raw)
    found = work(cut, native(("submit", {"kernel": FASTER})))
    assert [c.source for made in found.rounds for c in made] == [FASTER]
    results = found.transport.sent[1].messages[-1].results
    assert len(results) == 2
    assert all("truncated (none of the calls in it was carried out" in r.text for r in results)
    assert found.phases == ["turn 1", "turn 2"]  # it is not asked to go on


HOSTILE = {
    "arguments that are no JSON": native(("evaluate", '{"kernel": ')),
    "arguments that are a list": native(("evaluate", '["A"]')),
    "arguments nested without end": native(("evaluate", "[" * 10**5)),
    "a number of a million digits": native(("check", '{"kernel": ' + "9" * 10**6 + "}")),
    "an unknown tool": native(("shell", {"command": "rm -rf /"})),
    "a name of a megabyte": native(("x" * 10**6, {})),
    "no name": native(("", {})),
    "a flood of calls": native(*[("facts", {})] * 2000),
    "a flood of kernels": native(*[("evaluate", {"kernel": kernel(n)}) for n in range(200)]),
    "calls of one name": Reply("", calls=(NativeCall("c", "facts", "{}"),) * 3, raw="[]"),
    "no names for its calls": Reply("", calls=(NativeCall("", "facts", "{}"),) * 3, raw="[]"),
    "a refusal": Reply("no", stop="refused", calls=(NativeCall("c", "facts", "{}"),), raw="[]"),
    "terminal codes": native(("\x1b[2J", {"kernel": "\x1b[2J"})),
    "half a character": native(("evaluate", '{"kernel": "\\ud800"}')),
    "nothing": Reply(""),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_reply_is_answered_and_bounded(case: str) -> None:
    hostile = HOSTILE[case]
    found = work(hostile, native(("submit", {"kernel": FASTER})), most=3)
    assert found.phases == ["turn 1", "turn 2"]
    assert sum(map(len, found.rounds)) <= MOST_EVALUATED + 1
    assert found.rounds[-1][-1].source == FASTER
    last = found.transport.sent[1].messages[-1]
    assert len(last.results) == len(hostile.calls)
    assert [r.call for r in last.results] == [call.id for call in hostile.calls]
    answered = [r.text for r in last.results if not r.text.startswith("left out")]
    assert len(answered) <= MOST_CALLS
    assert sum(map(len, answered)) <= LONGEST_ANSWERS + 100 * MOST_CALLS
    assert "\x1b" not in found.heard(2)
    assert "left." in found.heard(2)


def test_the_same_replies_ask_the_same() -> None:
    replies = native(("try", {"kernels": [{"kernel": kernel(1)}]})), fenced(FASTER)
    first, second = work(*replies), work(*replies)
    assert [r.key for r in first.transport.sent] == [r.key for r in second.transport.sent]

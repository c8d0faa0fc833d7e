from __future__ import annotations

from dataclasses import replace

import pytest
from world import MemoryCalls, caller

from tilewright.core.budget import Budget
from tilewright.parts.languages import C
from tilewright.proposers.llm.failures import CallAbandonedError, ModelError
from tilewright.proposers.llm.messages import Message, Reply, Request, Usage
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.prices import Price, from_snapshot, price_of, snapshot
from tilewright.proposers.llm.replies import read_code

USAGE = Usage(input=100, output=10)


def request(sample: int = 0, model: str = "openai/a") -> Request:
    return Request(model, "plan", (Message("user", "q" * 30),), str(sample))


def test_replies_come_in_order_and_intents_before_calls() -> None:
    made, transport = caller(lambda r: Reply(f"re {r.sample}", usage=USAGE))
    replies = made.ask([request(i) for i in range(8)])
    assert [r.text for r in replies if r] == [f"re {i}" for i in range(8)]
    assert len(transport.sent) == 8


def test_no_call_is_made_twice() -> None:
    store = MemoryCalls()
    made, transport = caller(lambda r: Reply("x", usage=USAGE), store)
    assert made.ask([request()]) == made.ask([request()])
    again, later = caller(lambda r: Reply("y", usage=USAGE), store)
    assert again.ask([request()])[0] == made.ask([request()])[0]
    assert len(transport.sent) == 1
    assert later.sent == []


def test_what_a_run_paid_for_itself_stays_recorded_as_paid() -> None:
    store = MemoryCalls()
    made, _ = caller(lambda r: Reply("x", usage=USAGE), store)
    made.ask([request()])
    (paid,) = store.calls("run")
    assert not paid.cached
    resumed, _ = caller(lambda r: Reply("y"), store)
    for asking in (made, resumed):
        asking.ask([request()])
        assert store.calls("run") == [paid]


def test_another_run_takes_the_reply_at_no_cost() -> None:
    store = MemoryCalls()
    caller(lambda r: Reply("x", usage=USAGE), store)[0].ask([request()])
    made, transport = caller(lambda r: Reply("y"), store, run_id="second")
    assert made.ask([request()])[0] == Reply("x", usage=USAGE)
    (call,) = store.calls("second")
    assert (call.cached, call.usd, call.counted_tokens, call.input_tokens) == (True, 0.0, 0, 100)
    assert transport.sent == []


def test_samples_are_different_calls() -> None:
    made, transport = caller(lambda r: Reply("x"))
    made.ask([request(1), request(2)])
    assert len(transport.sent) == 2


def test_one_error_is_raised_after_all_others_are_recorded() -> None:
    store = MemoryCalls()

    def answer(asked: Request) -> Reply:
        if asked.sample == "0":
            raise ModelError("no key.")
        return Reply("x", usage=USAGE)

    made, _ = caller(answer, store)
    with pytest.raises(ModelError, match="no key"):
        made.ask([request(i) for i in range(5)])
    states = [call.state for call in store.calls("run")]
    assert sorted(states) == ["failed"] + ["replied"] * 4


def test_the_budget_refuses_what_it_does_not_afford() -> None:
    made, transport = caller(
        lambda r: Reply("x", usage=Usage(10, output=10)), budget=Budget(tokens=40_000)
    )
    replies = made.ask([request(i) for i in range(5)])
    assert all(replies), "each settles far below its reservation"
    made, transport = caller(
        lambda r: Reply("x", usage=Usage(10, output=10_000)), budget=Budget(tokens=30_000)
    )
    replies = made.ask([request(i) for i in range(5)])
    assert [reply is not None for reply in replies] == [True, True, False, False, False]
    assert len(transport.sent) == 2


def test_a_truncated_reply_is_continued() -> None:
    parts = ["```c\nvoid kernel(", "```c\nint x) {\n", "}\n```"]

    def answer(asked: Request) -> Reply:
        said = asked.messages[1].text if len(asked.messages) > 1 else ""
        number = said.count("int x") + said.count("kernel")
        stop = "end" if number == 2 else "length"
        return Reply(parts[number], stop, USAGE)  # type: ignore[arg-type]

    made, transport = caller(answer)
    (reply,) = made.ask([request()])
    assert reply is not None
    assert read_code(reply, C) == "void kernel(int x) {\n}\n"
    assert reply.usage == Usage(input=300, output=30)
    assert transport.sent[-1].messages[1].role == "assistant"


def test_it_is_not_continued_forever() -> None:
    made, transport = caller(lambda r: Reply("```c\n...", "length"))
    (reply,) = made.ask([request()])
    assert reply is not None
    assert reply.stop == "length"
    assert len(transport.sent) == 3


@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_continued_plan_keeps_the_cost_of_one_implementation(is_recorded: bool) -> None:
    def answer(asked: Request) -> Reply:
        is_cut_off = asked.phase == "plan" and len(asked.messages) == 1
        return Reply("Tile", "length" if is_cut_off else "end")

    store = MemoryCalls()
    plan = request()
    if is_recorded:
        caller(answer, store, run_id="earlier")[0].ask([plan])
    made, _ = caller(answer, store, budget=Budget(calls=2 if is_recorded else 4))
    (reply,) = made.ask([plan])
    assert reply is not None
    assert reply.text == "TileTile"
    for sample, key in ((1, plan.key), (2, "")):
        (reply,) = made.ask([replace(request(sample), phase="implement")], key)
        assert reply is not None


def test_cached_input_has_its_own_price() -> None:
    price = Price(input=2.0, output=10.0, cached=0.2, cache_written=2.5)
    usage = Usage(input=1_000_000, cached=400_000, cache_written=100_000, output=1000)
    assert price.usd(usage) == pytest.approx(0.5 * 2 + 0.4 * 0.2 + 0.1 * 2.5 + 0.01)
    assert price.usd(Usage()) is None


def test_prices_from_the_table_the_name_or_nowhere() -> None:
    known = price_of(parse_model("anthropic/claude-sonnet-4-5"))
    assert known == Price(3.0, 15.0, 0.3, 3.75)
    assert price_of(parse_model("openai/no-such-model-9")) is None
    assert price_of(parse_model("openai/gpt-5@http://127.0.0.1:1/v1")) is None
    assert price_of(parse_model("mailbox:x")) is None
    own = price_of(parse_model("openai/mine@http://127.0.0.1:1/v1?price=0.5:1.5"))
    assert own == Price(0.5, 1.5, 0.5, 0.5)
    table = {"a": known, "b": None}
    assert from_snapshot(snapshot(table)) == table


def test_a_reply_is_given_up_by_its_transport_once_it_is_recorded() -> None:
    store = MemoryCalls()
    made, _ = caller(lambda r: Reply("x", usage=USAGE), store)
    made.ask([request()])
    assert store.log == [
        ("intend", request().key),
        ("finish", request().key),
        ("settled", request().key),
    ]


def test_an_abandoned_call_still_counts_as_intended_with_what_it_may_cost() -> None:
    """Its reply may lie in the spool and be paid for."""
    store = MemoryCalls()

    def answer(asked: Request) -> Reply:
        raise CallAbandonedError("the run was stopped.")

    made, _ = caller(answer, store)
    with pytest.raises(CallAbandonedError):
        made.ask([request()])
    assert store.log == [("intend", request().key)]
    (call,) = store.calls("run")
    assert call.state == "intended"
    assert call.counted_tokens > 0


def test_a_call_that_the_end_of_the_run_prevents_is_not_recorded_as_one_that_failed() -> None:
    store = MemoryCalls()
    made, transport = caller(lambda r: Reply("x", usage=USAGE), store)
    transport.close()
    with pytest.raises(CallAbandonedError):
        made.ask([request()])
    assert store.log == []
    assert store.calls("run") == []


def test_a_run_that_goes_on_gives_up_what_a_killed_session_left_with_the_transport() -> None:
    """That may have been killed right after a reply was recorded."""
    store = MemoryCalls()
    caller(lambda r: Reply("x", usage=USAGE), store)[0].ask([request()])
    store.log.clear()
    caller(lambda r: Reply("x", usage=USAGE), store)
    assert store.log == [("settled", request().key)]

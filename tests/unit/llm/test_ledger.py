from __future__ import annotations

import threading

from tilewright.core.budget import Budget, Spent
from tilewright.proposers.llm.ledger import Ledger


def test_reserved_before_and_settled_after() -> None:
    ledger = Ledger(Budget(usd=1.0), Spent(usd=0.5))
    assert ledger.reserve("a", Spent(usd=0.5))
    assert ledger.settle("a", 0.1, 10) == Spent(usd=0.1, tokens=10)
    assert ledger.spent == Spent(usd=0.6, tokens=10)
    assert ledger.stop_reason is None


def test_what_is_not_afforded_is_refused_and_the_reason_stated() -> None:
    ledger = Ledger(Budget(usd=1.0, tokens=1000), Spent())
    assert not ledger.reserve("a", Spent(usd=0.1, tokens=1001))
    assert not ledger.reserve("b", Spent())
    assert ledger.stop_reason is not None
    assert "1 USD, 1000 tokens does not allow" in ledger.stop_reason


def test_unknown_costs_count_as_reserved() -> None:
    ledger = Ledger(Budget(), Spent())
    assert ledger.reserve("a", Spent(usd=0.3, tokens=70))
    assert ledger.settle("a", None, None) == Spent(usd=0.3, tokens=70)


def test_calls_are_counted_and_one_more_is_refused() -> None:
    ledger = Ledger(Budget(calls=2), Spent(calls=1))
    assert ledger.reserve("failed", Spent(calls=1))
    ledger.release("failed")
    assert ledger.reserve("a", Spent(calls=1))
    ledger.settle("a", None, None)
    assert ledger.stop_reason == "the budget of 2 calls to models is spent"
    assert not ledger.reserve("b", Spent(calls=1))
    assert "the budget of 2 calls does not allow another call" in (ledger.stop_reason or "")


def test_waits_for_calls_that_may_turn_out_cheaper() -> None:
    ledger = Ledger(Budget(usd=1.0), Spent())
    assert ledger.reserve("a", Spent(usd=0.9))
    got: list[bool] = []
    waiting = threading.Thread(target=lambda: got.append(ledger.reserve("b", Spent(usd=0.9))))
    waiting.start()
    waiting.join(0.1)
    assert waiting.is_alive()
    ledger.settle("a", 0.05, 1)
    waiting.join(60)
    assert got == [True]


def test_failed_calls_give_their_reservation_back() -> None:
    ledger = Ledger(Budget(tokens=10), Spent())
    assert ledger.reserve("a", Spent(tokens=10))
    ledger.release("a")
    assert ledger.reserve("b", Spent(tokens=10))
    assert ledger.spent == Spent()


def test_no_plan_is_asked_for_that_cannot_be_implemented() -> None:
    """The last calls of a budget were spent on plans that nobody implemented."""
    one, ledger = Spent(calls=1), Ledger(Budget(calls=5), Spent())
    for n in range(2):
        assert ledger.reserve(f"plan {n}", one, keep=one)
        ledger.settle(f"plan {n}", None, None)
    assert not ledger.reserve("plan 2", one, keep=one)
    assert not ledger.reserve("a second implementation", one)
    for n in range(2):
        assert ledger.reserve(f"implementation {n}", one, plan=f"plan {n}")
        ledger.settle(f"implementation {n}", None, None)
    assert ledger.spent.calls == 4
    assert not ledger.reserve("another one of plan 1", one, plan="plan 1")


def test_what_is_kept_for_a_plan_that_is_dropped_is_used_for_others() -> None:
    one, ledger = Spent(calls=1), Ledger(Budget(calls=4), Spent())
    assert ledger.reserve("unusable", one, keep=one)
    ledger.settle("unusable", None, None)
    ledger.drop("unusable")
    assert ledger.reserve("failed", one, keep=one)
    ledger.release("failed")
    assert ledger.reserve("plan", one, keep=one)
    ledger.keep("recorded", one)
    assert ledger.reserve("implementation", one, plan="recorded")
    ledger.settle("implementation", None, None)
    ledger.settle("plan", None, None)
    ledger.drop("plan")
    assert ledger.reserve("repair", one)
    ledger.settle("repair", None, None)
    assert not ledger.reserve("one too many", one)


def test_what_is_kept_for_a_plan_that_is_not_implemented_is_used_in_later_iterations() -> None:
    one, ledger = Spent(calls=1), Ledger(Budget(calls=4), Spent())
    ledger.begin(1)
    assert ledger.reserve("left", one, keep=one)
    ledger.settle("left", None, None)
    ledger.begin(2)
    assert ledger.reserve("plan", one, keep=one)
    ledger.settle("plan", None, None)
    ledger.begin(2)
    ledger.begin(1)
    assert ledger.reserve("repair", one)
    ledger.settle("repair", None, None)
    assert not ledger.reserve("another repair", one)
    assert ledger.reserve("implementation", one, plan="plan")

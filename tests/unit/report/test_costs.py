"""What is counted over the calls of a run."""

from typing import Literal

from tilewright.core.records import NOTHING_WORTHWHILE, CallRecord
from tilewright.report.costs import cost_sentence, total


def call(note: str, state: Literal["replied", "failed"] = "replied") -> CallRecord:
    return CallRecord("run", note or "key", "m", "plan", state, note=note)


def test_the_answer_that_no_change_is_worthwhile_is_not_an_unused_reply() -> None:
    calls = (
        call(""),
        call("no_code (no block)"),
        call(f"{NOTHING_WORTHWHILE} (It is near the bound.)"),
        call("quota", "failed"),
    )
    found = total(calls)
    assert (found.calls, found.unused, found.failed) == (3, 1, 1)


def test_the_reasons_why_replies_were_not_used_are_counted() -> None:
    calls = (call("no_code (no block)"), call("empty"), call("no_code (no block)"), call(""))
    assert "; 3 replies not used: 2 no code (no block), 1 empty" in cost_sentence(
        total(calls), None
    )

"""Contract suite of the `CallStore` role.

Subclass `CallStoreContract` in a test module and define the fixture `open_store`. It returns a
function that opens the same store each time it is called, for runs with the ids "run" and "other".
Pytest collects the inherited tests.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

import pytest

from tilewright.core.records import CallRecord
from tilewright.core.roles import CallStore

OpenStore: TypeAlias = Callable[[], CallStore]

CALL = CallRecord("run", "key", "openai/a", "plan")


class CallStoreContract:
    """Tests that every store of calls must pass."""

    @pytest.fixture
    def open_store(self) -> OpenStore:
        """Opens the store under test; defined by the subclass."""
        raise NotImplementedError

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Iterator[CallStore]:
        """The store under test, which is empty."""
        opened = open_store()
        yield opened
        opened.close()

    def test_an_intent_is_there_before_its_reply(
        self, store: CallStore, open_store: OpenStore
    ) -> None:
        """An intended call is visible to a second connection at once, so that it survives a killed
        process."""
        store.intend(CALL, {"question": 1})
        again = open_store()
        assert again.calls("run") == [CALL]
        assert again.reply("key") is None
        again.close()

    def test_a_reply_answers_the_same_call_of_any_run(self, store: CallStore) -> None:
        """A stored reply answers the same call in any run, and no other call."""
        store.intend(CALL, {"question": 1})
        finished = replace(CALL, state="replied", usd=0.5, input_tokens=7, counted_tokens=9)
        store.finish(finished, {"text": "yes"})
        assert store.reply("key") == {"text": "yes"}
        assert store.reply("ke") is None
        assert store.calls("run") == [finished]
        assert store.calls("other") == []
        assert store.exchanges("run") == [("key", {"question": 1}, {"text": "yes"})]

    def test_a_failed_call_may_be_intended_again(self, store: CallStore) -> None:
        """A call that failed may be intended again; the new record replaces the failed one."""
        store.intend(CALL, {})
        store.finish(replace(CALL, state="failed", note="no key"), None)
        assert store.reply("key") is None
        assert store.exchanges("run") == []
        store.intend(CALL, {})
        assert store.calls("run") == [CALL]

    def test_runs_keep_their_own_rows(self, store: CallStore) -> None:
        """A record that one run makes of a call does not appear in another run."""
        store.intend(CALL, {})
        store.finish(replace(CALL, state="replied"), {"text": "a"})
        mine = replace(CALL, run_id="other", cached=True, state="replied")
        store.intend(mine, {})
        store.finish(mine, {"text": "a"})
        store.annotate("other", "key", "no_code")
        assert store.calls("run")[0].note == ""
        assert store.calls("other") == [replace(mine, note="no_code")]

    @pytest.mark.parametrize("failed", ["run", "other"])
    def test_a_call_that_failed_in_one_run_is_answered_by_another_runs_reply(
        self, store: CallStore, failed: str
    ) -> None:
        """It makes no difference which of the two runs made the call first."""
        for run_id in ("run", "other"):
            call = replace(CALL, run_id=run_id)
            store.intend(call, {})
            if run_id == failed:
                store.finish(replace(call, state="failed", note="no key"), None)
            else:
                store.finish(replace(call, state="replied"), {"text": "paid"})
        assert store.reply("key") == {"text": "paid"}

    def test_calls_are_in_the_order_of_their_intents(self, store: CallStore) -> None:
        """Calls are returned in the order in which they were intended, not in the order of their
        replies."""
        calls = [replace(CALL, key=f"key {n}") for n in (2, 0, 1)]
        for call in calls:
            store.intend(call, {"of": call.key})
        for call in calls[::-1]:
            store.finish(replace(call, state="replied"), {"text": call.key})
        assert [call.key for call in store.calls("run")] == [call.key for call in calls]
        assert [key for key, _, _ in store.exchanges("run")] == [call.key for call in calls]

    def test_it_may_be_used_from_several_threads(self, store: CallStore) -> None:
        """Several threads may use the store at the same time."""

        def call(number: int) -> None:
            for n in range(10):
                mine = replace(CALL, key=f"{number}-{n}")
                store.intend(mine, {})
                store.finish(replace(mine, state="replied"), {"text": mine.key})

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expected = {f"{a}-{b}" for a in range(4) for b in range(10)}
        assert {call.key for call in store.calls("run")} == expected
        assert all(call.state == "replied" for call in store.calls("run"))

    def test_closing_twice_is_harmless(self, store: CallStore) -> None:
        """`close` may be called more than once."""
        store.close()
        store.close()

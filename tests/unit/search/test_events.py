"""Relay: listeners hear of everything in one thread, in the order in which it happened."""

from __future__ import annotations

import threading

from tilewright.search.events import Event, Relay, Stopped


def test_what_other_threads_have_to_tell_is_heard_in_the_relays_own() -> None:
    heard: list[tuple[Event, int]] = []
    relay = Relay(lambda event: heard.append((event, threading.get_ident())))
    relay(Stopped("first"))
    thread = threading.Thread(target=lambda: [relay(Stopped(f"other {n}")) for n in range(3)])
    thread.start()
    thread.join()
    assert len(heard) == 1
    relay(Stopped("last"))
    texts = [event.reason for event, _ in heard if isinstance(event, Stopped)]
    assert texts == ["first", "other 0", "other 1", "other 2", "last"]
    assert {thread for _, thread in heard} == {threading.get_ident()}


def test_what_waits_is_told_when_it_is_asked_for() -> None:
    heard: list[Event] = []
    relay = Relay(heard.append)
    thread = threading.Thread(target=relay, args=(Stopped("other"),))
    thread.start()
    thread.join()
    assert heard == []
    relay.deliver()
    assert heard == [Stopped("other")]
    relay.deliver()
    assert heard == [Stopped("other")]

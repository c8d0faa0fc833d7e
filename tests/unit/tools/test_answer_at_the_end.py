"""A signal while an answer is told leaves the answer as it is."""

from __future__ import annotations

from tilewright.tools.main_thread import MainThread


def test_an_interruption_while_an_answer_is_told_is_no_error() -> None:
    main = MainThread()
    answer = main.submit(lambda: "answer")
    answer.add_done_callback(lambda _: main.interrupt())
    main.serve_from_main_thread(lambda: None)
    assert answer.result(60) == "answer"

"""Calls outlive the process that asked, and are not made again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest

from tilewright.core.errors import InternalError
from tilewright.proposers.llm.dispatch import ProcessTransport
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Message, Reply, Request
from tilewright.proposers.llm.retry import Backoff
from tilewright.proposers.llm.spool import Spool
from tilewright.testing.model_protocols import Behaviour
from tilewright.testing.model_server import ModelServer

CANARY = "canary-77aa01-secret"
GOOD = {"text": "yes", "usage": {}}
QUICK = Backoff(attempts=2, first_s=0.01)


def request(model: str, sample: int = 0) -> Request:
    return Request(model, "plan", (Message("user", "hi"),), str(sample))


def until(condition: Callable[[], object], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_replies_come_back_and_keys_stay_out_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    transport = ProcessTransport(tmp_path, QUICK)
    with ModelServer(Behaviour(text="yes")) as server:
        name = f"openai/m@{server.url}?key_env=TEST_API_KEY"
        futures = [transport.submit(request(name, i)) for i in range(5)]
        assert [f.result(60).text for f in futures] == ["yes"] * 5
        assert {h["authorization"] for h in server.headers} == {f"Bearer {CANARY}"}
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        seen = []
        for child in children:
            with contextlib.suppress(ProcessLookupError):  # one of an earlier test that has ended
                seen.append(Path(f"/proc/{child}/environ").read_bytes())
                seen.append(Path(f"/proc/{child}/cmdline").read_bytes())
        assert any(b"tilewright.proposers.llm" in text for text in seen)
        assert not any(CANARY.encode() in text for text in seen)
    for i in range(5):
        transport.settled(request(name, i).key)
    transport.close()
    assert list(tmp_path.glob("*.reply")) == list(tmp_path.glob("*.claim")) == []


def test_errors_come_back_as_they_are(tmp_path: Path) -> None:
    transport = ProcessTransport(tmp_path, QUICK)
    with ModelServer(Behaviour(kind="model", status=404)) as server:
        future = transport.submit(request(f"openai/m@{server.url}"))
        with pytest.raises(ModelError, match="does not exist"):
            future.result(60)
    transport.close()
    assert list(tmp_path.glob("*.claim")) == []


def test_an_answer_of_no_known_form_fails_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And ends neither the thread that hears answers nor the calls beside it."""

    class Process:
        messages = iter(
            [{"key": "a", "reply": {"text": 5, "usage": {}}}, {"key": "b", "reply": GOOD}]
        )

        def receive_json(self) -> object:
            try:
                return next(self.messages)
            except StopIteration:
                raise EOFError from None

        def wait(self) -> None:
            pass

        kill = wait

    transport = ProcessTransport(tmp_path, QUICK)
    futures = {key: Future[Reply]() for key in ("a", "b")}
    monkeypatch.setattr(transport, "_waiting", dict(futures))
    transport._listen(Process())  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="not a reply of a model"):
        futures["a"].result(0)
    assert futures["b"].result(0).text == "yes"


ASKING = """
import sys
from pathlib import Path
from tilewright.core.errors import InternalError
from tilewright.proposers.llm.dispatch import ProcessTransport
from tilewright.proposers.llm.messages import Message, Request
from tilewright.proposers.llm.retry import Backoff
transport = ProcessTransport(Path(sys.argv[1]), Backoff(attempts=2, first_s=0.01))
message = (Message("user", "hi"),)
futures = [transport.submit(Request(sys.argv[2], "plan", message, str(i))) for i in range(4)]
print("asked", flush=True)
for future in futures:
    future.result()
"""


def test_a_killed_run_finds_the_replies_it_paid_for(tmp_path: Path) -> None:
    with ModelServer(Behaviour(text="paid", delay_s=1.0)) as server:
        name = f"openai/m@{server.url}?concurrency=2"
        asking = subprocess.Popen([sys.executable, "-c", ASKING, str(tmp_path), name])
        until(lambda: server.concurrent == 2)
        asking.send_signal(signal.SIGKILL)
        asking.wait()
        transport = ProcessTransport(tmp_path, QUICK)
        futures = [transport.submit(request(name, i)) for i in range(4)]
        assert [f.result(60).text for f in futures] == ["paid"] * 4
        transport.close()
        asked = Counter(h["idempotency-key"] for h in server.headers)
    assert len(asked) == 4
    assert max(asked.values()) == 1


def test_a_dead_call_process_fails_what_waits(tmp_path: Path) -> None:
    transport = ProcessTransport(tmp_path, QUICK)
    with ModelServer(Behaviour(delay_s=5)) as server:
        future = transport.submit(request(f"openai/m@{server.url}"))
        until(lambda: server.concurrent == 1)
        assert transport.process_id is not None
        os.kill(transport.process_id, signal.SIGKILL)
        with pytest.raises(ModelError, match="died"):
            future.result(60)
    transport.close()


def test_closing_does_not_wait_for_calls_under_way(tmp_path: Path) -> None:
    transport = ProcessTransport(tmp_path, QUICK)
    is_closed = threading.Event()
    with ModelServer(answer=lambda prompt, key: str(is_closed.wait(60))) as server:
        future = transport.submit(request(f"openai/m@{server.url}"))
        until(lambda: server.concurrent == 1)
        transport.close()
        with pytest.raises(ModelError, match="stopped"):
            future.result(60)
        assert server.concurrent == 1, "the call is still under way"
        is_closed.set()
        until(lambda: list(tmp_path.glob("*.reply")))


def test_claims_of_the_dead_are_taken_over(tmp_path: Path) -> None:
    asked = request("mailbox:x")
    (tmp_path / f"{asked.key}.claim").write_text("123-456")
    spool = Spool(tmp_path)
    spool.enter()
    assert spool.around(asked, lambda: Reply("new")) == Reply("new")
    assert Spool(tmp_path).find(asked.key) == Reply("new")
    for damaged in ("", "[", "[" * 100_000, '{"text": 7}', "\xff"):
        (tmp_path / f"{asked.key}.reply").write_text(damaged, encoding="latin-1")
        assert Spool(tmp_path).find(asked.key) is None
        assert spool.around(asked, lambda: Reply("again")) == Reply("again")
        spool.discard(asked.key)
    spool.leave()


def test_a_defect_says_where_it_is_but_quotes_nothing(tmp_path: Path) -> None:
    """A folder with the name of the file in which the reply is kept for later runs."""
    spool = tmp_path / CANARY
    with ModelServer(Behaviour(text="yes")) as server:
        asked = request(f"openai/m@{server.url}")
        (spool / f"{asked.key}.reply" / "in the way").mkdir(parents=True)
        transport = ProcessTransport(spool, QUICK)
        found = r"unexpected \w+Error in a call .* \(\w+\.py:\d+\)"
        with pytest.raises(InternalError, match=found) as raised:
            transport.submit(asked).result(60)
    assert CANARY not in str(raised.value)
    transport.close()


def test_a_folder_that_disappears_between_calls_is_named(tmp_path: Path) -> None:
    box = tmp_path / "box"
    transport = ProcessTransport(tmp_path / "spool", QUICK)
    first = transport.submit(request(f"mailbox:{box}?timeout_s=0.1"))
    with pytest.raises(ModelError, match="no reply file"):
        first.result(60)
    for file in sorted(box.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    (box / "requests").write_text("in the way")
    with pytest.raises(ModelError, match=f"Create the folder {box}/requests"):
        transport.submit(request(f"mailbox:{box}?timeout_s=0.1", 1)).result(60)
    transport.close()

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from pathlib import Path

import pytest

from tilewright.core.errors import ConfigurationError
from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Message, Reply, Request, Usage
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.pool import ProviderPool
from tilewright.proposers.llm.providers.create import create_provider
from tilewright.proposers.llm.providers.mailbox import MailboxProvider
from tilewright.proposers.llm.retry import Backoff
from tilewright.testing.model_protocols import Behaviour
from tilewright.testing.model_server import ModelServer

CANARY = "canary-5f2c9d71-secret"
FAST = Backoff(attempts=3, first_s=0.01, longest_s=0.02)
PROTOCOLS = ["openai", "anthropic"]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_API_KEY", CANARY)


def name_of(server: ModelServer, protocol: str, options: str = "") -> str:
    pytest.importorskip(protocol)
    url = server.url if protocol == "openai" else server.root
    return f"{protocol}/m-1@{url}?key_env=TEST_API_KEY{options}"


def ask(name: str, backoff: Backoff = FAST, **changes: object) -> Reply:
    pool = ProviderPool(create_provider, backoff)
    values = {"phase": "plan", "messages": (Message("user", "hi"),), **changes}
    try:
        return pool.submit(Request(name, **values)).result()  # type: ignore[arg-type]
    finally:
        pool.stop()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_normal_reply(protocol: str) -> None:
    with ModelServer(Behaviour(text="the plan")) as server:
        reply = ask(name_of(server, protocol))
    assert (reply.text, reply.stop, reply.served_by, reply.attempts) == (
        "the plan",
        "end",
        "m-1",
        1,
    )
    assert reply.usage.input == 1000
    assert reply.usage.cached == 400
    assert reply.usage.output == 100


def test_keys_go_where_the_protocols_want_them() -> None:
    with ModelServer() as server:
        ask(name_of(server, "openai"))
        ask(name_of(server, "anthropic"))
    assert server.headers[0]["authorization"] == f"Bearer {CANARY}"
    assert CANARY in server.headers[1].get("x-api-key", server.headers[1].get("authorization"))


def test_the_usual_key_is_not_sent_to_other_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_WEBHOOK_SECRET"):
        monkeypatch.setenv(variable, CANARY)
    with ModelServer() as server:
        ask(f"openai/m-1@{server.url}")
    assert CANARY not in str(server.headers)


def test_unset_options_are_left_out_and_set_ones_sent() -> None:
    with ModelServer() as server:
        ask(name_of(server, "openai"))
        ask(name_of(server, "openai", "&temperature=0.5&reasoning_effort=low&max_tokens=77"))
        ask(name_of(server, "anthropic"))
        ask(name_of(server, "anthropic", "&temperature=0.5&max_tokens=77"))
    plain, full, anthropic, anthropic_full = server.requests
    assert set(plain) == {"model", "messages"}
    assert (full["temperature"], full["reasoning_effort"], full["max_tokens"]) == (0.5, "low", 77)
    assert set(anthropic) == {"model", "messages", "max_tokens"}
    assert (anthropic_full["temperature"], anthropic_full["max_tokens"]) == (0.5, 77)


def test_json_is_asked_for_only_where_the_model_offers_it() -> None:
    with ModelServer() as server:
        ask(name_of(server, "openai"), as_json=True)
        ask(name_of(server, "openai", "&json=1"), as_json=True)
    assert "response_format" not in server.requests[0]
    assert server.requests[1]["response_format"] == {"type": "json_object"}


def test_the_stable_part_is_marked_for_the_cache() -> None:
    messages = (Message("user", "the ISA", stable=True), Message("user", "the question"))
    with ModelServer() as server:
        ask(name_of(server, "anthropic"), messages=messages)
        ask(name_of(server, "openai"), messages=messages)
    first, second = server.requests[0]["messages"][0]["content"]
    assert first["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in second
    assert server.requests[1]["messages"] == [
        {"role": "user", "content": "the ISA\n\nthe question"}
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    "failure",
    [
        Behaviour(kind="rate", status=429, headers={"retry-after": "0"}),
        Behaviour(kind="quota per minute", status=429, headers={"retry-after": "0"}),
        Behaviour(kind="broken", status=500),
        Behaviour(kind="overloaded", status=529),
        Behaviour(kind="drop"),
        Behaviour(kind="truncate"),
        Behaviour(kind="malformed"),
    ],
    ids=lambda b: f"{b.kind}-{b.status}",
)
def test_what_may_pass_is_tried_again(protocol: str, failure: Behaviour) -> None:
    with ModelServer(failure, Behaviour(text="at last")) as server:
        reply = ask(name_of(server, protocol))
    assert (reply.text, reply.attempts) == ("at last", 2)


def test_retry_after_is_obeyed() -> None:
    slow_down = Behaviour(kind="rate", status=429, headers={"retry-after": "0.6"})
    with ModelServer(slow_down, Behaviour()) as server:
        started = time.monotonic()
        ask(name_of(server, "openai"))
    assert time.monotonic() - started >= 0.6


def test_a_slow_answer_times_out_and_is_tried_again() -> None:
    with ModelServer(Behaviour(delay_s=30), Behaviour(text="quick")) as server:
        assert ask(name_of(server, "openai", "&timeout_s=3")).text == "quick"


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        (Behaviour(kind="key", status=401, text=f"bad key {CANARY}"), "refused the key"),
        (Behaviour(kind="model", status=404, text="no such model"), "does not exist"),
        (Behaviour(kind="insufficient_quota", status=429, text="quota"), "quota"),
        (Behaviour(kind="x", status=400, text="Your credit balance is too low"), "exhausted"),
        (Behaviour(kind="bad", status=400, text=f"bad request {CANARY}"), "rejected the request"),
        (Behaviour(kind="broken", status=503), "did not answer in 3 attempts"),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_stays_wrong_is_one_sentence_without_the_key(
    protocol: str, behaviour: Behaviour, words: str
) -> None:
    with ModelServer(behaviour) as server, pytest.raises(ModelError, match=words) as caught:
        ask(name_of(server, protocol))
    assert CANARY not in str(caught.value)
    assert "m-1" in str(caught.value)
    assert len(server.requests) == (3 if behaviour.status == 503 else 1)


def test_an_unreachable_address() -> None:
    with pytest.raises(ModelError, match="connection failed"):
        ask("openai/m@http://127.0.0.1:9/v1")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_replies_that_are_no_answer(protocol: str) -> None:
    script = [
        Behaviour(kind="empty"),
        Behaviour(kind="refusal", text="no"),
        Behaviour(finish="length"),
    ]
    with ModelServer(*script) as server:
        name = name_of(server, protocol)
        empty, refused, cut = ask(name), ask(name), ask(name)
    assert (empty.text, empty.stop) == ("", "end")
    assert refused.stop == "refused"
    assert cut.stop == "length"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_missing_usage_is_unknown_and_another_model_is_noticed(protocol: str) -> None:
    with ModelServer(Behaviour(usage=False, model="m-2")) as server:
        reply = ask(name_of(server, protocol))
    assert reply.usage == Usage()
    assert not reply.usage.known
    assert reply.served_by == "m-2"


@pytest.mark.slow  # starts programs where --quick cannot see it
def test_concurrency_is_bounded_per_model() -> None:
    together = threading.Barrier(3)

    def answer(prompt: str, key: str) -> str:
        together.wait(60)  # two at a time would wait for a third in vain
        return "hello"

    with ModelServer(Behaviour(delay_s=0.05), answer=answer) as server:
        name = name_of(server, "openai", "&concurrency=3")
        pool = ProviderPool(create_provider, FAST)
        requests = [Request(name, "plan", (Message("user", "hi"),), str(i)) for i in range(15)]
        futures = [pool.submit(request) for request in requests]
        assert {future.result(60).text for future in futures} == {"hello"}
        pool.stop()
    assert len(server.requests) == 15
    assert server.most_concurrent == 3
    assert len({headers["idempotency-key"] for headers in server.headers}) == 15


def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        create_provider(parse_model("openai/gpt-5"))


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigurationError, match=r"tilewright\[anthropic\]"):
        create_provider(parse_model("anthropic/claude"))


class TestCommand:
    def ask(self, script: str, options: str = "") -> Reply:
        return ask(f"command:{sys.executable} -c '{script}'{options}", Backoff(attempts=1))

    def test_prompt_in_reply_out(self) -> None:
        assert self.ask("print(input()[::-1])").text == "ih\n"

    def test_no_secret_in_its_environment(self) -> None:
        assert CANARY not in self.ask("import os; print(dict(os.environ))").text

    @pytest.mark.skipif(sys.platform != "linux", reason="needs the subreapers of Linux")
    @pytest.mark.parametrize("options", ["", "?timeout_s=2"])
    def test_no_process_outlives_the_call(self, tmp_path: Path, options: str) -> None:
        """Not even one in a session of its own, with an empty environment, whose parents have
        ended.
        """
        number = tmp_path / "number"
        started = f'setsid env -i sh -c "sleep 600 & echo \\$! > {number}" &'
        script = f"{started}\nwhile [ ! -s {number} ]; do sleep 0.01; done"
        if options:
            with pytest.raises(ModelError, match="no answer within 2 s"):
                ask(f"command:sh -c '{script}; sleep 600'{options}", Backoff(attempts=1))
        else:
            ask(f"command:sh -c '{script}'", Backoff(attempts=1))
        assert not Path("/proc", number.read_text().strip()).exists()

    def test_killing_its_supervisor(self) -> None:
        with pytest.raises(ModelError, match="gave no exit code"):
            self.ask("import os; os.kill(os.getppid(), 9)")

    def test_a_program_that_is_removed_meanwhile(self, tmp_path: Path) -> None:
        program = tmp_path / "model"
        program.write_text("#!/bin/sh")
        program.chmod(0o755)
        provider = create_provider(parse_model(f"command:{program}"))
        program.unlink()
        with pytest.raises(ModelError, match=r"cannot be started \(No such file or directory\)"):
            provider.complete(Request("m", "plan", (Message("user", "hi"),), "0"))

    def test_failing(self) -> None:
        script = 'import os, sys; sys.exit("it broke")'
        with pytest.raises(ModelError, match=r"exit code 1 \(it broke\)"):
            self.ask(script)

    def test_what_it_complains_of_is_shown_without_terminal_codes(self) -> None:
        script = 'import sys; sys.exit("\\x1b[31mred\\x1b]0;title\\x07")'
        with pytest.raises(ModelError, match=r"exit code 1 \(red\)"):
            self.ask(script)

    def test_hanging(self) -> None:
        with pytest.raises(ModelError, match=r"no answer within 0\.5 s"):
            self.ask("import time; time.sleep(600)", "?timeout_s=0.5")

    def test_writing_without_end(self) -> None:
        with pytest.raises(ModelError, match="wrote more than 4 MiB"):
            self.ask('while True: print("x" * 100000)')

    def test_missing(self) -> None:
        with pytest.raises(ConfigurationError, match="not on PATH"):
            ask("command:no-such-program-here")


class TestMailbox:
    def test_a_reply_file_answers(self, tmp_path: Path) -> None:
        name = f"mailbox:{tmp_path}"
        pool = ProviderPool(create_provider, FAST)
        request = Request(name, "plan", (Message("user", "what now?"),))
        future = pool.submit(request)
        question = tmp_path / "requests" / f"{request.key}.json"
        while not question.exists():
            time.sleep(0.01)
        assert "what now?" in question.read_text()
        (tmp_path / "replies" / question.name).write_text(
            '{"text": "this", "usage": {"input": 3, "output": 2}}'
        )
        assert future.result(60) == Reply("this", usage=Usage(3, output=2), served_by="mailbox")
        pool.stop()

    def test_no_reply_in_time(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match=r"no reply file .* within 0\.2 s"):
            ask(f"mailbox:{tmp_path}?timeout_s=0.2")

    @pytest.mark.parametrize("kind", ["pipe", "folder", "device", "large", "loop", "link"])
    def test_a_reply_that_is_no_plain_file(self, tmp_path: Path, kind: str) -> None:
        """A pipe was waited for beyond any time limit, and a device filled the memory."""
        request = Request(f"mailbox:{tmp_path}?timeout_s=5", "plan", (Message("user", "?"),))
        (tmp_path / "replies").mkdir()
        reply = tmp_path / "replies" / f"{request.key}.json"
        if kind == "pipe":
            os.mkfifo(reply)
        elif kind == "folder":
            reply.mkdir()
        elif kind == "device":
            reply.symlink_to("/dev/zero")
        elif kind == "loop":
            reply.symlink_to(reply.name)
        elif kind == "link":
            (tmp_path / "private.json").write_text('{"text": "a file of the user"}')
            reply.symlink_to(tmp_path / "private.json")
        else:
            with reply.open("wb") as stream:
                stream.truncate(1 << 30)
        with pytest.raises(ModelError, match="not usable"):
            ask(request.model, messages=request.messages)

    @pytest.mark.parametrize("reply", [b"", b'{"text": "a', b'{"text": "\xff"}', b"\0"])
    def test_a_reply_file_that_does_not_become_complete(self, tmp_path: Path, reply: bytes) -> None:
        request = Request(f"mailbox:{tmp_path}?timeout_s=0.2", "plan", (Message("user", "?"),))
        (tmp_path / "replies").mkdir()
        (tmp_path / "replies" / f"{request.key}.json").write_bytes(reply)
        with pytest.raises(ModelError, match=r"did not become a complete JSON object .* 0\.2 s"):
            ask(request.model, messages=request.messages)

    def test_a_folder_that_is_removed(self, tmp_path: Path) -> None:
        model = parse_model(f"mailbox:{tmp_path}/box")
        provider = MailboxProvider(model)
        shutil.rmtree(tmp_path / "box")
        with pytest.raises(ModelError, match="cannot be written"):
            provider.complete(Request(model.name, "plan", (Message("user", "?"),)))

    @pytest.mark.parametrize("folder", ["~nobody-of-this-name/box", "a\0b", "/dev/null"])
    def test_a_folder_that_cannot_be(self, folder: str) -> None:
        with pytest.raises(ConfigurationError, match="cannot be created"):
            MailboxProvider(parse_model(f"mailbox:{folder}"))

    def test_a_request_is_written_through_no_link(self, tmp_path: Path) -> None:
        request = Request(f"mailbox:{tmp_path}?timeout_s=0.2", "plan", (Message("user", "?"),))
        (tmp_path / "requests").mkdir()
        victim = tmp_path / "victim"
        victim.write_text("kept")
        (tmp_path / "requests" / f"{request.key}.partial").symlink_to(victim)
        with pytest.raises(ModelError, match="no reply file"):
            ask(request.model, messages=request.messages)
        assert victim.read_text() == "kept"
        assert (tmp_path / "requests" / f"{request.key}.json").is_file()

    @pytest.mark.parametrize(
        "answer", ['{"answer": 1}', "3", "[" * 100_000, '{"text": null}', '{"text": ["a"]}']
    )
    def test_an_unusable_reply(self, tmp_path: Path, answer: str) -> None:
        request = Request(f"mailbox:{tmp_path}", "plan", (Message("user", "?"),))
        (tmp_path / "replies").mkdir()
        (tmp_path / "replies" / f"{request.key}.json").write_text(answer)
        with pytest.raises(ModelError, match="not usable"):
            ask(request.model, messages=request.messages)

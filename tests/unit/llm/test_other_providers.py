"""Google and Bedrock, against the same local server."""

from __future__ import annotations

import pytest

from tilewright.proposers.llm.failures import ModelError
from tilewright.proposers.llm.messages import Message, Reply, Request
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.providers.create import create_provider
from tilewright.proposers.llm.retry import Backoff, with_retries
from tilewright.testing.model_protocols import Behaviour
from tilewright.testing.model_server import ModelServer

CANARY = "canary-90ab12-secret"
MESSAGES = (Message("user", "the ISA", stable=True), Message("user", "the question"))


@pytest.fixture(params=["google", "bedrock"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    pytest.importorskip("boto3" if name == "bedrock" else "google.genai")
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    return name


def ask(server: ModelServer, protocol: str, options: str = "") -> Reply:
    key = "&key_env=TEST_API_KEY" if protocol == "google" else ""
    name = f"{protocol}/anthropic.m-1@{server.root}?timeout_s=20{key}{options}"
    provider = create_provider(parse_model(name))
    request = Request(name, "plan", MESSAGES)
    backoff = Backoff(attempts=2, first_s=0.01)
    return with_retries(lambda: provider.complete(request), name, backoff)


def test_a_normal_reply(protocol: str) -> None:
    with ModelServer(Behaviour(text="the plan", model="m-1")) as server:
        reply = ask(server, protocol)
    assert (reply.text, reply.stop) == ("the plan", "end")
    assert (reply.usage.input, reply.usage.cached, reply.usage.output) == (1000, 400, 100)
    assert "the question" in str(server.requests)


def test_options_are_sent_only_when_set(protocol: str) -> None:
    with ModelServer() as server:
        ask(server, protocol)
        ask(server, protocol, "&temperature=0.5&max_tokens=77")
    assert "emperature" not in str(server.requests[0])
    assert "0.5" in str(server.requests[1])
    assert "77" in str(server.requests[1])


def test_refusals_and_cuts(protocol: str) -> None:
    with ModelServer(Behaviour(kind="refusal"), Behaviour(finish="length")) as server:
        assert ask(server, protocol).stop == "refused"
        assert ask(server, protocol).stop == "length"


@pytest.mark.parametrize("failure", [Behaviour(kind="x", status=503), Behaviour(kind="drop")])
def test_what_may_pass_is_tried_again(protocol: str, failure: Behaviour) -> None:
    with ModelServer(failure, Behaviour(text="at last")) as server:
        assert ask(server, protocol).text == "at last"


def test_a_refused_key(protocol: str) -> None:
    with (
        ModelServer(Behaviour(status=403, text=f"bad {CANARY}")) as server,
        pytest.raises(ModelError, match="refused the key") as caught,
    ):
        ask(server, protocol)
    assert CANARY not in str(caught.value)

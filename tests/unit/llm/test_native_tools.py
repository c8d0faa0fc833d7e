"""Calls of tools by the protocols of all providers, against a real local server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tilewright.proposers.llm.failures import ModelError, TransientError
from tilewright.proposers.llm.messages import (
    MAX_RAW_CHARACTERS,
    Message,
    NativeCall,
    OfferedTool,
    Reply,
    Request,
    ToolResult,
    reply_from_json,
    reply_to_json,
    request_from_json,
    request_to_json,
)
from tilewright.proposers.llm.models import parse_model
from tilewright.proposers.llm.providers.create import create_provider
from tilewright.testing.model_protocols import SIGNATURE, THOUGHT, Behaviour, prompt_of
from tilewright.testing.model_server import ModelServer
from tilewright.tools.toolbox import TOOLS

CANARY = "canary-77ab12-secret"
ASKED = (Message("user", "the ISA", stable=True), Message("user", "the question"))
OFFERED = tuple(OfferedTool(t.name, t.text, json.dumps(t.schema)) for t in TOOLS.values())
CALLS = (("check", {"kernel": "void kernel() {\n}\n"}), ("facts", {}))
PACKAGES = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai"}


@pytest.fixture(params=["openai", "anthropic", "google", "bedrock"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    pytest.importorskip(PACKAGES.get(name, "boto3"))
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    return name


def name_of(server: ModelServer, protocol: str) -> str:
    url = server.url if protocol == "openai" else server.root
    key = "" if protocol == "bedrock" else "&key_env=TEST_API_KEY"
    return f"{protocol}/anthropic.m-1@{url}?timeout_s=20{key}"


def ask(server: ModelServer, protocol: str, messages: tuple[Message, ...] = ASKED) -> Reply:
    name = name_of(server, protocol)
    request = Request(name, "turn 1", messages, tools=OFFERED)
    # As requests and replies travel to the process that makes the calls, and back.
    travelled = request_from_json(json.loads(json.dumps(request_to_json(request))))
    assert travelled == request
    reply = create_provider(parse_model(name)).complete(travelled)
    again = reply_from_json(json.loads(json.dumps(reply_to_json(reply))))
    assert again == reply
    return again


def answered(reply: Reply) -> tuple[Message, ...]:
    results = tuple(ToolResult(c.id, c.name, f"answer {n}") for n, c in enumerate(reply.calls))
    return (
        *ASKED,
        Message("assistant", reply.text, raw=reply.raw),
        Message("user", "", stable=True, results=results),
    )


def turns_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body.get("messages") or body["contents"]
    return found


def test_tools_are_offered_and_their_calls_read(protocol: str) -> None:
    with ModelServer(Behaviour(text="I look.", calls=CALLS)) as server:
        reply = ask(server, protocol)
    assert (reply.text, reply.stop) == ("I look.", "end")
    assert [(c.name, json.loads(c.arguments)) for c in reply.calls] == list(CALLS)
    sent = json.dumps(server.requests[0])
    for tool in OFFERED:
        assert json.dumps(tool.text) in sent
    assert '"additionalProperties"' in sent


def test_a_turn_goes_back_unchanged_with_a_result_for_each_call(protocol: str) -> None:
    with ModelServer(Behaviour(text="I look.", calls=CALLS), Behaviour(text="done")) as server:
        reply = ask(server, protocol)
        assert ask(server, protocol, answered(reply)).text == "done"
    own = next(t for t in turns_of(server.requests[1]) if t["role"] in ("assistant", "model"))
    expected: dict[str, Any] = {
        "openai": {"content": "I look.", "reasoning_content": THOUGHT},
        "anthropic": {
            "content": [
                {"type": "thinking", "thinking": THOUGHT, "signature": SIGNATURE},
                {"type": "text", "text": "I look."},
                *(
                    {"type": "tool_use", "id": f"call-{n}", "name": name, "input": given}
                    for n, (name, given) in enumerate(CALLS)
                ),
            ]
        },
        "google": {
            "parts": [
                {"text": "hm", "thought": True},
                {"text": "I look."},
                *(
                    {"functionCall": {"name": name, "args": given}, "thoughtSignature": SIGNATURE}
                    for name, given in CALLS
                ),
            ]
        },
        "bedrock": {
            "content": [
                {"reasoningContent": {"reasoningText": {"text": THOUGHT, "signature": SIGNATURE}}},
                {"reasoningContent": {"redactedContent": SIGNATURE}},
                {"text": "I look."},
                *(
                    {"toolUse": {"toolUseId": f"call-{n}", "name": name, "input": given}}
                    for n, (name, given) in enumerate(CALLS)
                ),
            ]
        },
    }[protocol]
    assert {name: own[name] for name in expected} == expected
    prompt = prompt_of(server.requests[1])
    assert "answer 0" in prompt
    assert "answer 1" in prompt


def test_what_stays_is_marked_for_the_cache_where_providers_offer_that(protocol: str) -> None:
    with ModelServer(Behaviour(calls=CALLS), Behaviour()) as server:
        ask(server, protocol, answered(ask(server, protocol)))
    marks = {"anthropic": "cache_control", "bedrock": "cachePoint"}
    sent = json.dumps(turns_of(server.requests[1]))
    assert sent.count(marks.get(protocol, "none")) == (2 if protocol in marks else 0)


def test_without_tools_nothing_of_them_is_sent(protocol: str) -> None:
    with ModelServer() as server:
        name = name_of(server, protocol)
        create_provider(parse_model(name)).complete(Request(name, "plan", ASKED))
    assert "tool" not in json.dumps(server.requests[0])


@pytest.mark.parametrize("status", [400, 404])
def test_an_endpoint_without_tools_is_told_in_one_sentence(protocol: str, status: int) -> None:
    refusal = Behaviour(status=status, text=f"m-1 does not support tools {CANARY}")
    with ModelServer(refusal) as server, pytest.raises(ModelError) as caught:
        ask(server, protocol)
    told = str(caught.value)
    assert "does not accept tools in its provider's protocol" in told
    assert "?tools=no" in told
    assert "--without tools" in told
    assert CANARY not in told


def test_arguments_that_are_no_json_reach_us_and_do_not_go_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    pytest.importorskip("openai")
    with ModelServer(Behaviour(kind="bad_arguments", calls=CALLS), Behaviour()) as server:
        reply = ask(server, "openai")
        assert reply.calls[0].arguments == '{"kernel": '
        ask(server, "openai", answered(reply))
    sent = json.loads(reply.raw)["tool_calls"]
    assert [call["function"]["arguments"] for call in sent] == ["{}", "{}"]


def test_a_call_without_a_name_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("openai")
    from tilewright.testing import model_server

    def nameless(behaviour: Behaviour, body: dict[str, Any], text: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]}
        return {"choices": [{"message": message}]}

    monkeypatch.setattr(model_server, "protocol", lambda path: nameless)
    monkeypatch.setenv("TEST_API_KEY", CANARY)
    with ModelServer() as server, pytest.raises(TransientError, match="unreadable call"):
        ask(server, "openai")


def test_a_name_can_switch_the_protocol_off_and_commands_have_none() -> None:
    assert parse_model("openai/m@http://127.0.0.1:1/v1").calls_tools
    assert not parse_model("openai/m@http://127.0.0.1:1/v1?tools=no").calls_tools
    assert not parse_model("command:cat").calls_tools
    assert not parse_model("mailbox:/tmp/x").calls_tools


def test_openai_is_told_which_requests_begin_alike_and_no_other_endpoint_is() -> None:
    pytest.importorskip("openai")
    from tilewright.proposers.llm.providers.openai import OpenAIProvider

    def key(name: str, stable: str) -> object:
        messages = (Message("user", stable, stable=True), ASKED[1])
        provider = OpenAIProvider(parse_model(name), {"OPENAI_API_KEY": CANARY})
        return provider._arguments(Request(name, "plan", messages)).get("prompt_cache_key")

    assert key("openai/m", "the ISA") == key("openai/n", "the ISA") != key("openai/m", "another")
    assert key("openai/m@http://127.0.0.1:1/v1", "the ISA") is None


def test_requests_in_plain_text_keep_their_keys() -> None:
    """By which earlier runs and recordings know them."""
    assert Request("openai/m", "plan", ASKED).key == "d3fbe189dd651ec0"
    assert set(request_to_json(Request("openai/m", "plan", ASKED))["messages"][0]) == {
        "role", "text", "stable",
    }  # fmt: skip


def test_a_reply_that_is_far_too_long_has_no_calls() -> None:
    flood = (NativeCall("1", "check", "x" * (MAX_RAW_CHARACTERS + 1)),)
    reply = Reply("text", calls=flood, raw="{}")
    assert (reply.calls, reply.raw, reply.stop) == ((), "", "length")

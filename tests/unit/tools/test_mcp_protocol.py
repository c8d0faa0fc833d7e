"""The Model Context Protocol: schemas of answers, progress, cancellation, versions, HTTP."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.util import find_spec
from typing import Any

import pytest

from tilewright.core.errors import ConfigurationError, InputError
from tilewright.testing.toy import ToyTarget
from tilewright.tools import mcp_server
from tilewright.tools.mcp_http import bound, require_token, serve_http, with_token
from tilewright.tools.mcp_server import create_server, target_texts
from tilewright.tools.mcp_shutdown import Ending
from tilewright.tools.records import (
    Assembly,
    Checked,
    Difference,
    Evaluated,
    Fact,
    Facts,
    LoopCode,
    Refused,
    Submitted,
    answer_json,
)
from tilewright.tools.schemas import output_schema
from tilewright.tools.text import said
from tilewright.tools.toolbox import TOOLS

if find_spec("mcp") is None:
    pytest.skip("the extra `agent` is not installed", allow_module_level=True)
TOKEN = "a-token-of-thirty-two-characters"
DIFFERENCE = Difference("ab", -3.0, -0.3, {"dma_wait": -3.0})
EVALUATED = Evaluated("ab", 1, "correct", latency=7.0, unit="cycles", to_parent=DIFFERENCE, left=2)
LOOP = LoopCode(1, None, "", 1, True, True, 7, {"load": 2}, None, 30, 0, 0, 0, 0, 0)
ANSWERS = {
    "check": Checked("ab", False, "compile_error", 3, "no"),
    "evaluate": EVALUATED,
    "submit": Submitted(EVALUATED),
    "facts": Facts("toy", (Fact("a", "1", "here"),), "", "rules"),
    "asm": Assembly("ab", "RV64", 10, 40, (LOOP,)),
}


def served(call: Callable[[str, Mapping[str, Any]], Any], thread: ThreadPoolExecutor) -> Any:
    texts = target_texts(ToyTarget().brief())
    return create_server("toy:digits", "toy", texts, call, thread)


def with_client(
    call: Callable[[str, Mapping[str, Any]], Any], work: Callable[[Any], Any], **options: Any
) -> Any:
    """What a client's work gives, of a server whose calls are carried out by `call`."""
    from mcp import Client

    async def talk() -> Any:
        with ThreadPoolExecutor(1) as thread:
            async with Client(served(call, thread), **options) as client:
                return await work(client)

    return asyncio.run(talk())


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_keep_to_their_schemas(name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = output_schema(TOOLS[name])
    for answer in (ANSWERS[name], Refused("no such kernel")):
        jsonschema.validate(json.loads(json.dumps(answer_json(answer))), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**answer_json(ANSWERS[name]), "candidate": 7, "trial": "x"}, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"answer": "something else"}, schema)


def test_every_tool_has_a_schema_of_its_own_answer() -> None:
    kinds = [output_schema(tool)["properties"]["answer"]["enum"][0] for tool in TOOLS.values()]
    assert kinds[:3] == ["checked", "evaluated", "compared"]
    assert len(set(kinds)) == len(TOOLS)


def test_progress_is_told_to_a_client_that_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mcp_server, "PROGRESS_EVERY_S", 0.01)
    heard: list[str] = []
    enough = threading.Event()

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        enough.wait(60)
        return said(EVALUATED)

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        heard.append(str(message))
        if len(heard) == 3:
            enough.set()

    async def work(client: Any) -> Any:
        return await client.call_tool("evaluate", {"kernel": "ab"}, progress_callback=on_progress)

    answer = with_client(call, work)
    assert answer.structured_content["latency"] == 7.0
    assert len(heard) >= 3
    assert all(message.startswith("evaluate: ") for message in heard)


def test_a_call_that_waits_is_dropped_when_it_is_cancelled_and_one_under_way_ends() -> None:
    begun, go = threading.Event(), threading.Event()
    carried: list[str] = []

    def call(name: str, arguments: Mapping[str, Any]) -> Any:
        begun.set()
        go.wait(60)
        carried.append(arguments["kernel"])
        return said(EVALUATED)

    async def work(client: Any) -> None:
        first = asyncio.create_task(client.call_tool("evaluate", {"kernel": "under way"}))
        await asyncio.to_thread(begun.wait)
        second = asyncio.create_task(client.call_tool("evaluate", {"kernel": "waits"}))
        await asyncio.sleep(0.1)
        for task in (first, second):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        await asyncio.sleep(0.1)
        go.set()
        answer = await client.call_tool("evaluate", {"kernel": "after"})
        assert answer.structured_content["candidate"] == "ab"

    with_client(call, work, mode="legacy")
    assert carried == ["under way", "after"]


def test_unknown_resources_are_told_which_there_are() -> None:
    async def work(client: Any) -> str:
        with pytest.raises(Exception, match="there is no resource") as caught:
            await client.read_resource("tilewright://secrets")
        return str(caught.value)

    told = with_client(lambda name, arguments: said(EVALUATED), work)
    assert "tilewright://isa" in told
    assert "tilewright://menu" in told


@pytest.mark.parametrize(
    ("version", "negotiated"),
    [("2025-06-18", "2025-06-18"), ("2999-01-01", "2025-11-25"), ("1.0", ""), ("2023-01-01", "")],
)
def test_a_client_of_another_version_is_refused_in_one_sentence(
    version: str, negotiated: str
) -> None:
    """One that offers a later version is offered the latest that is known."""
    answers = over_http(
        lambda url, ask: [
            ask(
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "initialize",
                    "params": {
                        "protocolVersion": version,
                        "capabilities": {},
                        "clientInfo": {"name": "old", "version": "1"},
                    },
                },
                TOKEN,
            )
        ]
    )
    ((_, body),) = answers
    if negotiated:
        assert f'"protocolVersion":"{negotiated}"' in body
    else:
        assert "this server supports the versions" in body
        assert "update the client" in body


Ask = Callable[[Any, str], tuple[int, str]]


def over_http(work: Callable[[str, Ask], Any]) -> Any:
    """What `work` gives, which asks a server on a free port of this machine."""
    import httpx2

    with ThreadPoolExecutor(2) as threads, closing(bound(0)) as listener:
        server = served(lambda name, arguments: said(EVALUATED), threads)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        headers = {"accept": "application/json, text/event-stream"}

        def ask(document: Any, token: str) -> tuple[int, str]:
            sent = {**headers, "authorization": f"Bearer {token}"} if token else headers
            data = document if isinstance(document, bytes) else json.dumps(document).encode()
            answer = httpx2.post(
                url,
                content=data,
                headers={**sent, "content-type": "application/json"},
                timeout=60,
            )
            return answer.status_code, answer.text

        async def serving() -> Any:
            task = asyncio.create_task(serve_http(server, listener, TOKEN, Ending()))
            try:
                return await asyncio.to_thread(work, url, ask)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        return asyncio.run(serving())


def test_over_http_only_the_token_is_answered() -> None:
    def work(url: str, ask: Ask) -> None:
        for token in ("", "wrong", TOKEN[:-1], TOKEN.upper()):
            status, body = ask({"jsonrpc": "2.0", "id": 1, "method": "ping"}, token)
            assert status == 401
            assert "Authorization: Bearer TOKEN" in body
            assert TOKEN not in body
        for hostile in (b"", b"{", b"[" * 10_000, b"\xff" * 100, b'{"jsonrpc": 7}'):
            status, body = ask(hostile, TOKEN)
            assert 400 <= status < 500
            assert "Traceback" not in body
        status, _ = ask(b"x" * (5 << 20), TOKEN)
        assert status == 413

    over_http(work)


def test_an_agent_works_over_http() -> None:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async def talk(url: str) -> Any:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            menu = await client.read_resource("tilewright://menu")
            return menu, await client.call_tool("evaluate", {"kernel": "ab"})

    menu, answer = over_http(lambda url, ask: asyncio.run(talk(url)))
    assert menu.contents[0].text
    assert answer.structured_content["latency"] == 7.0


def test_a_port_or_a_token_that_cannot_be_used_is_one_sentence() -> None:
    with closing(bound(0)) as taken:
        taken.listen()
        with pytest.raises(InputError, match="Give another"):
            bound(taken.getsockname()[1])
    with pytest.raises(ConfigurationError, match="could be guessed"):
        require_token("short")
    assert require_token(TOKEN) == TOKEN


def test_nothing_but_http_requests_is_guarded() -> None:
    """What a server tells its application when it begins and ends carries no token."""
    heard: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        heard.append(scope["type"])

    asyncio.run(with_token(app, TOKEN)({"type": "lifespan"}, None, None))
    assert heard == ["lifespan"]

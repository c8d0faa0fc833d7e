"""Streams of events end with the server, which would wait for them otherwise."""

from __future__ import annotations

import asyncio

import pytest

from tilewright.serve import changes

from .conftest import Client


@pytest.mark.parametrize("path", ["/events", "/runs/3fa94c10/events"])
def test_a_stream_ends_with_the_server(client: Client, path: str) -> None:
    async def asked() -> int:
        answer = asyncio.create_task(client.answer(path))
        await asyncio.sleep(0.2)
        assert not answer.done(), "a stream goes on while the server does"
        await client.changes.end()
        return (await asyncio.wait_for(answer, 60)).status

    assert asyncio.run(asked()) == 200


@pytest.mark.parametrize(("rest_s", "updates"), [(0.0, 4), (3600.0, 1)])
def test_a_page_rests_after_an_update(
    client: Client, monkeypatch: pytest.MonkeyPatch, rest_s: float, updates: int
) -> None:
    """Changes in that time come together afterwards, and the end of the server at once."""
    made: list[int] = []

    def news(*_: object) -> dict[str, int]:
        made.append(len(made))
        return {"number": made[-1]}

    monkeypatch.setattr(changes, "run_update", news)
    monkeypatch.setattr(changes, "REST_S", rest_s)

    async def asked() -> str:
        answer = asyncio.create_task(client.answer("/runs/3fa94c10/events"))
        for number in range(4):
            while len(made) < min(number + 1, updates):
                await asyncio.sleep(0.01)
            client.changes.tell("")
            await asyncio.sleep(0.1)
        await client.changes.end()
        return (await asyncio.wait_for(answer, 60)).text

    text = asyncio.run(asked())
    assert (text.count("event: news") == 1) == (updates == 1), text

"""Streams of events end with the server, which would wait for them otherwise."""

from __future__ import annotations

import asyncio

import pytest

from .conftest import Client


@pytest.mark.parametrize("path", ["/events", "/runs/3fa94c10/events"])
def test_a_stream_ends_with_the_server(client: Client, path: str) -> None:
    async def asked() -> int:
        answer = asyncio.create_task(client.answer(path))
        await asyncio.sleep(0.2)
        assert not answer.done(), "a stream goes on while the server does"
        await client.changes.end()
        return (await asyncio.wait_for(answer, 10)).status

    assert asyncio.run(asked()) == 200

"""Sends changes of the database to all open pages as server-sent events.

The database is read once for all pages, and only while a page is open.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from tilewright.core.errors import StorageUnavailableError, TilewrightError
from tilewright.serve.run_updates import PageState, run_update

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

    from tilewright.serve.site import Site
    from tilewright.storage.overview import SqlOverview

POLL_S = 0.1
"""Seconds between two reads of the database."""
REST_S = 0.5
"""Seconds after an update in which a run's page receives no other. A quick search stores dozens of
trials per second, and drawing the page for each of them would slow the search.
"""
AWAY_S = 0.2
"""Seconds between two attempts to read while the database server is unavailable."""
ALIVE_S = 15.0
"""Seconds after which a page receives an empty message if nothing has changed, so that it can
detect a lost connection.
"""


class Changes:
    """Counts the changes of a database while at least one stream waits for a change."""

    def __init__(self, overview: SqlOverview) -> None:
        self._overview = overview
        self.number = 0
        self.ended = False
        """Whether the server is ending, so that streams must end."""
        self.away = ""
        """Why the database cannot be read now, in a sentence for users."""
        self._waiting = 0
        self._token: object = None
        self._news = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def after(self, number: int) -> int:
        """The number of the last change, as soon as it is above `number`, or after `ALIVE_S`
        seconds.
        """
        self._waiting += 1
        try:
            if self._watching is None or self._watching.done():
                self._watching = asyncio.create_task(self._watch())
            with suppress(TimeoutError):
                async with asyncio.timeout(ALIVE_S):
                    while not self.ended and self.number <= number:
                        await self._news.wait()
            return self.number
        finally:
            self._waiting -= 1

    async def rest(self) -> None:
        """Return after `REST_S` seconds, or when the server ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(REST_S):
                while not self.ended:
                    await self._news.wait()

    async def end(self) -> None:
        """Wake all waiting streams, because the server is ending."""
        self.ended = True
        self._wake()

    def tell(self, away: str) -> None:
        """Count a change: of the data, or of the reason `away` why they cannot be read."""
        self.away = away
        self.number += 1
        self._wake()

    def _wake(self) -> None:
        told, self._news = self._news, asyncio.Event()
        told.set()

    async def _watch(self) -> None:
        while self._waiting:
            away = ""
            try:
                found = await asyncio.to_thread(self._overview.change_token)
            except TilewrightError as error:
                found, away = None, str(error)
            if (found, away) != (self._token, self.away):
                self._token = found
                self.tell(away)
            await asyncio.sleep(AWAY_S if away else POLL_S)


async def runs_stream(changes: Changes, request: Request) -> StreamingResponse:
    """The stream that informs the list of runs about changes."""
    from starlette.responses import StreamingResponse

    async def stream() -> AsyncIterator[str]:
        number = changes.number
        while not changes.ended:
            found = await changes.after(number)
            if changes.away:
                yield _event("away", {"why": changes.away})
            else:
                yield _event("changed", {}) if found != number else ": nothing new\n\n"
            number = found

    return StreamingResponse(stream(), media_type="text/event-stream")


async def run_stream(site: Site, changes: Changes, request: Request) -> StreamingResponse:
    """The stream that sends new trials to the page of one run, after those that the page has."""
    from starlette.responses import StreamingResponse

    run_id = request.path_params["run"]
    known = request.query_params.get("after", "")
    has = PageState(trials=int(known) + 1 if known.isdecimal() and len(known) < 10 else 0)

    async def stream() -> AsyncIterator[str]:
        number, told = -1, ""
        while not changes.ended:
            found = await changes.after(number)
            if changes.away:
                number, told = found, ""  # so that the page is told when the database is back
                yield _event("away", {"why": changes.away})
                continue
            if found != number:
                number = found
                try:
                    news = await asyncio.to_thread(run_update, site, run_id, has)
                except StorageUnavailableError as error:
                    changes.tell(str(error))  # the next query of the database corrects it
                    continue
                except TilewrightError as error:
                    yield _event("lost", {"why": str(error)})
                    return
                text = _event("news", news)
                if text != told:
                    told = text
                    yield text
                    await changes.rest()
                    continue
            yield ": nothing new\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"

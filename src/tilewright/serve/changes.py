"""Server-sent events: what changed in the database, told to every open page.

The database is looked at for all of them together, and only while a page is open.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING

from tilewright.core.errors import StorageUnavailableError, TilewrightError
from tilewright.serve.news import Told, run_news

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import StreamingResponse

    from tilewright.serve.site import Site
    from tilewright.storage.overview import SqlOverview

POLL_S = 0.05
"""Between two looks at the database."""
AWAY_S = 1.0
"""Between two looks while the database server is away."""
ALIVE_S = 15.0
"""After so long without news a page is told that there are none: it notices a dead connection."""


class Changes:
    """Counts changes of a database while somebody waits for one."""

    def __init__(self, overview: SqlOverview) -> None:
        self._overview = overview
        self.number = 0
        self.ended = False
        """Whether the server ends, so that streams have to."""
        self.away = ""
        """Why the database cannot be read now, in a sentence for users."""
        self._waiting = 0
        self._news = asyncio.Condition()
        self._watching: asyncio.Task[None] | None = None

    async def after(self, number: int) -> int:
        """The number of the last change, as soon as it is above `number`; or after `ALIVE_S`."""
        self._waiting += 1
        try:
            if self._watching is None or self._watching.done():
                self._watching = asyncio.create_task(self._watch())
            async with self._news:
                with suppress(TimeoutError):
                    await asyncio.wait_for(
                        self._news.wait_for(lambda: self.ended or self.number > number), ALIVE_S
                    )
            return self.number
        finally:
            self._waiting -= 1

    async def end(self) -> None:
        """Wake all who wait: the server ends."""
        self.ended = True
        async with self._news:
            self._news.notify_all()

    async def _watch(self) -> None:
        token: object = None
        while self._waiting:
            away = ""
            try:
                found = await asyncio.to_thread(self._overview.change_token)
            except TilewrightError as error:
                found, away = None, str(error)
            if (found, away) != (token, self.away):
                token = found
                async with self._news:
                    self.away = away
                    self.number += 1
                    self._news.notify_all()
            await asyncio.sleep(AWAY_S if away else POLL_S)


async def runs_stream(changes: Changes, request: Request) -> StreamingResponse:
    """Tells the list of runs that something changed."""
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
    """Tells the page of one run its new trials, after those that it says it has."""
    from starlette.responses import StreamingResponse

    run_id = request.path_params["run"]
    known = request.query_params.get("after", "")
    has = Told(trials=int(known) + 1 if known.isdecimal() and len(known) < 10 else 0)

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
                    news = await asyncio.to_thread(run_news, site, run_id, has)
                except StorageUnavailableError:
                    number = -1  # the change that brings it back may have been counted already
                    await asyncio.sleep(AWAY_S)
                    continue
                except TilewrightError as error:
                    yield _event("lost", {"why": str(error)})
                    return
                text = _event("news", news)
                if text != told:
                    told = text
                    yield text
                    continue
            yield ": nothing new\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


def _event(name: str, data: object) -> str:
    return f"event: {name}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"

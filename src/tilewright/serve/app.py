"""The web application of the live page, with its addresses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from tilewright.core.errors import StorageUnavailableError, TilewrightError, UnknownNameError
from tilewright.serve import actions, assets, pages
from tilewright.serve.access_control import Access, Guard
from tilewright.serve.changes import Changes, run_stream, runs_stream
from tilewright.serve.project import ServedProject
from tilewright.serve.site import Site

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp

Page = Callable[[Site, "Request"], Response]


def create_app(
    project: ServedProject, access: Access, changes: Changes, *, read_only: bool
) -> ASGIApp:
    """The application, which answers only requests with `access`, and closes the project when it
    ends.
    """
    site = Site(project, access, read_only)

    @asynccontextmanager
    async def until_stopped(_: Starlette) -> AsyncIterator[None]:
        yield
        project.overview.close()

    routes = [
        Route("/", partial(_answer, site, pages.runs_page)),
        Route("/compare", partial(_answer, site, pages.comparison_page)),
        Route("/experiments", partial(_answer, site, pages.experiments_page)),
        Route("/runs/{run}", partial(_answer, site, pages.run_page)),
        *(
            Route(f"/runs/{{run}}/{do.__name__}", partial(actions.act, site, do), methods=["POST"])
            for do in (actions.stop, actions.resume, actions.label)
        ),
        Route("/runs/{run}/rows", partial(_answer, site, pages.rows)),
        Route("/runs/{run}/parts/{part}", partial(_answer, site, pages.part)),
        Route("/runs/{run}/trials.csv", partial(_answer, site, pages.trials_csv)),
        Route("/runs/{run}/trials/{trial}", partial(_answer, site, pages.trial_page)),
        Route("/runs/{run}/trials/{trial}/source", partial(_answer, site, pages.source)),
        Route("/events", partial(runs_stream, changes)),
        Route("/runs/{run}/events", partial(run_stream, site, changes)),
        Route("/static/{name}", assets.asset),
    ]
    return Guard(Starlette(routes=routes, lifespan=until_stopped), access)


def _answer(site: Site, page: Page, request: Request) -> Response:
    """The result of `page`, which runs in a thread. Errors are shown as text, never as a
    traceback.
    """
    began = time.perf_counter()
    try:
        response = page(site, request)
    except UnknownNameError as error:
        return pages.message_page(site, "Not found", str(error), 404)
    except StorageUnavailableError as error:
        return pages.message_page(site, "The database cannot be reached", str(error), 503)
    except TilewrightError as error:
        return pages.message_page(site, "That did not work", str(error), 400)
    took_ms = 1000 * (time.perf_counter() - began)
    response.headers["server-timing"] = f"page;dur={took_ms:.1f}"
    return response

"""The actions of the page's buttons. Each action needs the token of a form, and then shows the run
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl

from starlette.responses import RedirectResponse, Response

from tilewright.core.errors import TilewrightError, UnknownNameError
from tilewright.core.records import RunRecord
from tilewright.core.run_notes import Label
from tilewright.run import open_project
from tilewright.serve import control, pages
from tilewright.serve.site import Site

if TYPE_CHECKING:
    from starlette.requests import Request

MOST_BYTES = 64 << 10
MOST_FIELDS = 16
Form = Mapping[str, str]
Action = Callable[[Site, RunRecord, Form], None]


def stop(site: Site, run: RunRecord, form: Form) -> None:
    """Ask for the end of a run."""
    control.stop(site.project.folder, run)


def resume(site: Site, run: RunRecord, form: Form) -> None:
    """Resume a run."""
    control.resume(site.project.folder, run)


def label(site: Site, run: RunRecord, form: Form) -> None:
    """Replace the tags (words) and the note of a run."""
    tags = tuple(dict.fromkeys(form.get("tags", "").split()))
    with closing(open_project(site.project.folder)) as storage:
        storage.keep(run.id, Label(tags, form.get("text", "").strip()))


async def act(site: Site, action: Action, request: Request) -> Response:
    """Carry out the action of a form, and show its run."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return pages.message_page(site, "Too long", "The form is too long.", 413)
    try:
        form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS))
    except ValueError:
        form = {}
    if site.read_only:
        why = "This page cannot change runs, because the server was started with --read-only."
        return pages.message_page(site, "Nothing was changed", why, 403)
    if not site.access.is_csrf_token(form.get("csrf", "")):
        why = (
            "The form belongs to an earlier start of the server: go back, reload the page and try "
            "again."
        )
        return pages.message_page(site, "Nothing was changed", why, 403)
    try:
        run = await asyncio.to_thread(_do, site, action, request.path_params["run"], form)
    except UnknownNameError as error:
        return pages.message_page(site, "Not found", str(error), 404)
    except TilewrightError as error:
        return pages.message_page(site, "That did not work", str(error), 400)
    return RedirectResponse(f"/runs/{run.id}", status_code=303)


def _do(site: Site, action: Action, run_id: str, form: Form) -> RunRecord:
    run = site.project.record(run_id)
    action(site, run, form)
    return run

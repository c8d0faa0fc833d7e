"""Serves the styles and scripts of this package and of the report, and no other files."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from tilewright.report.pages import code_styles, web_file

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_OWN = ("causes.js", "live.css", "live.js", "run.js", "runs.js", "uplot.js", "uplot.css")
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


def asset(request: Request) -> Response:
    """A style or script by its name."""
    from starlette.responses import PlainTextResponse, Response

    name = request.path_params["name"]
    text = _text(name)
    if text is None:
        return PlainTextResponse("There is no such file.\n", status_code=404)
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(text, headers={"content-type": kind, "cache-control": "no-cache"})


@cache
def _text(name: str) -> str | None:
    if name == "report.css":
        return web_file(name) + code_styles()
    if name in _OWN:
        folder = resources.files("tilewright.serve").joinpath("web")
        return folder.joinpath(name).read_text(encoding="utf-8")
    return None

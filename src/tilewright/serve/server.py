"""Serves a project on a socket until Ctrl-C."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from tilewright.core.errors import InputError
from tilewright.serve.app import create_app
from tilewright.serve.guard import Access
from tilewright.serve.project import ServedProject
from tilewright.storage.project import open_overview

GRACE_S = 1
"""Pages that are open keep a connection, which is not waited for."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; `InputError` where it cannot."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(f"{host!r} is no address of this machine ({error.strerror}).") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(128)
    except OSError as error:
        made.close()
        raise InputError(
            f"cannot listen on {host} port {port} ({error.strerror}): give another --port, or "
            "--port 0 for any that is free."
        ) from None
    return made


def serve_project(
    folder: Path,
    listening: socket.socket,
    token: str | None,
    *,
    read_only: bool,
    on_start: Callable[[], None],
) -> None:
    """Serve the runs of a project until Ctrl-C; `on_start` is called before the first request."""
    overview = open_overview(folder)
    access = Access(token, listening.getsockname()[1])
    app = create_app(ServedProject(folder, overview), access, read_only=read_only)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    on_start()
    uvicorn.Server(config).run(sockets=[listening])

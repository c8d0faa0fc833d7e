"""The web server of a project's runs, and its socket."""

from __future__ import annotations

import socket
from pathlib import Path

import uvicorn

from tilewright.core.errors import InputError
from tilewright.serve.access_control import Access
from tilewright.serve.app import create_app
from tilewright.serve.changes import Changes
from tilewright.serve.project import ServedProject
from tilewright.storage.project import open_overview

GRACE_S = 1
"""Seconds for requests in progress when the server ends; the streams of open pages end
immediately.
"""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens on this address; `InputError` if this is not possible."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise InputError(
            f"{host!r} is not an address of this machine ({error.strerror})."
        ) from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(128)
    except OSError as error:
        made.close()
        raise InputError(
            f"cannot listen on {host} port {port} ({error.strerror}). Give another --port, or "
            "--port 0 for any that is free."
        ) from None
    return made


class _Server(uvicorn.Server):
    """Ends the streams of open pages before it waits for connections to close."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await self._changes.end()
        await super().shutdown(sockets)


def create_server(folder: Path, port: int, token: str | None, *, read_only: bool) -> uvicorn.Server:
    """A server of a project's runs, which uses given sockets; `StorageError` if the project has no
    database.
    """
    overview = open_overview(folder, reads_only=read_only)
    changes = Changes(overview)
    project, access = ServedProject(folder, overview), Access(token, port)
    app = create_app(project, access, changes, read_only=read_only)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
    )
    return _Server(config, changes)

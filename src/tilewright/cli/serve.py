"""`tilewright serve`: the runs of a project in a browser, while they run."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.options import Json, NoColor, Port, Project
from tilewright.core.errors import InputError, ToolchainMissingError

EPILOG = """
\b
Examples:
  tilewright serve                the runs of this folder, on this machine
  tilewright serve --read-only    nothing can be stopped, resumed or labelled
"""
LOCAL = "127.0.0.1"


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("serve", epilog=EPILOG)(serve)


def serve(
    port: Port = 8123,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on; with the default, only this machine can connect.",
        ),
    ] = LOCAL,
    token: Annotated[
        bool,
        typer.Option(
            "--token/--no-token",
            help="Require the secret token that the printed address contains. With --no-token, any "
            "user of this machine can see the runs.",
        ),
    ] = True,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only",
            help="Show runs without letting anybody stop, resume or label them.",
        ),
    ] = False,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Show the runs of a project in a browser.

    The page needs no internet connection, because the server provides everything that the page
    shows. Ctrl-C ends the server; searches that are in progress continue. As soon as the page can
    be opened, --json writes the page's address to a file that only you can read.
    """
    from tilewright.cli.console import say
    from tilewright.cli.output import check_outputs, write_json

    check_outputs(json=json)
    try:
        from tilewright.serve.server import create_server, listen
    except ModuleNotFoundError as error:
        raise ToolchainMissingError(
            f"the live page needs the Python package {error.name}, which is not installed. Run "
            "`pip install 'tilewright[serve]'`."
        ) from None
    if not token and host not in (LOCAL, "localhost", "::1"):
        raise InputError(
            f"without a token, everybody who can reach {host} could see the runs. Leave out "
            "--no-token."
        )
    secret = secrets.token_urlsafe(24) if token else None
    with listen(host, port) as socket:
        bound = socket.getsockname()[1]
        server = create_server(project, bound, secret, read_only=read_only)
        query = f"/?token={secret}" if secret else "/"
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{bound}{query}"
        write_json(json, {"address": address, "port": bound}, private=True)
        say(f"open         {address}")
        if host == LOCAL:
            say(f"elsewhere    ssh -L {bound}:{LOCAL}:{bound} USER@{_this_machine()}")
        say("Ctrl-C ends this server; searches in progress continue")
        with suppress(KeyboardInterrupt):
            server.run(sockets=[socket])


def _this_machine() -> str:
    import socket

    return socket.gethostname() or "HOST"

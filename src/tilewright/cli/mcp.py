"""`tilewright mcp`: the tools for an agent of the user's own, over the Model Context Protocol."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import NoColor, Project, TargetName

EPILOG = """
\b
Example of a command for the configuration of an agent:
  tilewright mcp gemmini:gemm-256x256x256 \\
      --budget "16 evaluations" --project /path/to/project
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("mcp", epilog=EPILOG)(mcp)


def mcp(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="WORKLOAD|FOLDER",
            help="The workload or kernel folder to optimise. Agents that a search has "
            "started may omit this argument.",
        ),
    ] = None,
    parent: Annotated[
        str | None,
        typer.Option(
            "--parent",
            metavar="ID",
            help="Id of the kernel to work on; by default the fastest kernel of the run.",
        ),
    ] = None,
    budget: options.BudgetText = None,
    target: TargetName = None,
    target_settings: options.TargetSettings = None,
    http: Annotated[
        int | None,
        typer.Option(
            "--http",
            metavar="PORT",
            min=0,
            max=65535,
            help="Serve over HTTP on this port of 127.0.0.1; 0 selects a free port. Clients must "
            "send the header `Authorization: Bearer TOKEN`. TOKEN is the value of the "
            "environment variable TILEWRIGHT_MCP_TOKEN; if the variable is not set, the server "
            "generates and prints a token.",
        ),
    ] = None,
    project: Project = Path(),
    no_color: NoColor = False,
) -> None:
    """Serve the tools of `tilewright tool` to an agent.

    The server speaks the Model Context Protocol over standard input and output, or over HTTP. Each
    kernel that the agent evaluates becomes a trial of a run in the project folder. The server gives
    the agent no way to change the budget or to read the reference's results or the private inputs.
    """
    import asyncio
    import os
    from collections.abc import Mapping
    from dataclasses import replace

    from tilewright.agents import protocol
    from tilewright.core.config import Settings
    from tilewright.core.errors import InputError
    from tilewright.core.tasks import open_task
    from tilewright.tools.main_thread import MainThread
    from tilewright.tools.mcp_server import create_server, require_sdk, serve, target_texts
    from tilewright.tools.mcp_shutdown import Ending
    from tilewright.tools.text import said
    from tilewright.workbench import workbench

    require_sdk()
    socket = os.environ.get(protocol.SOCKET_VARIABLE)
    if task is None and socket is None:
        raise InputError("mcp needs a workload. Write `tilewright mcp WORKLOAD`.")

    ending, main = Ending(), MainThread()

    def work(server: Any) -> None:
        serving = (
            serve(server, ending, main.give_up)
            if http is None
            else _over_http(http, server, ending)
        )
        main.serve_from_main_thread(lambda: asyncio.run(serving))

    if task is None:
        given = protocol.describe(str(socket))

        def forward(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            return protocol.use(str(socket), name, arguments)

        with ending.on_signals(main.interrupt):
            resources = given["resources"]
            work(create_server(given["workload"], given["target"], resources, forward, main))
        return
    chosen = options.parse_target_settings(target_settings or ())
    settings = replace(Settings(target=target, target_settings=chosen), **options.limits(budget))
    opened = open_task(task, settings.recorded())
    with (
        ending.on_signals(main.interrupt),
        workbench(task, settings, project=project, parent=parent) as bench,
    ):

        def call(name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            return said(bench.call(name, arguments))

        brief = opened.target.brief()
        work(create_server(opened.name, brief.name, target_texts(brief), call, main))


def _over_http(port: int, server: Any, ending: Any) -> Coroutine[Any, Any, None]:
    """Listen and print the address, and also the token if it had to be generated."""
    import os
    import secrets

    from tilewright.tools.mcp_http import (
        HOST,
        PATH,
        TOKEN_VARIABLE,
        bound,
        require_token,
        serve_http,
    )

    given = os.environ.get(TOKEN_VARIABLE)
    token = require_token(given) if given is not None else secrets.token_urlsafe(32)
    listener = bound(port)
    typer.echo(f"serving on http://{HOST}:{listener.getsockname()[1]}{PATH}", err=True)
    if given is None:
        typer.echo(f"token: {token}", err=True)
    return serve_http(server, listener, token, ending)

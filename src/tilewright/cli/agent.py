"""`tilewright agent init`: writes the configuration with which an agent of yours finds the
tools.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli import search_options as options
from tilewright.cli.options import Json, NoColor, Project
from tilewright.cli.output import check_outputs, write_json

EPILOG = """
\b
Examples:
  tilewright agent init claude-code gemmini:gemm-256x256x256 \\
      --budget "16 evaluations"
  tilewright agent init codex examples/gemmini --budget "16 evaluations"
"""

app = typer.Typer(help="Connect your own coding agents.")


@app.command("init", epilog=EPILOG)
def init(
    client: Annotated[
        str,
        typer.Argument(
            metavar="CLIENT",
            help="The agent to configure: claude-code, cursor, gemini-cli, vscode or codex.",
        ),
    ],
    task: Annotated[
        str,
        typer.Argument(
            metavar="WORKLOAD|FOLDER", help="The workload or kernel folder to optimise."
        ),
    ],
    budget: options.BudgetText = None,
    project: Project = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Add `tilewright mcp` to the configuration of a coding agent.

    The command writes the agent's configuration file for the Model Context Protocol to the project
    folder. Start the agent in this folder. If the file exists already, its other entries do not
    change. The command prints what it wrote.
    """
    from tilewright.agents.clients import Server, client_named, write
    from tilewright.agents.folder import TILEWRIGHT
    from tilewright.cli.console import write_out
    from tilewright.core.config import Settings
    from tilewright.core.tasks import open_task

    client_named(client)
    check_outputs(json=json)
    options.limits(budget)
    folder = Path(task)
    named = str(folder.resolve()) if folder.is_dir() else task
    open_task(named, Settings().recorded())
    limits = ("--budget", budget) if budget else ()
    command = (*TILEWRIGHT, "mcp", named, *limits, "--project", str(project.resolve()))
    file = write(client, Server(command, {}), project)
    write_json(json, {"client": client, "file": str(file), "command": list(command)})
    write_out(f"{file}:\n{file.read_text()}")

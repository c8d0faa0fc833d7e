"""`tilewright models`: lists the language models that can be used, and their prices."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import (
    INSTALLED_AUTOMATICALLY,
    Json,
    NoColor,
    UnusedProject,
    as_started,
    command_text,
)
from tilewright.cli.output import check_outputs, write_json
from tilewright.cli.wrapping import say_sentence

if TYPE_CHECKING:
    from tilewright.proposers.llm.models import Model

EPILOG = """
\b
Examples:
  tilewright models
  tilewright models openai/gpt-5.5 openai/llama-4@http://127.0.0.1:8000/v1
  tilewright models anthropic/claude-sonnet-5 --ask
"""


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command("models", epilog=EPILOG)(models)


def models(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MODEL", help="Names of models, written as in `optimize --proposer`."
        ),
    ] = None,
    ask: Annotated[
        bool,
        typer.Option(
            "--ask",
            help="Send each named model one short question, which costs a fraction of a cent.",
        ),
    ] = False,
    project: UnusedProject = Path(),
    json: Json = None,
    no_color: NoColor = False,
) -> None:
    """Say which language models can be used, and what they cost.

    Without a name, the command lists the providers and says which of them are configured. The exit
    code is 1 if a named model cannot be used.
    """
    check_outputs(json=json)
    rows = _show_models(names, ask) if names else _show_providers()
    write_json(json, {"models" if names else "providers": rows})
    if names and not all(row["usable"] for row in rows):
        raise typer.Exit(1)


def _show_providers() -> list[dict[str, object]]:
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.console import results
    from tilewright.core.errors import TilewrightError
    from tilewright.proposers.llm.models import KEY_VARIABLES, parse_model
    from tilewright.proposers.llm.setup import check_model

    rows: list[tuple[str, bool, str, str]] = []
    for provider in KEY_VARIABLES:
        usable, state = True, "key found" if KEY_VARIABLES[provider] else "keys of boto3"
        try:
            check_model(parse_model(f"{provider}/MODEL"))
        except TilewrightError as error:
            usable, state = False, str(error).removeprefix(f"model {provider}/MODEL ")
        rows.append((provider, usable, f"{provider}/MODEL", state))
    rows += [
        ("compatible", True, "openai/MODEL@http://HOST:PORT/v1", "any endpoint"),
        ("command", True, "command:PROGRAM ARGUMENTS", "any program"),
        ("mailbox", True, "mailbox:FOLDER", "any folder"),
    ]
    table = Table("", "provider", box=None, pad_edge=False)
    for heading in ("how to name a model", "state"):
        table.add_column(heading, overflow="fold")
    automatic = False
    for name, usable, form, state in rows:
        mark = "[green]ok[/]" if usable else "[yellow]no[/]"
        shown = as_started(state)
        automatic = automatic or INSTALLED_AUTOMATICALLY in shown
        table.add_row(mark, name, form, Text(_without_instruction(shown)))
    results().print(table)
    if automatic:
        say_sentence(f"`{command_text()}` {INSTALLED_AUTOMATICALLY}.")
    return [{"provider": n, "usable": u, "name": f, "state": s} for n, u, f, s in rows]


def _without_instruction(state: str) -> str:
    """The state without the sentence that the script `tw` installs missing packages, which is
    printed once for all providers.
    """
    return state.replace(f" `{command_text()}` {INSTALLED_AUTOMATICALLY}.", "")


def _show_models(names: list[str], ask: bool) -> list[dict[str, object]]:
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.console import results
    from tilewright.core.errors import TilewrightError
    from tilewright.proposers.llm.models import parse_model
    from tilewright.proposers.llm.setup import check_model

    table = Table("", box=None, pad_edge=False)
    table.add_column("model", overflow="fold")
    table.add_column("USD per Mtok: input, output", justify="right")
    table.add_column("state", overflow="fold")
    rows: list[dict[str, object]] = []
    for name in names:
        model = parse_model(name)
        try:
            check_model(model)
            usable, state = True, _reached(model, ask)
        except TilewrightError as error:
            usable, state = False, str(error)
        mark = "[green]ok[/]" if usable else "[red]no[/]"
        table.add_row(mark, Text(name), _price(model), Text(as_started(state)))
        rows.append({"model": name, "usable": usable, "price": _price(model), "state": state})
    results().print(table)
    return rows


def _price(model: Model) -> str:
    from tilewright.proposers.llm.prices import price_of

    price = price_of(model)
    return "unknown" if price is None else f"{price.input:g}, {price.output:g}"


def _reached(model: Model, ask: bool) -> str:
    """Information about the model's address; raises `TilewrightError` if the address does not
    answer.
    """
    from tilewright.proposers.llm.probe import ask_once, require_address

    require_address(model)
    if not ask:
        return "configured" if model.base_url is None else "configured, address reachable"
    reply, wall_s = ask_once(model)
    served = f" as {reply.served_by}" if reply.served_by not in ("", model.target) else ""
    return f"answered{served} in {wall_s:.1f} s"

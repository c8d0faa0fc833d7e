"""`tilewright models`: which language models could be asked, and what they would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.options import NoColor

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
        typer.Argument(metavar="[MODEL]...", help="Models as for `optimize --proposer`."),
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Send each model one short question (costs a little).")
    ] = False,
    no_color: NoColor = False,
) -> None:
    """Say which providers are configured; of named models, whether they answer and their price.

    Ends with exit code 1 if a named model cannot be used.
    """
    if names:
        _show_models(names, ask)
    else:
        _show_providers()


def _show_providers() -> None:
    from rich.table import Table

    from tilewright.cli.console import results
    from tilewright.core.errors import TilewrightError
    from tilewright.proposers.llm.models import KEY_VARIABLES, parse_model
    from tilewright.proposers.llm.setup import check_model

    table = Table("", "provider", "how to name a model", "state", box=None, pad_edge=False)
    for provider in KEY_VARIABLES:
        mark, state = "[green]ok[/]", "key found" if KEY_VARIABLES[provider] else "keys of boto3"
        try:
            check_model(parse_model(f"{provider}/MODEL"))
        except TilewrightError as error:
            mark, state = "[yellow]no[/]", str(error).partition(": ")[2] or str(error)
        table.add_row(mark, provider, f"{provider}/MODEL", state)
    table.add_row("[green]ok[/]", "compatible", "openai/MODEL@http://HOST:PORT/v1", "any endpoint")
    table.add_row("[green]ok[/]", "command", "command:PROGRAM ARGUMENTS", "any program")
    table.add_row("[green]ok[/]", "mailbox", "mailbox:FOLDER", "any folder")
    results().print(table)


def _show_models(names: list[str], ask: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    from tilewright.cli.console import results
    from tilewright.core.errors import TilewrightError
    from tilewright.proposers.llm.models import parse_model
    from tilewright.proposers.llm.setup import check_model

    table = Table("", "model", box=None, pad_edge=False)
    table.add_column("USD per Mtok: input, output", justify="right")
    table.add_column("state", overflow="fold")
    usable = True
    for name in names:
        model = parse_model(name)
        try:
            check_model(model)
            state = _reached(model, ask)
        except TilewrightError as error:
            usable = False
            table.add_row("[red]no[/]", Text(name), _price(model), Text(str(error)))
        else:
            table.add_row("[green]ok[/]", Text(name), _price(model), Text(state))
    results().print(table)
    if not usable:
        raise typer.Exit(1)


def _price(model: Model) -> str:
    from tilewright.proposers.llm.prices import price_of

    price = price_of(model)
    return "unknown" if price is None else f"{price.input:g}, {price.output:g}"


def _reached(model: Model, ask: bool) -> str:
    """What is known about the model's address; raises `TilewrightError` if it does not answer."""
    from tilewright.proposers.llm.probe import ask_once, require_address

    require_address(model)
    if not ask:
        return "configured" if model.base_url is None else "configured, address reachable"
    reply, wall_s = ask_once(model)
    served = f" as {reply.served_by}" if reply.served_by not in ("", model.target) else ""
    return f"answered{served} in {wall_s:.1f} s"

"""Help texts that show arguments by the same names as the usage line, without their Python
types.
"""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand


class PlainCommand(TyperCommand):
    """A command whose help shows `WORKLOAD` instead of typer's `{WORKLOAD} <str>`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line after the command's name."""
        return [
            piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)
        ]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections about arguments and options."""
        for parameter in self.params:
            if isinstance(parameter, TyperArgument):
                vars(parameter)["display_type_rich"] = _no_type
        super().format_options(ctx, formatter)


def use_plain_help(app: typer.Typer) -> None:
    """Use such help texts for all commands of an application."""
    for command in app.registered_commands:
        command.cls = PlainCommand


def _no_type(ctx: Any) -> str:
    return ""

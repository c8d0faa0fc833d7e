"""Options in `[tool.tilewright]` of a pyproject.toml: defaults of the command line.

    [tool.tilewright]            # of every command that has the option
    project = "runs"
    [tool.tilewright.optimize]   # of one command
    budget = "10 min"
    proposer = ["builtin"]

The file is the nearest pyproject.toml, in the current folder or above, that has the table. Options
on the command line take precedence.

The file may have been written by somebody else, for example in a folder that was downloaded.
Therefore, it can only set options that choose how a command works (`OPEN`). Options that start
programs, name machines, name files to write, or accept a risk can be given only on the command
line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.config import is_plain_proposer
from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.files import parse_toml, read_text
from tilewright.core.text import plain_text

if TYPE_CHECKING:
    from typer._click.core import Command


OPEN = frozenset({
    "allocation", "beam", "budget", "dropout", "edits", "features", "fresh", "full",
    "implementations", "iterations", "jobs", "no-color", "patience", "phase", "plans", "port",
    "pretrained", "project", "proposer", "read-only", "repairs", "reuse", "search", "seed", "seeds",
    "set", "share", "simulator-timeout", "stop-within", "strategy", "target", "templates",
    "threads", "trials", "turns", "without",
})  # fmt: skip
"""Options that a pyproject.toml may set."""
MOST_BYTES = 1 << 20
"""Maximum size of a pyproject.toml in bytes."""


def defaults(group: Command) -> dict[str, Any] | None:
    """Default values by command and parameter, in the form of a context's `default_map`; None if
    there are none.
    """
    folder = Path.cwd()
    for file in (place / "pyproject.toml" for place in (folder, *folder.parents)):
        table = _table(file)
        if table is not None:
            return _of_group(file, table, group)
    return None


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        text = read_text(file, MOST_BYTES)
    except OSError:
        return None  # other tools report mistakes in this file
    if "tilewright" not in text:
        return None
    try:
        table = parse_toml(text).get("tool", {}).get("tilewright")
    except (ValueError, AttributeError, RecursionError) as error:
        raise ConfigurationError(
            f"{file} is not valid TOML ({error}). Correct the file."
        ) from error
    if table is not None and not isinstance(table, dict):
        raise ConfigurationError(
            f"{file}: tool.tilewright must be a table with options of tilewright."
        )
    return table


def _of_group(file: Path, table: Mapping[str, Any], group: Command) -> dict[str, Any]:
    commands: dict[str, Command] = getattr(group, "commands", {})
    shared = {name: value for name, value in table.items() if not isinstance(value, dict)}
    known = {name for command in commands.values() for name in _options(command)}
    for name in shared:
        if name not in known:
            raise UnknownNameError("option", name, known, f"It is set in {file}.")
    found = {}
    for command_name, command in commands.items():
        options, own = _options(command), table.get(command_name, {})
        for name in own:
            if name not in options:
                raise UnknownNameError(f"option of {command_name}", name, options, f"See {file}.")
        chosen = {**{k: v for k, v in shared.items() if k in options}, **own}
        _require_open(file, chosen)
        found[command_name] = {options[name]: value for name, value in chosen.items()}
        if getattr(command, "commands", None):
            found[command_name] = _shared_only(shared, command)
    for name, value in table.items():
        if isinstance(value, dict) and name not in commands:
            raise UnknownNameError("command", name, commands, f"It is set in {file}.")
    return found


def _require_open(file: Path, chosen: Mapping[str, Any]) -> None:
    """Raise `ConfigurationError` for options that may be given only on the command line."""
    for name, value in chosen.items():
        if name not in OPEN:
            raise ConfigurationError(
                f"{file} sets {name}, which only the command line may set, because the file may be "
                f"somebody else's. Remove it there and give --{name} on the command line."
            )
        if name == "proposer":
            for proposer in value if isinstance(value, list) else [value]:
                if not (isinstance(proposer, str) and is_plain_proposer(proposer)):
                    raise ConfigurationError(
                        f"{file} sets the proposer {plain_text(str(proposer)[:60])!r}, but only "
                        "the command line may name a program, a folder or an address, because the "
                        "file may be somebody else's. Remove the proposer from the file and give "
                        "--proposer on the command line."
                    )


def _shared_only(shared: Mapping[str, Any], group: Command) -> dict[str, Any]:
    commands: dict[str, Command] = getattr(group, "commands", {})
    return {
        name: {p: shared[o] for o, p in _options(command).items() if o in shared}
        for name, command in commands.items()
    }


def _options(command: Command) -> dict[str, str]:
    """The parameter name of each option, which is written without the leading dashes."""
    found = {
        option.lstrip("-"): parameter.name or ""
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    }
    for command_below in getattr(command, "commands", {}).values():
        found |= _options(command_below)
    return found

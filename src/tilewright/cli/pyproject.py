"""Options in `[tool.tilewright]` of a pyproject.toml: defaults of the command line.

    [tool.tilewright]            # of every command that has the option
    project = "runs"
    [tool.tilewright.optimize]   # of one command
    budget = "10 min"
    proposer = ["builtin"]

The file is the nearest pyproject.toml, in the current folder or above, that has the table. What is
given on the command line comes first.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.errors import ConfigurationError, UnknownNameError

if TYPE_CHECKING:
    from typer._click.core import Command


def defaults(group: Command) -> dict[str, Any] | None:
    """Defaults by command and parameter, as a context's `default_map` takes them; None for none."""
    folder = Path.cwd()
    for file in (place / "pyproject.toml" for place in (folder, *folder.parents)):
        table = _table(file)
        if table is not None:
            return _of_group(file, table, group)
    return None


def _table(file: Path) -> Mapping[str, Any] | None:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # not ours to complain about
    if "tilewright" not in text:
        return None
    try:
        table = tomllib.loads(text).get("tool", {}).get("tilewright")
    except (tomllib.TOMLDecodeError, AttributeError) as error:
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
        found[command_name] = {options[name]: value for name, value in chosen.items()}
        if getattr(command, "commands", None):
            found[command_name] = _shared_only(shared, command)
    for name, value in table.items():
        if isinstance(value, dict) and name not in commands:
            raise UnknownNameError("command", name, commands, f"It is set in {file}.")
    return found


def _shared_only(shared: Mapping[str, Any], group: Command) -> dict[str, Any]:
    commands: dict[str, Command] = getattr(group, "commands", {})
    return {
        name: {p: shared[o] for o, p in _options(command).items() if o in shared}
        for name, command in commands.items()
    }


def _options(command: Command) -> dict[str, str]:
    """Parameter names by option as it is written, without dashes in front."""
    found = {
        option.lstrip("-"): parameter.name or ""
        for parameter in command.params
        for option in parameter.opts
        if option.startswith("--") and option != "--help"
    }
    for command_below in getattr(command, "commands", {}).values():
        found |= _options(command_below)
    return found

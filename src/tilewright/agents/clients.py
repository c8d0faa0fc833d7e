"""Writes the configuration of clients of the Model Context Protocol, in the format that the
documentation of each client describes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.core.errors import InputError, UnknownNameError

SERVER = "tilewright"


@dataclass(frozen=True, slots=True)
class Server:
    """The command that a client starts to use the tools, and additional environment variables."""

    command: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Client:
    """The configuration file of a client in a project, and the function that adds a server to its
    text.
    """

    name: str
    file: str
    written: Callable[[Server, str], str]


def write(client: str, server: Server, folder: Path) -> Path:
    """Add a server to a client's file in `folder`. The other content of the file is kept."""
    chosen = client_named(client)
    file = folder / chosen.file
    try:
        before = file.read_text() if file.exists() else ""
        text = chosen.written(server, before)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"{file} is not a configuration that can be extended ({error}). Correct or remove it."
        ) from error
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}.") from error
    return file


def client_named(name: str) -> Client:
    """The client with this name; `UnknownNameError` if there is none."""
    if name not in CLIENTS:
        raise UnknownNameError("client", name, CLIENTS)
    return CLIENTS[name]


def _json(key: str, **more: str) -> Callable[[Server, str], str]:
    def written(server: Server, before: str) -> str:
        document: dict[str, Any] = json.loads(before) if before.strip() else {}
        first, *rest = server.command
        entry: dict[str, Any] = {**more, "command": first, "args": rest}
        if server.environment:
            entry["env"] = dict(server.environment)
        document.setdefault(key, {})[SERVER] = entry
        return json.dumps(document, indent=2) + "\n"

    return written


def _toml(server: Server, before: str) -> str:
    """The file with the server's table at the end. An earlier table with this name is removed."""
    heading = f"[mcp_servers.{SERVER}"
    kept, inside = [], False
    for line in before.splitlines():
        if line.lstrip().startswith("["):
            inside = line.lstrip().startswith((f"{heading}]", f"{heading}."))
        if not inside:
            kept.append(line)
    first, *rest = server.command
    lines = [*kept, f"{heading}]", f"command = {json.dumps(first)}", f"args = {json.dumps(rest)}"]
    if server.environment:
        pairs = (f"{name} = {json.dumps(value)}" for name, value in server.environment.items())
        lines.append(f"env = {{ {', '.join(pairs)} }}")
    return "\n".join(lines).lstrip() + "\n"


CLIENTS: Mapping[str, Client] = {
    client.name: client
    for client in (
        Client("claude-code", ".mcp.json", _json("mcpServers")),
        Client("cursor", ".cursor/mcp.json", _json("mcpServers")),
        Client("gemini-cli", ".gemini/settings.json", _json("mcpServers")),
        Client("vscode", ".vscode/mcp.json", _json("servers", type="stdio")),
        Client("codex", ".codex/config.toml", _toml),
    )
}

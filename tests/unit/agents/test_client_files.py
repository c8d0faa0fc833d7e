"""The configuration files that clients of the Model Context Protocol read."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from tilewright.agents.clients import CLIENTS, Server, write
from tilewright.core.errors import InputError, UnknownNameError

SERVER = Server(("/bin/python", "-m", "tilewright.cli", "mcp"), {"A": 'with "quotes"'})
KEYS = {"codex": "mcp_servers", "vscode": "servers"}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_is_written_and_the_rest_is_kept(tmp_path: Path, client: str) -> None:
    file = tmp_path / CLIENTS[client].file
    file.parent.mkdir(exist_ok=True)
    file.write_text('model = "m"\n[other]\nx = 1\n' if client == "codex" else '{"model": "m"}')
    for _ in range(2):  # a second time, in place of the first
        assert write(client, SERVER, tmp_path) == file
        parse = tomllib.loads if client == "codex" else json.loads
        document = parse(file.read_text())
        assert document["model"] == "m"
        assert list(document[KEYS.get(client, "mcpServers")]) == ["tilewright"]
        entry = document[KEYS.get(client, "mcpServers")]["tilewright"]
        assert [entry["command"], *entry["args"]] == list(SERVER.command)
        assert entry["env"] == SERVER.environment


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": 7}'])
def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, text: str) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text(text)
    with pytest.raises(InputError, match="Correct or remove it"):
        write("claude-code", SERVER, tmp_path)
    assert file.read_text() == text


def test_an_unknown_client_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="unknown client"):
        write("emacs", SERVER, tmp_path)

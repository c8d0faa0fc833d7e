"""`tilewright mcp`: what an agent of the user's own is served."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from toy_cli import Cli, World

from tilewright.core.config import Settings
from tilewright.testing.toy import ToyTarget
from tilewright.tools.mcp_server import create_server, target_texts
from tilewright.tools.text import said
from tilewright.tools.toolbox import TOOLS
from tilewright.workbench import workbench

LOWER = "toy 9 9 9 9 8"
SETTINGS = Settings(max_evaluations=3)
STEPS: list[tuple[str, str, dict[str, Any]]] = [
    ("good", "evaluate", {"kernel": LOWER, "note": "one less"}),
    ("again", "evaluate", {"kernel": LOWER}),
    ("forged", "submit", {"kernel": "0123456789abcdef"}),
    ("odd", "evaluate", {"kernel": 7}),
    ("unknown", "shell", {"command": "ls"}),
    ("last", "submit", {"kernel": "toy 9 9 9 9 7"}),
    ("spent", "evaluate", {"kernel": "toy 9 9 9 9 6"}),
]


def test_without_the_sdk_one_sentence_says_how_to_get_it(
    world: World, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tilewright.tools.mcp_server as module

    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(module, "import_module", missing)
    found = cli("mcp", "toy:digits")
    assert found.code == 2
    assert "pip install" in found.err
    assert "Traceback" not in found.err


async def talk(project: Path) -> dict[str, Any]:
    from mcp import Client

    found: dict[str, Any] = {}
    with ThreadPoolExecutor(1) as thread:
        opened = workbench("toy:digits", SETTINGS, project=project)
        bench = thread.submit(opened.__enter__).result()

        def call(name: str, arguments: Mapping[str, Any]) -> Any:
            return said(bench.call(name, arguments))

        server = create_server("toy:digits", "toy", target_texts(ToyTarget().brief()), call, thread)
        try:
            async with Client(server) as client:
                found["tools"] = (await client.list_tools()).tools
                found["menu"] = await client.read_resource("tilewright://menu")
                for step, tool, arguments in STEPS:
                    found[step] = await client.call_tool(tool, arguments)
        finally:
            thread.submit(opened.__exit__, None, None, None).result()
    return found


@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs the package mcp")
def test_an_agent_works_on_a_run(world: World, cli: Cli, tmp_path: Path) -> None:
    found = asyncio.run(talk(tmp_path))
    assert [tool.name for tool in found["tools"]] == list(TOOLS)
    assert "lower-0" in found["menu"].contents[0].text
    good = found["good"]
    assert not good.is_error
    assert good.structured_content["latency"] == 230.0
    assert good.structured_content["to_parent"]["latency"] == -5.0
    assert "compared with the parent" in good.content[0].text
    assert found["again"].structured_content["known"]
    for step in ("forged", "odd", "unknown"):
        assert found[step].is_error, step
        assert found[step].structured_content["answer"] == "refused"
    assert found["last"].structured_content["kernel"]["latency"] == 225.0
    assert "the budget of 3 evaluations is spent" in found["spent"].content[0].text
    assert len(world.evaluated) == 3
    assert "225" in cli("runs", "show", "latest").out


@pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="needs the package mcp")
def test_secrets_stay_with_the_server(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary-c0ffee42-secret")
    found = asyncio.run(talk(tmp_path))
    assert "canary" not in repr(found)


def test_agent_init_writes_the_file_of_a_client_and_prints_it(world: World, cli: Cli) -> None:
    found = cli("agent", "init", "claude-code", "toy:digits", "--budget", "3 evaluations")
    assert found.code == 0
    text = Path(".mcp.json").read_text()
    assert text.strip() in found.out
    assert '"toy:digits"' in text
    assert '"3 evaluations"' in text
    unknown = cli("agent", "init", "emacs", "toy:digits")
    assert unknown.code == 2
    assert "Traceback" not in unknown.err

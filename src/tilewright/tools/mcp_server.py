"""The tools over the Model Context Protocol, by its official SDK.

The SDK is imported when a server is made: nothing else needs it. An answer is given twice, as text
and as the JSON object of its record; what could not be carried out is marked as an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from importlib import import_module
from typing import Any

from tilewright.core.errors import ConfigurationError, TilewrightError
from tilewright.core.records import TargetBrief
from tilewright.tools.records import Refused
from tilewright.tools.text import said
from tilewright.tools.toolbox import TOOLS

Call = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Carries out a tool by name with its arguments: what `tools.text.said` gives."""

OUTPUT_SCHEMA = {
    "type": "object",
    "properties": {"answer": {"type": "string", "description": "The kind of the answer."}},
    "required": ["answer"],
}
INSTRUCTIONS = (
    "Make the kernel `start` of {workload} faster for the target {target}. Every kernel that you "
    "evaluate counts, and the fastest correct one is kept; evaluations are limited. Read the "
    "resources isa, rules and menu; check kernels first; submit at the end."
)


def require_sdk() -> None:
    """`ConfigurationError` where the SDK is not installed."""
    _sdk("mcp.server.lowlevel")


def create_server(
    workload: str, target: str, texts: Mapping[str, str], call: Call, thread: Executor
) -> Any:
    """The SDK's server of these tools; calls are carried out on `thread`, one after the other.

    `texts` on the target are its resources, by name.
    """
    types = _sdk("mcp.types")
    resources = {f"tilewright://{name}": (name, text) for name, text in texts.items()}

    async def list_tools(context: Any, parameters: Any) -> Any:
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name,
                    description=tool.text,
                    input_schema=tool.schema,
                    output_schema=OUTPUT_SCHEMA,
                )
                for tool in TOOLS.values()
            ]
        )

    async def call_tool(context: Any, parameters: Any) -> Any:
        loop, given = asyncio.get_running_loop(), parameters.arguments or {}
        try:
            answer = await loop.run_in_executor(thread, call, parameters.name, given)
        except TilewrightError as error:
            answer = said(Refused(str(error)))
        return types.CallToolResult(
            content=[types.TextContent(text=answer["text"])],
            structured_content=answer["answer"],
            is_error=answer["refused"],
        )

    async def list_resources(context: Any, parameters: Any) -> Any:
        found = [
            types.Resource(uri=uri, name=name, mime_type="text/plain")
            for uri, (name, _) in resources.items()
        ]
        return types.ListResourcesResult(resources=found)

    async def read_resource(context: Any, parameters: Any) -> Any:
        _, text = resources.get(parameters.uri, ("", ""))
        contents = types.TextResourceContents(uri=parameters.uri, text=text)
        return types.ReadResourceResult(contents=[contents])

    return _sdk("mcp.server.lowlevel").Server(
        "tilewright",
        instructions=INSTRUCTIONS.format(workload=workload, target=target),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


async def serve(server: Any) -> None:
    """Serve on standard input and output until the client is gone."""
    async with _sdk("mcp.server.stdio").stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


def target_texts(target: TargetBrief) -> dict[str, str]:
    """What can be read of a target, by name."""
    menu = "\n".join(f"{option.id}: {option.text}" for option in target.menu)
    return {"isa": target.isa, "rules": target.rules, "menu": menu, "costs": target.costs}


def _sdk(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ConfigurationError(
            "serving tools to agents needs the Python package mcp, version 2 or newer: install it "
            'with `pip install "tilewright[agent]"`.'
        ) from None

"""Offers the tools over the Model Context Protocol, with its official SDK.

The SDK is imported only when a server is created. Each answer is sent both as text and as the JSON
object of its record. A call that could not be carried out is marked as an error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Executor
from importlib import import_module, metadata
from typing import Any

from tilewright.core.errors import ConfigurationError, InputError, TilewrightError
from tilewright.core.records import TargetBrief
from tilewright.core.text import plain_text
from tilewright.tools.mcp_input import MOST_BYTES, StandardInput
from tilewright.tools.mcp_shutdown import Ending
from tilewright.tools.records import Refused
from tilewright.tools.schemas import output_schema
from tilewright.tools.text import said
from tilewright.tools.toolbox import TOOLS

Call = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Carries out a tool by name with its arguments, and returns the result of `tools.text.said`."""

PROGRESS_EVERY_S = 2.0
"""Seconds between two progress messages to a client that requested progress."""
INSTRUCTIONS = (
    "Make the kernel `start` of {workload} faster for the target {target}. Every kernel that you "
    "evaluate counts, and the fastest correct one is kept; evaluations are limited. Read the "
    "resources isa, rules and menu; check kernels first; submit at the end."
)


def require_sdk() -> None:
    """Raise `ConfigurationError` if the SDK is not installed."""
    _sdk("mcp.server.lowlevel")


def create_server(
    workload: str, target: str, texts: Mapping[str, str], call: Call, executor: Executor
) -> Any:
    """The SDK's server of these tools; `executor` carries out calls, one after the other.

    `texts` are the resources of the server, which describe the target, by name.
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
                    output_schema=output_schema(tool),
                )
                for tool in TOOLS.values()
            ]
        )

    async def call_tool(context: Any, parameters: Any) -> Any:
        loop, given = asyncio.get_running_loop(), parameters.arguments or {}
        work = loop.run_in_executor(executor, call, parameters.name, given)
        try:
            answer = await _with_progress(work, parameters.name, context.session.report_progress)
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
        if str(parameters.uri) not in resources:
            raise _sdk("mcp.shared.exceptions").MCPError(
                types.INVALID_PARAMS,
                f"there is no resource {plain_text(str(parameters.uri)[:80])}. Read one of "
                f"{', '.join(resources)}.",
            )
        _, text = resources[str(parameters.uri)]
        contents = types.TextResourceContents(uri=parameters.uri, text=text)
        return types.ReadResourceResult(contents=[contents])

    server = _sdk("mcp.server.lowlevel").Server(
        "tilewright",
        version=metadata.version("tilewright"),
        instructions=INSTRUCTIONS.format(workload=workload, target=target),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )
    server.middleware.append(_known_version)
    return server


async def _with_progress(
    work: asyncio.Future[Mapping[str, Any]],
    tool: str,
    report: Callable[[float, float | None, str], Awaitable[None]],
) -> Mapping[str, Any]:
    """The answer of a call. In the meantime, the client receives a progress message every few
    seconds.

    A cancelled call that has not begun is dropped. A call that has begun is completed unless the
    server ends, and its evaluation is charged and stored.
    """
    began = time.monotonic()
    try:
        while not (await asyncio.wait([work], timeout=PROGRESS_EVERY_S))[0]:
            seconds = time.monotonic() - began
            await report(seconds, None, f"{plain_text(tool[:40])}: {seconds:.0f} s")
        return work.result()
    except asyncio.CancelledError:
        work.cancel()
        raise


async def _known_version(context: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
    """Refuse a client with an unknown version of the protocol.

    To a client with a later version, the latest known version is offered instead, as the protocol
    requires.
    """
    if context.method == "initialize":
        versions = _sdk("mcp_types.version").HANDSHAKE_PROTOCOL_VERSIONS
        given = str((context.params or {}).get("protocolVersion"))
        is_later = re.fullmatch(r"\d{4}-\d\d-\d\d", given) and given > versions[-1]
        if given not in versions and not is_later:
            raise _sdk("mcp.shared.exceptions").MCPError(
                _sdk("mcp.types").INVALID_PARAMS,
                f"this server supports the versions {', '.join(versions)} of the Model Context "
                f"Protocol, but not {plain_text(given[:40])!r}: update the client.",
                {"supported": list(versions)},
            )
    return await call_next(context)


async def serve(server: Any, ending: Ending, give_up: Callable[[InputError], None]) -> None:
    """Serve on standard input and output until the client closes them, or `Ending` ends the
    server.

    A message of more than `MOST_BYTES` ends the server; `give_up` is called with the reason.
    """
    refusal = InputError(
        f"the client sent a line of more than {MOST_BYTES >> 10} KiB, so the server has ended; the "
        "same command continues the run."
    )
    given = StandardInput(lambda: give_up(refusal))
    ending.ends(given.end)
    # Its only warning: a client that does not read will not get its last answers either.
    logging.getLogger("mcp.shared.jsonrpc_dispatcher").setLevel(logging.ERROR)
    try:
        async with _sdk("mcp.server.stdio").stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())
    except* BrokenPipeError:  # the client ended before it read its answers
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # unsent answers are discarded


def target_texts(target: TargetBrief) -> dict[str, str]:
    """The texts about a target, by name."""
    menu = "\n".join(f"{option.id}: {option.text}" for option in target.menu)
    return {"isa": target.isa, "rules": target.rules, "menu": menu, "costs": target.costs}


def _sdk(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError:
        raise ConfigurationError(
            "serving tools to agents needs the Python package mcp, version 2 or newer. Install "
            'it with `pip install "tilewright[agent]"`.'
        ) from None

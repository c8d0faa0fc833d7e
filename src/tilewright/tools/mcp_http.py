"""The MCP server over HTTP, only on this machine, for clients that send a token."""

from __future__ import annotations

import hmac
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

from tilewright.core.errors import ConfigurationError, InputError
from tilewright.tools.mcp_shutdown import Ending

HOST = "127.0.0.1"
TOKEN_VARIABLE = "TILEWRIGHT_MCP_TOKEN"
"""Environment variable with the token that clients send as `Authorization: Bearer TOKEN`."""
LEAST_TOKEN = 16
"""Minimum number of characters of a token, so that it cannot be guessed."""
PATH = "/mcp"
_REFUSED = (
    "this server answers only requests with its token: send the header 'Authorization: Bearer "
    f"TOKEN' with the value of {TOKEN_VARIABLE}."
)

App = Callable[[Any, Any, Any], Awaitable[None]]


def bound(port: int) -> socket.socket:
    """A socket that listens on this machine; 0 takes any free port. `InputError` if it is taken.

    The socket listens immediately, so a client that connects before the server runs waits and is
    not refused.
    """
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"port {port} cannot be used by the server ({reason}). Give another port."
        ) from error
    return listener


def require_token(token: str) -> str:
    """The token; `ConfigurationError` if it is so short that it could be guessed."""
    if len(token) < LEAST_TOKEN:
        raise ConfigurationError(
            f"{TOKEN_VARIABLE} has {len(token)} characters, which could be guessed. Give at least "
            f"{LEAST_TOKEN}, or leave the variable unset, and the server generates a token."
        )
    return token


async def serve_http(server: Any, listener: socket.socket, token: str, ending: Ending) -> None:
    """Serve until `Ending` ends the server."""
    import uvicorn

    app = with_token(server.streamable_http_app(streamable_http_path=PATH, host=HOST), token)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5)
    web = uvicorn.Server(config)
    ending.ends(lambda: setattr(web, "should_exit", True))
    await web.serve(sockets=[listener])


def with_token(app: App, token: str) -> App:
    """The application, which answers requests without the token with status 401."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            sent = dict(scope["headers"]).get(b"authorization", b"")
            if not hmac.compare_digest(sent, expected):
                await _refuse(send)
                return
        await app(scope, receive, send)

    return guarded


async def _refuse(send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    body = json.dumps({"error": _REFUSED}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"www-authenticate", b"Bearer"),
    ]
    await send({"type": "http.response.start", "status": 401, "headers": headers})
    await send({"type": "http.response.body", "body": body})

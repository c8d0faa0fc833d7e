"""Access control of the live page, and the security headers of its answers.

Other programs on this machine can also connect to the port. So can any web site that the user has
open, by a request across origins or by a domain name that resolves to 127.0.0.1 (DNS rebinding).
Therefore, every request must name a host of this machine, must not come from another origin, and
must contain the token, which only the user has received.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN = "token"
"""Name of the parameter with the token in the printed address."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # "no-referrer" would remove the origin of forms
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_SAFE = ("GET", "HEAD")


class Access:
    """The token of one server, and the host names by which it may be addressed.

    `token` is None with the option --no-token.
    """

    def __init__(self, token: str | None, port: int) -> None:
        self.token = token
        self.cookie = f"tilewright-{port}"  # cookies do not distinguish ports
        self._csrf_key = secrets.token_bytes(32)
        self._names = {"localhost", *_names_of_this_machine()}

    def csrf_token(self) -> str:
        """The token that each form which changes something must contain."""
        return hmac.new(self._csrf_key, b"form", hashlib.sha256).hexdigest()

    def is_csrf_token(self, text: str) -> bool:
        """Whether a form contains this token."""
        return hmac.compare_digest(text.encode(), self.csrf_token().encode())

    def is_token(self, text: str) -> bool:
        """Whether the given text is the access token."""
        return self.token is None or hmac.compare_digest(text.encode(), self.token.encode())

    def is_own_host(self, host: str) -> bool:
        """Whether a Host header names this machine, by an IP address (which is never the name of
        another site) or by a host name.
        """
        name = _host_name(host)
        if name is None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._names
        return True


def _names_of_this_machine() -> set[str]:
    name = socket.gethostname().lower()
    return {name, name.partition(".")[0], f"{name.partition('.')[0]}.local"} - {""}


def _host_name(host: str) -> str | None:
    """The host in a Host header, without the port; None if the header is not valid."""
    if host.startswith("["):
        name, closed, port = host[1:].partition("]")
        port = port.removeprefix(":")
        return name if closed and (not port or port.isdecimal()) else None
    name, colon, port = host.partition(":")
    return name if name and (not colon or port.isdecimal()) else None


class Guard:
    """An ASGI application around another one, which refuses requests that are not allowed and adds
    security headers to all answers.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """An ASGI application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # web sockets are not used

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                had = {name.lower() for name, _ in message["headers"]}
                added = [
                    (name.encode(), value.encode())
                    for name, value in _HEADERS.items()
                    if name.encode() not in had
                ]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        from starlette.responses import PlainTextResponse, RedirectResponse

        refused = self._refusal(scope)
        if refused is not None:
            answer = PlainTextResponse(refused + "\n", status_code=403)
            await answer(scope, receive, send_with_headers)
            return
        access = self._access
        brought = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if access.token is not None and TOKEN in brought:
            kept = {name: value for name, value in brought.items() if name != TOKEN}
            # A path may begin with two slashes, which must not be interpreted as another host.
            path = "/" + scope["path"].lstrip("/")
            onward = RedirectResponse(
                path + (f"?{urlencode(kept)}" if kept else ""), status_code=303
            )
            onward.set_cookie(
                access.cookie, access.token, httponly=True, samesite="strict", path="/"
            )
            await onward(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> str | None:
        """The reason why this request is refused, as a sentence."""
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        host = headers.get("host", "")
        if not self._access.is_own_host(host):
            return (
                "This page is not known by that name: open the address that `tilewright serve` "
                "printed."
            )
        origin = headers.get("origin")
        same = (f"http://{host}", f"https://{host}")
        if origin is None and scope["method"] not in _SAFE:
            return "This request does not name its page. Use the buttons of the page."
        if origin is not None and origin not in same:
            return "This request comes from another site. Only requests from this page are allowed."
        if not self._has_token(scope, headers):
            return (
                "The access token is missing or belongs to an earlier start of the server: open "
                "the address that `tilewright serve` printed."
            )
        return None

    def _has_token(self, scope: Scope, headers: Mapping[str, str]) -> bool:
        if self._access.token is None:
            return True
        brought = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if scope["method"] in _SAFE and TOKEN in brought:
            return self._access.is_token(brought[TOKEN])
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._access.cookie)
        except CookieError:
            return False
        return cookie is not None and self._access.is_token(cookie.value)

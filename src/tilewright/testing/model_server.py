"""A local HTTP server that implements the protocols of OpenAI, Anthropic, Google and Bedrock.

It is used in tests of proposers and providers. Its answers are a list of behaviours, one per
request; the last one is used for all further requests. The text of an answer can be computed from
the prompt and the call's key, which is the same for equal calls.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tilewright.testing.model_protocols import Behaviour, ScriptedReply, prompt_of, protocol

Answer = Callable[[str, str], str | ScriptedReply]


class ModelServer:
    """A server that runs during its `with` block.

    `requests` and `headers` contain what was received. `most_concurrent` is the largest number of
    simultaneous calls. With port 0, the system chooses a free port.
    """

    def __init__(self, *script: Behaviour, answer: Answer | None = None, port: int = 0) -> None:
        self.script = list(script) or [Behaviour()]
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.concurrent = self.most_concurrent = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._http.daemon_threads = True

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Base URL for the OpenAI protocol."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def root(self) -> str:
        """Base URL for the Anthropic protocol, whose SDK adds `/v1` itself."""
        return self.url.removesuffix("/v1")

    def begin(self, body: dict[str, Any], headers: dict[str, str]) -> Behaviour:
        """Record the start of a request, and return the behaviour that answers it."""
        with self._lock:
            number = len(self.requests)
            self.requests.append(body)
            self.headers.append(headers)
            self.concurrent += 1
            self.most_concurrent = max(self.most_concurrent, self.concurrent)
        return self.script[min(number, len(self.script) - 1)]

    def end(self) -> None:
        """Record the end of a request."""
        with self._lock:
            self.concurrent -= 1


def _handler(server: ModelServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            behaviour = server.begin(body, {k.lower(): v for k, v in self.headers.items()})
            try:
                time.sleep(behaviour.delay_s)
                self._answer(behaviour, body, self.headers.get("idempotency-key", ""))
            finally:
                server.end()

        def do_GET(self) -> None:
            self._send(404, b"{}", {})

        def _answer(self, behaviour: Behaviour, body: dict[str, Any], key: str) -> None:
            if behaviour.kind == "drop":
                self.close_connection = True
                return
            if behaviour.status != 200:
                error = {
                    "message": behaviour.text,  # where Bedrock puts the text
                    "error": {"message": behaviour.text, "code": behaviour.kind},
                }
                self._send(behaviour.status, json.dumps(error).encode(), behaviour.headers)
                return
            text = behaviour.text
            if server.answer is not None:
                said = server.answer(prompt_of(body), key)
                said = ScriptedReply(said) if isinstance(said, str) else said
                text, behaviour = said.text, replace(behaviour, calls=said.calls)
            document = protocol(self.path)(behaviour, body, text)
            data = json.dumps(document).encode()
            if behaviour.kind == "malformed":
                data = data[: len(data) // 2]
            self._send(200, data, behaviour.headers, truncate=behaviour.kind == "truncate")

        def _send(
            self, status: int, data: bytes, headers: dict[str, str], truncate: bool = False
        ) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data[: len(data) // 2] if truncate else data)
            if truncate:
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    return Handler

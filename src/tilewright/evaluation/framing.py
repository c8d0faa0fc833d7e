"""Messages between the executor and its workers: JSON behind a 4-byte big-endian length."""

from __future__ import annotations

import json
import os
from typing import Any

_MAX_BYTES = 1 << 28


def write_message(descriptor: int, message: Any) -> None:
    """Write one message whole; `BrokenPipeError` when the other end is gone."""
    body = json.dumps(message).encode()
    data = memoryview(len(body).to_bytes(4, "big") + body)
    while data:
        data = data[os.write(descriptor, data) :]


class MessageReader:
    """Reads messages from a pipe."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def read(self) -> Any:
        """The next message, waiting for it; `EOFError` when the other end is gone."""
        length = int.from_bytes(self._exactly(4), "big")
        if length > _MAX_BYTES:
            raise EOFError(f"a message of {length} bytes is not one of ours")
        return json.loads(self._exactly(length))

    def _exactly(self, count: int) -> bytes:
        parts = []
        while count:
            part = os.read(self.descriptor, min(count, 1 << 16))
            if not part:
                raise EOFError("the other end of the pipe is closed")
            parts.append(part)
            count -= len(part)
        return b"".join(parts)

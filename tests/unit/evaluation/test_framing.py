"""Messages over pipes."""

from __future__ import annotations

import os
import threading

import pytest

from tilewright.evaluation.framing import MessageReader, write_message


@pytest.mark.parametrize(
    "message", [{}, {"a": [1, 2.5, None, "\u00e9\n\0"]}, {"long": "x" * 1_000_000}]
)
def test_a_message_arrives_whole(message: object) -> None:
    read, write = os.pipe()
    sender = threading.Thread(target=write_message, args=(write, message))
    sender.start()
    assert MessageReader(read).read() == message
    sender.join()
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x05ab", b"\xff\xff\xff\xff"])
def test_a_closed_or_broken_pipe_is_the_end(sent: bytes) -> None:
    read, write = os.pipe()
    os.write(write, sent)
    os.close(write)
    with pytest.raises(EOFError):
        MessageReader(read).read()
    os.close(read)

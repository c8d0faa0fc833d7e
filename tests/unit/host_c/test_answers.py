"""An answer of a kernel's process counts only if it comes from there, and to what was asked."""

from __future__ import annotations

import os
import select
import socket
import threading
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from tilewright.core.records import Failed
from tilewright.native import process as processes
from tilewright.native.process import KernelProcess
from tilewright.native.shared_memory import SharedArrays
from tilewright.parts.languages import C
from tilewright.sandbox import Sandbox


@pytest.mark.parametrize(
    ("pid", "nonce_added", "counts"),
    [(os.getpid(), 0, True), (os.getppid(), 0, False), (os.getpid(), 1, False)],
    ids=["the process that the system named", "another process", "an answer to nothing asked"],
)
def test_whose_answer_counts(pid: int, nonce_added: int, counts: bool) -> None:
    """This process answers in place of the kernel's."""
    asked = KernelProcess(cast(Sandbox, None), b"", b"", (), np.random.default_rng(1), language=C)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        asked.arrays = cast(SharedArrays, SimpleNamespace(places=()))
        asked.pid, asked._messages, asked._poll = pid, ours, select.poll()
        asked._poll.register(ours, select.POLLIN)

        def answer() -> None:
            nonce = processes._COMMAND.unpack(theirs.recv(processes._COMMAND.size))[0]
            nonce = (nonce + nonce_added) % (1 << 64)
            theirs.send(processes._REPLY.pack(nonce, 0, 0, 0, 0, 0))

        answering = threading.Thread(target=answer)
        answering.start()
        found = asked.call("check", timeout_s=20.0)
        answering.join()
    assert isinstance(found, Failed) != counts
    if isinstance(found, Failed):
        assert found.kind == "no_result"

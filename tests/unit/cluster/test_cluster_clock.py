"""A clock that is set back does not stop the streams of messages of a cluster."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

SET_BACK = """
import asyncio, time
real, ahead_s = time.time, 0.0
time.time = lambda: real() + ahead_s
{start}
from distributed.batched import BatchedSend
from distributed.comm import connect, listen

async def main():
    global ahead_s
    arrived = asyncio.Queue()

    async def receive(comm):
        while True:
            for message in await comm.read():
                arrived.put_nowait(message)

    async with listen("tcp://127.0.0.1:0", receive) as listener:
        stream = BatchedSend(interval="300 ms")
        stream.start(await connect(listener.contact_address))
        stream.send("before")
        await arrived.get()
        ahead_s = -6 * 3600.0  # while the stream waits before its next batch
        stream.send("after")
        print(await asyncio.wait_for(arrived.get(), 3))

asyncio.run(main())
"""


def test_a_stream_sends_after_the_clock_was_set_back() -> None:
    """It was silent for the hours by which the clock was set back."""
    start = "from tilewright.cluster.settings import require_distributed as start; start()"
    program = SET_BACK.format(start=start)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, "after\n"), ended.stderr

"""Asks a scheduler who it is and which workers it has."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tilewright.cluster.plain_messages import Role, read_only_plain_messages
from tilewright.cluster.settings import require_listener, security
from tilewright.core.errors import ClusterError

ANSWER_S = 20.0
"""Seconds within which a scheduler must answer."""


def read_identity(address: str, shown: str, workers: int = -1) -> Mapping[str, Any]:
    """What the scheduler at "PROTOCOL://HOST:PORT" says about itself and about this number of its
    workers (-1: all).

    Raises `ClusterError` if nothing listens there, or if it is no scheduler. dask's own client
    would wait for such a program without end.
    """
    require_listener(address, shown)
    with ThreadPoolExecutor(1) as thread:  # the caller may run in an event loop
        answer = thread.submit(lambda: asyncio.run(_answer(address, workers)))
        try:
            return answer.result()
        except (OSError, TimeoutError, ValueError) as error:
            raise ClusterError(
                f"the scheduler at {shown} does not answer like a dask scheduler. Correct the "
                "address, or, if the scheduler uses TLS, name its certificates (docs/cluster.md "
                "says how)."
            ) from error


async def _answer(address: str, workers: int) -> Mapping[str, Any]:
    return await asyncio.wait_for(_asked(address, workers), ANSWER_S)


async def _asked(address: str, workers: int) -> Mapping[str, Any]:
    from distributed.core import rpc

    read_only_plain_messages(Role.SEARCH)
    async with rpc(address, connection_args=security().get_connection_args("client")) as scheduler:
        found: Mapping[str, Any] = await scheduler.identity(n_workers=workers)
        return found

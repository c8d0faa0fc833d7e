"""dask's client, scheduler and worker as tilewright uses them.

They do what the evaluations of searches require, and refuse everything else that dask offers, such
as running a function that a message contains, or storing a file.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.cluster.plain_messages import Role, read_only_plain_messages
from tilewright.cluster.settings import security

if TYPE_CHECKING:
    from distributed import Client, Scheduler, Worker

SCHEDULER_REQUESTS = frozenset(
    {
        # of searches
        *("identity", "register-client", "gather", "who_has", "processing", "get_task_status"),
        # of workers
        *("register-worker", "heartbeat_worker", "unregister"),
        "connection_stream",
    }
)
"""The requests that a scheduler answers."""
WORKER_REQUESTS = frozenset({"identity", "get_data", "connection_stream"})
"""The requests that a worker answers; searches fetch their answers with `get_data`."""
HEARTBEAT_S = 2.0
"""Seconds between two reports of a worker to its scheduler. In a small cluster, dask's own interval
is 0.5 s. A report takes about 2 ms of CPU time. If a worker ends, its connection is closed, so the
scheduler notices this without a report.
"""


class _AllExcept:
    """Contains every name except these: dask's `blocked_handlers` for everything else."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = names

    def __contains__(self, name: object) -> bool:
        return name not in self._names


def create_scheduler(host: str, port: int, protocol: str) -> Scheduler:
    """A scheduler that has not started, at `host` ("" for all addresses of this machine).

    `port` may be 0 for any free port; `protocol` is "tcp" or "tls".
    """
    from distributed import Scheduler

    read_only_plain_messages(Role.SCHEDULER)
    return Scheduler(
        host=host,
        port=port,
        protocol=protocol,
        security=security(),
        blocked_handlers=_AllExcept(SCHEDULER_REQUESTS),
        dashboard=False,
        dashboard_address="127.0.0.1:0",
    )


def create_worker(address: str, **options: Any) -> Worker:
    """A worker that has not started, for the scheduler at `address`; `options` are dask's."""
    from distributed import Worker

    read_only_plain_messages(Role.WORKER)

    class PlainWorker(Worker):  # type: ignore[misc]
        """A worker that accepts no plug-ins, and reports at most once per `HEARTBEAT_S`."""

        async def plugin_add(self, *_: object, **__: object) -> dict[str, str]:
            return {"status": "OK"}

        async def heartbeat(self) -> None:
            await super().heartbeat()  # sets the interval that the scheduler answers
            timer = self.periodic_callbacks["heartbeat"]
            timer.callback_time = max(timer.callback_time, 1000 * HEARTBEAT_S)

    return PlainWorker(
        address,
        security=security(),
        blocked_handlers=_AllExcept(WORKER_REQUESTS),
        dashboard=False,
        dashboard_address="127.0.0.1:0",
        **options,
    )


def create_client(address: str, timeout_s: float) -> Client:
    """A client that is connected to the scheduler at `address`."""
    from distributed import Client

    read_only_plain_messages(Role.SEARCH)

    class PlainClient(Client):  # type: ignore[misc]
        """A client that does not print what workers report."""

        _default_event_handlers: ClassVar[dict[str, object]] = {}

    return PlainClient(address, timeout=timeout_s, security=security(), set_as_default=False)

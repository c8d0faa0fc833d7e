"""`tilewright cluster scheduler`, and the scheduler of a cluster on this machine only."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable

from tilewright.cluster.address import LOOPBACK
from tilewright.cluster.dask_processes import create_scheduler
from tilewright.cluster.settings import has_certificates, require_distributed
from tilewright.core.errors import ClusterError, ConfigurationError


def serve_scheduler(
    host: str | None, port: int, on_start: Callable[[str], None], say: Callable[[str], None]
) -> None:
    """Run a scheduler until Ctrl-C; `on_start` receives its address with the protocol.

    If certificates are configured, the scheduler uses TLS and listens on all addresses of this
    machine unless `host` names one. Otherwise it listens on localhost. Raises
    `ConfigurationError` for another host without certificates, and `ClusterError` if the port
    cannot be used.
    """
    require_distributed()
    has_tls = has_certificates("scheduler")
    if not has_tls and host not in {None, *LOOPBACK}:
        raise ConfigurationError(
            f"a scheduler at {host} can be reached from other machines, and no TLS certificates "
            "are configured. Name them in dask's configuration (docs/cluster.md says how), or "
            "leave --host out."
        )
    where = host or ("" if has_tls else "127.0.0.1")
    if ":" in where and not where.startswith("["):
        where = f"[{where}]"  # dask requires an IPv6 address in this form
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        asyncio.run(schedule(where, port, "tls" if has_tls else "tcp", on_start))
    except KeyboardInterrupt:
        say("the scheduler has ended")


async def schedule(host: str, port: int, protocol: str, on_start: Callable[[str], None]) -> None:
    """Run a scheduler until it is ended. `port` may be 0 for any free port."""
    try:
        scheduler = create_scheduler(host, port, protocol)
        await scheduler
    except (OSError, RuntimeError, ValueError) as error:  # dask chains the errors of its steps
        raise ClusterError(
            f"no scheduler can be started at port {port} of {host or 'this machine'}: "
            f"{_cause(error)}. Choose another port or --host."
        ) from error
    async with scheduler:
        on_start(scheduler.address)
        await scheduler.finished()


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return next(iter(reason.splitlines()), type(error).__name__).rstrip(".")

"""Configures `distributed`. Only settings on which guarantees of tilewright depend are set here;
the user can set all others.
"""

from __future__ import annotations

import logging
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tilewright.cluster.address import Address
from tilewright.cluster.steady_clock import use_steady_clock
from tilewright.core.errors import ClusterError, ConfigurationError, ToolchainMissingError

if TYPE_CHECKING:
    from distributed import Security

CONNECT_S = 10.0
"""Seconds within which a connection to the scheduler's machine must be established."""
INSTALL = "install it with: pip install 'tilewright[cluster]'"
AGAIN = "run the same command again, which continues the run"


def unavailable(shown: str) -> str:
    """The message for the user if a scheduler has ended or does not answer."""
    return f"the scheduler at {shown} no longer answers. Start it again, then {AGAIN}."


def require_distributed() -> None:
    """The configured package `distributed`; `ToolchainMissingError` if the extra is not
    installed.
    """
    try:
        import dask
        import distributed  # noqa: F401  (its defaults come first)
    except ImportError as error:
        raise ToolchainMissingError(
            f"evaluating on a cluster needs dask.distributed, which is not installed: {INSTALL}."
        ) from error
    use_steady_clock()
    # dask prints tracebacks if a connection is interrupted, which tilewright reports in a sentence,
    # and for messages that are refused. dask reads `distributed.logging` when it is imported, so
    # the level is set here.
    for name in ("distributed", "distributed.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    dask.config.set(
        {
            "distributed.worker.profile.enabled": False,
            # Without this, an idle process would wake 50 times a second to check whether its event
            # loop is late, and read system counters twice a second, which takes 2 % of a core.
            "distributed.admin.tick.interval": "1 s",
            "distributed.admin.system-monitor.interval": "10 s",
            # tilewright does not use the next two: results are never copied between workers, and
            # `Connection` itself asks for the list of workers.
            "distributed.scheduler.active-memory-manager.start": False,
            "distributed.client.scheduler-info-interval": "1 h",
            "distributed.scheduler.worker-saturation": 1.0,
        }
    )


def require_listener(address: str, shown: str) -> None:
    """Raise `ClusterError` immediately if nothing listens at "PROTOCOL://HOST:PORT", because
    clients would try for a long time.
    """
    parsed = urlsplit(address)
    try:
        with socket.create_connection((parsed.hostname, parsed.port or 0), CONNECT_S):
            return
    except OSError as error:
        reason = error.strerror or str(error) or "no answer"
        raise ClusterError(
            f"the scheduler at {shown} cannot be reached ({reason}). Start it with "
            "`tilewright cluster scheduler`, or correct the address."
        ) from error


def security() -> Security:
    """The certificates that dask's configuration names (distributed.comm.tls)."""
    from distributed import Security

    return Security()


def has_certificates(role: str = "client") -> bool:
    """Whether dask's configuration names certificates for TLS.

    `role` is "client", "worker" or "scheduler". Raises `ConfigurationError` if the configuration
    names an authority or requires encryption, but a process with this role cannot use it.
    """
    found = security()
    if not found.tls_ca_file and not found.require_encryption:
        return False
    try:
        if found.get_connection_args(role)["ssl_context"] is not None:
            return True
        reason = f"it names none for a {role} (ca-file, {role}.cert and {role}.key)"
    except (OSError, ValueError) as error:  # the files are missing or invalid
        files = (
            getattr(found, f"tls_{part}") for part in ("ca_file", f"{role}_cert", f"{role}_key")
        )
        names = ", ".join(dict.fromkeys(str(file) for file in files if file))
        reason = f"{getattr(error, 'strerror', None) or error} ({names})"
    raise ConfigurationError(
        "the TLS certificates of dask's configuration (distributed.comm.tls) cannot be used: "
        f"{reason}. Correct the configuration (docs/cluster.md)."
    )


def url(address: Address, role: str = "client") -> str:
    """The address with its protocol, for a process with this role.

    Raises `ConfigurationError` for a scheduler on another machine without TLS, because anyone who
    can write to the connection can change the results.
    """
    if has_certificates(role):
        return f"tls://{address}"
    if not address.is_loopback:
        raise ConfigurationError(
            f"the scheduler at {address} is on another machine, and no TLS certificates are "
            "configured. Name them in dask's configuration, or reach it through a tunnel on "
            "localhost (docs/cluster.md says how to do either)."
        )
    return f"tcp://{address}"

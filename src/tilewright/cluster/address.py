"""Parses the option `--executor`, which names this machine, a cluster on this machine, or the
scheduler of another cluster.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewright.core.errors import ConfigurationError

LOCAL = "local"
LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")
"""The names of this machine that no other machine can reach."""
_ADDRESS = re.compile(r"(?P<host>\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a scheduler, as a user writes it."""

    host: str
    port: int

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOOPBACK

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Place:
    """The cluster on which candidates are evaluated. If `cluster` is None, tilewright starts one on
    this machine.
    """

    cluster: Address | None


def parse_executor(text: str) -> Place | None:
    """The place that `--executor` names, or None for this machine; `ConfigurationError` if the
    value is not valid.
    """
    if text == LOCAL:
        return None
    if text == "dask":
        return Place(None)
    if text.startswith("dask://"):
        return Place(parse_address(text.removeprefix("dask://")))
    raise ConfigurationError(
        f"executor {text!r} is not known. Use 'local', 'dask' (worker processes on this "
        "machine) or 'dask://HOST:PORT' (the scheduler of a cluster)."
    )


def refuse_two_places(place: Place | None, host: object) -> None:
    """Raise `ConfigurationError` if `--host` is given together with a cluster."""
    if place is not None and host:
        raise ConfigurationError(
            "--host and --executor both name where candidates are evaluated. Leave one of them out."
        )


def parse_address(text: str) -> Address:
    """HOST:PORT, with or without the protocol that dask prints before it."""
    found = _ADDRESS.fullmatch(text.removeprefix("tcp://").removeprefix("tls://").rstrip("/"))
    if found is None or not 0 < int(found["port"]) < 65536:
        raise ConfigurationError(
            f"scheduler {text!r} is not an address. Write HOST:PORT, such as 127.0.0.1:8786."
        )
    return Address(found["host"], int(found["port"]))

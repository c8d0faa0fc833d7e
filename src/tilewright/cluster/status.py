"""Lists the hosts of a cluster with their workers, their resources, and versions that differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tilewright.cluster.address import Address
from tilewright.cluster.identity import read_identity
from tilewright.cluster.resources import offered
from tilewright.cluster.settings import require_distributed, url
from tilewright.core.errors import ClusterError
from tilewright.core.text import plain_text

MOST_SHOWN = 200
"""Maximum number of characters of a name or a version from another machine."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One version that differs between a host and this machine; "none" for a missing part."""

    target: str
    name: str
    there: str
    here: str


@dataclass(frozen=True, slots=True)
class Host:
    """One machine of a cluster. `busy` is the number of evaluations that are in progress or waiting
    on it.
    """

    host: str
    workers: int
    busy: int
    offers: tuple[str, ...]
    differences: tuple[Difference, ...]

    def plain(self) -> dict[str, object]:
        """The host as plain values, for JSON."""
        return asdict(self)


def read_hosts(address: Address) -> list[Host]:
    """The hosts of the cluster at `address`, by name; `ClusterError` if no scheduler answers."""
    require_distributed()
    where = url(address)
    info = read_identity(where, str(address))
    try:
        return hosts(info["workers"], offered())
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ClusterError(
            f"the scheduler at {address} describes its workers in a different form than this "
            "version does. Stop workers that tilewright did not start, or install equal versions."
        ) from error


def hosts(
    workers: Mapping[str, Mapping[str, Any]], here: Mapping[str, Mapping[str, str]]
) -> list[Host]:
    """The workers of a scheduler by host, compared with the resources of this machine."""
    of_host: dict[str, list[Mapping[str, Any]]] = {}
    for worker in workers.values():
        of_host.setdefault(str(worker["host"]), []).append(worker)
    return [_host(name, known, here) for name, known in sorted(of_host.items())]


def _host(
    name: str, workers: list[Mapping[str, Any]], here: Mapping[str, Mapping[str, str]]
) -> Host:
    metrics = [worker.get("metrics", {}) for worker in workers]
    busy = sum(
        int(found.get("task_counts", {}).get(state, 0))
        for found in metrics
        for state in ("executing", "ready", "constrained")
    )
    there: dict[str, Mapping[str, str]] = {}
    for found in metrics:
        there.update(found.get("tilewright", {}))
    resources = sorted({r for worker in workers for r in worker.get("resources", {})})
    plain = tuple(plain_text(resource) for resource in resources if "@" not in resource)
    return Host(plain_text(name), len(workers), busy, plain, tuple(_differences(there, here)))


def _differences(
    there: Mapping[str, Mapping[str, str]], here: Mapping[str, Mapping[str, str]]
) -> list[Difference]:
    found = []
    own = {stamp.partition("@")[0]: versions for stamp, versions in here.items() if versions}
    for stamp, versions in sorted(there.items()):
        target = stamp.partition("@")[0]
        if not versions or stamp in here or target not in own:
            continue
        for name in sorted({*versions, *own[target]}):
            pair = str(versions.get(name, "none")), own[target].get(name, "none")
            if pair[0] != pair[1]:
                shown = plain_text(pair[0][:MOST_SHOWN])
                found.append(Difference(target, plain_text(name[:MOST_SHOWN]), shown, pair[1]))
    return found

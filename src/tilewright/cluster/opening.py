"""Opens the executor on the cluster that `--executor` names."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tilewright.cluster.address import Place, refuse_two_places
from tilewright.cluster.connection import Connection
from tilewright.cluster.executor import DaskExecutor
from tilewright.cluster.folders import packed
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.local_workers import LocalCluster
from tilewright.cluster.messages import TaskDescription
from tilewright.cluster.resources import needed, offered
from tilewright.cluster.settings import require_distributed, url
from tilewright.core.roles import Untimed
from tilewright.core.tasks import OpenTask, open_task, target_of, target_versions
from tilewright.evaluation.outcome_cache import Lookup, Store
from tilewright.evaluation.pipeline import context_key
from tilewright.evaluation.timeouts import StageTimeouts

LOCAL = "the local cluster"


def open_executor(
    opened: OpenTask,
    settings: Mapping[str, object],
    place: Place,
    workers: int,
    *,
    lookup: Lookup | None = None,
    store: Store | None = None,
    timeouts: StageTimeouts | None = None,
    home: str | None = None,
    on_home: Callable[[str], None] = lambda host: None,
) -> DaskExecutor:
    """The executor on the cluster that `place` names. If tilewright starts the cluster, it has this
    number of `workers`.

    `settings` are the settings of the evaluation. All measurements on hardware use one host, which
    is `home`, or a host that is chosen and passed to `on_home`. Raises `ClusterError` if the
    scheduler cannot be reached, and `ToolchainMissingError` if the extra is not installed.
    """
    refuse_two_places(place, settings.get("host"))
    require_distributed()
    description = describe(opened, settings, timeouts)
    needs = needed(opened.target)
    with ExitStack() as stack:
        if place.cluster is None:
            cluster = stack.enter_context(LocalCluster(workers, offered()))
            address, shown = cluster.address, LOCAL
        else:
            address, shown = url(place.cluster), str(place.cluster)
        elsewhere = place.cluster is not None
        connection = Connection(address, shown, identify=elsewhere)
        stack.callback(connection.close)
        hosts = Hosts(
            connection,
            needs,
            shown,
            repeats=elsewhere,
            stays=measures(opened),
            home=home,
            on_home=on_home,
        )
        return DaskExecutor(
            connection,
            description,
            hosts,
            lookup=lookup,
            store=store,
            on_close=stack.pop_all().close,
        )


def measures(opened: OpenTask) -> bool:
    """Whether kernels are measured on hardware. Latencies of different machines, even of the same
    model, are then not equal.
    """
    is_untimed = isinstance(opened.task, Untimed) and opened.task.untimed is not None
    return opened.target.brief().latency.quantity == "measured" and not is_untimed


def describe(
    opened: OpenTask, settings: Mapping[str, object], timeouts: StageTimeouts | None = None
) -> TaskDescription:
    """The description with which workers open the task."""
    plain = json.loads(json.dumps(dict(settings)))  # lists instead of tuples, as it arrives there
    task = open_task(opened.name, plain).task
    versions, folder = target_versions(opened.target), Path(opened.name)
    is_folder = folder.is_absolute()
    target = str(settings.get("target") or (target_of(folder) if is_folder else ""))
    return TaskDescription(
        name=opened.name,
        target=opened.target.name,
        settings=plain,
        versions=versions,
        context=context_key(task, opened.target.versions()),
        timeouts=asdict(timeouts or StageTimeouts.from_settings(settings)),
        latency=opened.target.brief().latency,
        files=packed(folder) if is_folder else {},
        configuration=_file(Path(target)) if target.endswith(".toml") else {},
    )


def _file(path: Path) -> dict[str, str]:
    return {path.name: b64encode(path.read_bytes()).decode()}

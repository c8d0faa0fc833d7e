"""Opens the executor on the cluster that `--executor` names."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from tilewright.cluster.address import Place, refuse_two_places
from tilewright.cluster.connection import Connection
from tilewright.cluster.executor import DaskExecutor
from tilewright.cluster.folders import packed
from tilewright.cluster.host_outcomes import Job
from tilewright.cluster.hosts import Hosts
from tilewright.cluster.local_workers import LocalCluster
from tilewright.cluster.messages import TaskDescription
from tilewright.cluster.other_hosts import OtherHosts
from tilewright.cluster.resources import needed, offered, stamp_of_any_model
from tilewright.cluster.second_machine import SecondMachine
from tilewright.cluster.settings import require_distributed, url
from tilewright.core.plugins import is_target
from tilewright.core.records import Outcome
from tilewright.core.roles import RunsOnModels, Target, Untimed
from tilewright.core.tasks import OpenTask, open_task, target_of, target_versions, versions_without
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
    on_note: Callable[[str], None] = lambda sentence: None,
) -> DaskExecutor:
    """The executor on the cluster that `place` names. If tilewright starts the cluster, it has this
    number of `workers`.

    `settings` are the settings of the evaluation. All measurements on hardware use one host, which
    is `home`, or a host that is chosen and passed to `on_home`. `on_note` receives sentences for
    the user, from any thread. Raises `ClusterError` if the scheduler cannot be reached, and
    `ToolchainMissingError` if the extra is not installed.
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
        second = None
        if elsewhere and hosts.stays and isinstance(opened.target, RunsOnModels):
            other = describe(opened, settings, timeouts, opened.target.model_versions)
            second = _second_machine(opened.target, other, hosts, address, needs, on_note)
            if second is not None:
                stack.callback(second.close)
        return DaskExecutor(
            connection,
            description,
            hosts,
            lookup=lookup,
            store=store,
            on_close=stack.pop_all().close,
            second=second,
            on_note=on_note,
        )


def _second_machine(
    target: Target,
    description: TaskDescription,
    hosts: Hosts,
    address: str,
    needs: Sequence[str],
    on_note: Callable[[str], None],
) -> SecondMachine | None:
    """What verifies the kernels of a measured run on another machine than that of `hosts`.

    None for a target that a file describes, because workers do not say whether they can evaluate
    its kernels.
    """
    stamp = stamp_of_any_model(target, target_versions(target))
    if stamp is None or not is_target(target.name):
        return None
    connection = Connection(address, hosts.shown, identify=True)
    others = OtherHosts(connection, [stamp], hosts.shown, same_model=needs, home=lambda: hosts.home)

    def create_executor(hear: Callable[[Job, Outcome], None]) -> DaskExecutor:
        return DaskExecutor(connection, description, others, on_finish=hear)

    return SecondMachine(create_executor, others, on_note, connection.close)


def measures(opened: OpenTask) -> bool:
    """Whether kernels are measured on hardware. Latencies of different machines, even of the same
    model, are then not equal.
    """
    is_untimed = isinstance(opened.task, Untimed) and opened.task.untimed is not None
    return opened.target.brief().latency.quantity == "measured" and not is_untimed


def describe(
    opened: OpenTask,
    settings: Mapping[str, object],
    timeouts: StageTimeouts | None = None,
    ignored_versions: Collection[str] = (),
) -> TaskDescription:
    """The description with which workers open the task. The versions with names in
    `ignored_versions` may differ on a worker.
    """
    plain = json.loads(json.dumps(dict(settings)))  # lists instead of tuples, as it arrives there
    task = open_task(opened.name, plain).task
    versions, folder = (
        versions_without(target_versions(opened.target), ignored_versions),
        Path(opened.name),
    )
    is_folder = folder.is_absolute()
    target = str(settings.get("target") or (target_of(folder) if is_folder else ""))
    return TaskDescription(
        name=opened.name,
        target=opened.target.name,
        settings=plain,
        versions=versions,
        context=context_key(task, versions_without(opened.target.versions(), ignored_versions)),
        ignored_versions=sorted(ignored_versions),
        timeouts=asdict(timeouts or StageTimeouts.from_settings(settings)),
        latency=opened.target.brief().latency,
        files=packed(folder) if is_folder else {},
        configuration=_file(Path(target)) if target.endswith(".toml") else {},
    )


def _file(path: Path) -> dict[str, str]:
    return {path.name: b64encode(path.read_bytes()).decode()}

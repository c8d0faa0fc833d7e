"""What a second machine verifies of a run that is measured on one machine, with real workers.

The hosts 127.0.0.2 to 127.0.0.4 are addresses of this machine. A run is measured on the first one.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from importlib.metadata import version
from pathlib import Path

import cluster_digits
import measured_digits
import pytest

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from disturbed_cluster import DisturbedCluster
from test_cluster_liars import worker

from tilewright.cluster.identity import read_identity
from tilewright.cluster.resources import stamp, stamp_of_any_model
from tilewright.cluster.second_machine import ALONE, ONLY_RESULTS
from tilewright.core.records import Failed, History, Measured
from tilewright.storage.project import open_project
from tilewright.testing.toy import digits_of, toy_outcome

HOME, OTHER, THIRD = "127.0.0.2", "127.0.0.3", "127.0.0.4"
SMALL = [*cluster_digits.OPTIMIZE, "--iterations", "2", "--beam", "3", "--plans", "4"]
"""A search over about 40 kernels, without project and executor."""
STARTED_S = 60
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def installed(folder: Path, model: str, patch: pytest.MonkeyPatch) -> None:
    """Processes that start from now on seem to be on a machine with this model of the device."""
    if not folder.exists():
        measured_digits.write_entry_points(folder, model)
    patch.setenv("PYTHONPATH", cluster_digits.import_path(folder))


def offers(model: str) -> dict[str, dict[str, str]]:
    """What a machine with this model of the device offers."""
    target = measured_digits.MeasuredTarget(model)
    versions = {"tilewright": version("tilewright"), **target.versions()}
    any_model = stamp_of_any_model(target, versions)
    assert any_model is not None
    return {target.resource: {}, stamp(target, versions): versions, any_model: {}}


class Cluster:
    """Workers on hosts of a scheduler, until they are closed. Their logs are written to `logs`."""

    def __init__(self, scheduler: DisturbedCluster, plugins: Path, logs: Path) -> None:
        self._scheduler, self._plugins, self._logs = scheduler, plugins, logs
        self._stack, self._hosts = ExitStack(), list[str]()

    def add(self, host: str, harm: str = "none", model: str = "A") -> None:
        with pytest.MonkeyPatch.context() as patch:
            installed(self._plugins / f"model {model}", model, patch)
            known = offers(model)
            self._stack.enter_context(worker(harm, host, self._scheduler, known, self._logs))
        self._hosts.append(host)

    def search(self, project: Path) -> tuple[History, str]:
        """The trials of a search, and what it prints."""
        self._wait()
        return search(project, f"dask://{self._scheduler.address}")

    def _wait(self) -> None:
        """Until exactly these workers are connected."""
        address, hosts = self._scheduler.address, list[str]()
        for _ in range(10 * STARTED_S):
            workers = read_identity(f"tcp://{address}", address)["workers"].values()
            hosts = sorted(info["host"] for info in workers)
            if hosts == sorted(self._hosts):
                return
            time.sleep(0.1)
        raise AssertionError(hosts)

    def close(self) -> None:
        self._stack.close()
        self._hosts.clear()
        self._wait()


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The machine of the searches has model A."""
    folder = tmp_path_factory.mktemp("plugins")
    with pytest.MonkeyPatch.context() as patch:
        installed(folder / "model A", "A", patch)
        yield folder


@pytest.fixture(scope="module")
def scheduler(plugins: Path) -> Iterator[DisturbedCluster]:
    with closing(DisturbedCluster({}, plugins / "model A", count=0)) as started:
        started.wait_for_scheduler()
        yield started


@pytest.fixture
def cluster(scheduler: DisturbedCluster, plugins: Path, tmp_path: Path) -> Iterator[Cluster]:
    with closing(Cluster(scheduler, plugins, tmp_path)) as started:
        yield started


def search(project: Path, executor: str) -> tuple[History, str]:
    project.mkdir()
    command = [*SMALL, "--executor", executor, "--project", str(project)]
    ended = subprocess.run(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200
    )
    assert ended.returncode == 0, ended.stdout
    with closing(open_project(project)) as storage:
        return storage.history(storage.runs()[0].id), ended.stdout


def told(history: History) -> list[tuple[str, object]]:
    """Each kernel with its latency or its failure."""
    return [(t.candidate.source, t.latency or getattr(t.outcome, "kind", "")) for t in history]


def true_latency(source: str) -> float:
    outcome = toy_outcome(source)
    assert isinstance(outcome, Measured)
    return outcome.latency


def refused(history: History) -> dict[str, Failed]:
    """The kernels that were not confirmed."""
    found = {t.candidate.source: t.outcome for t in history}
    return {s: o for s, o in found.items() if isinstance(o, Failed) and o.kind == "unconfirmed"}


def test_a_second_honest_machine_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add(HOME)
    alone, said = cluster.search(tmp_path / "one")
    assert said.count(ALONE) == 1
    cluster.add(OTHER)
    both, said = cluster.search(tmp_path / "two")
    assert ALONE not in said
    assert told(both) == told(alone) == told(search(tmp_path / "local", "local")[0])
    messages = (tmp_path / f"messages to {OTHER}").read_text().splitlines()
    assert len(messages) > 3


def test_only_a_machine_with_the_same_model_refutes_a_forged_latency(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add(HOME, "halves some latencies")
    cluster.add(OTHER, model="B")
    history, said = cluster.search(tmp_path / "another model")
    assert said.count(ONLY_RESULTS) == 1
    assert refused(history)  # only by evaluations on the machine of the search
    assert not [o.log for o in refused(history).values() if "second machine" in o.log]

    cluster.add(THIRD)
    history, said = cluster.search(tmp_path / "same model")
    assert ONLY_RESULTS not in said
    found = refused(history)
    assert found
    for source, outcome in found.items():
        truth = true_latency(source)
        assert f"{truth / 2:g} ns on {HOME} (interval " in outcome.log
        assert f"On {THIRD}, the kernel takes {truth:g} ns (interval " in outcome.log
    assert all(t.latency in (None, true_latency(t.candidate.source)) for t in history)
    assert told(cluster.search(tmp_path / "again")[0]) == told(history)


def test_a_forged_pass_is_not_confirmed(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add(HOME, "passes wrong kernels")
    cluster.add(OTHER, model="B")
    history, said = cluster.search(tmp_path / "forged")
    assert said.count(ONLY_RESULTS) == 1
    found = refused(history)
    assert found
    for outcome in found.values():
        assert outcome.cause == "wrong_result"
        assert outcome.log.startswith(f"105 ns on {HOME} was not confirmed by a second machine. ")
        assert f"On {OTHER}, the kernel fails its check (wrong result): a digit is 4" in outcome.log
    assert all(4 not in digits_of(t.candidate.source) for t in history if t.latency)

"""Faults of every part of a cluster at random moments: the run ends as if undisturbed.

Killed are worker processes, the scheduler, the search and the database server; workers are stopped,
the network is cut, and the time of day jumps. The environment variable TILEWRIGHT_CLUSTER_FAULTS
says how many faults there are; without it there are none. TILEWRIGHT_CLUSTER_KINDS names those that
occur, such as "clock jumped,worker killed"; by default, all. `-s` shows each.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import cluster_digits
import pytest
from postgres_server import Server, missing, running
from toy_project import recorded

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from disturbed_cluster import DisturbedCluster

from tilewright.cluster.message_sizes import MOST_AHEAD
from tilewright.storage.project import open_project

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "TILEWRIGHT_CLUSTER_FAULTS" not in os.environ,
        reason="takes minutes: set TILEWRIGHT_CLUSTER_FAULTS to the number of faults",
    ),
    pytest.mark.skipif(bool(missing()), reason=missing() or "a server can be started"),
]

FAULTS = int(os.environ.get("TILEWRIGHT_CLUSTER_FAULTS", "5"))
KINDS = os.environ.get("TILEWRIGHT_CLUSTER_KINDS", "").split(",")
MOST_BETWEEN = 40
"""Evaluations from a fault to the next one, but for those that meet what recovers from the last."""
MOST_S = 2.0
"""After which those come; they are three of five."""
STANDSTILL_S = 180
"""Without an evaluation, after which nothing more is expected of a search."""


class Search:
    """One search in a process, started again where it was killed or told that a part is away."""

    def __init__(self, project: Path, executor: str) -> None:
        self._project, self._executor, self._log = project, executor, project / "log"
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("wb") as log:  # a pipe that nobody reads would fill
            return subprocess.Popen(
                [
                    *cluster_digits.OPTIMIZE,
                    "--executor",
                    self._executor,
                    "--project",
                    str(self._project),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def has_finished(self) -> bool:
        """Whether it reached its end; one that ended before goes on."""
        status = self.process.poll()
        if status in (None, 0):
            return status == 0
        assert status in (2, -signal.SIGKILL), self.said
        assert "Traceback" not in self.said
        self.process = self._start()
        return False

    @property
    def said(self) -> str:
        return self._log.read_text()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    close = kill


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "plugins"
    cluster_digits.write_entry_points(folder)
    monkeypatch.setenv("PYTHONPATH", cluster_digits.import_path(folder))
    return folder


@pytest.fixture
def cluster(plugins: Path) -> Iterator[DisturbedCluster]:
    from importlib.metadata import version

    from tilewright.cluster.resources import stamp

    versions = {"tilewright": version("tilewright"), "toy": "1"}
    offers = {"cpu": {}, stamp(cluster_digits.create_target(), versions): versions}
    with closing(DisturbedCluster(offers, plugins)) as started:
        yield started


def a_project(server: Server, folder: Path) -> Path:
    folder.mkdir()
    address = server.address(server.new_database())
    (folder / "tilewright.toml").write_text(f'database = "{address}"\n')
    return folder


def crash(server: Server, rng: random.Random) -> None:
    """Kill the database server without a word; it recovers when it is started again."""
    leader = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(leader, signal.SIGKILL)
    time.sleep(rng.uniform(0.5, 1.5))
    for _ in range(50):
        with suppress(AssertionError):
            server.start()
            return
        time.sleep(0.2)
    raise AssertionError("the database server does not start again")


def outcomes(project: Path) -> int:
    from sqlalchemy import func, select

    from tilewright.storage.schema import outcomes as table

    with closing(open_project(project)) as storage, storage._database.read() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


@pytest.mark.timeout(600 + 30 * FAULTS)
def test_faults_at_random_moments(cluster: DisturbedCluster, plugins: Path, tmp_path: Path) -> None:
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    local = Search(undisturbed, "local")
    while not local.has_finished():
        time.sleep(0.1)
    expected, alone = recorded(undisturbed), len(cluster_digits.evaluated(plugins))
    assert len(expected) >= 300
    rng, faults, runs, repeated = random.Random(FAULTS), Counter[str](), 0, 0

    def evaluations() -> int:
        return len(cluster_digits.evaluated(plugins))

    def disturb(search: Search, kinds: dict[str, Callable[[], None]]) -> None:
        """Until it has finished or there were faults enough."""
        before = known = evaluations()
        due, due_s, moved = known, float("inf"), time.monotonic()
        while not search.has_finished():
            cluster.workers.look()
            time.sleep(0.05)
            if evaluations() > known:
                known, moved = evaluations(), time.monotonic()
            assert time.monotonic() - moved < STANDSTILL_S, f"{dict(faults)}, then {search.said}"
            is_due = known >= due or time.monotonic() >= due_s
            if sum(faults.values()) < FAULTS and is_due:
                kind = rng.choice(list(kinds))
                faults[kind] += 1
                print(f"search {runs}, evaluation {known - before}: {kind}", flush=True)
                kinds[kind]()
                moved = time.monotonic()
                due, due_s = known + rng.randrange(1, MOST_BETWEEN), float("inf")
                if rng.random() < 0.6:
                    due_s = moved + rng.uniform(0, MOST_S)

    with running() as server:
        while sum(faults.values()) < FAULTS:
            project = a_project(server, tmp_path / f"disturbed {runs}")
            runs += 1
            before = evaluations()
            with closing(Search(project, f"dask://{cluster.address}")) as search:
                kinds: dict[str, Callable[[], None]] = {
                    "worker killed": lambda: cluster.kill_worker(rng),
                    "worker stopped": lambda: cluster.stop_worker(rng),
                    "scheduler killed": lambda: cluster.kill_scheduler(rng),
                    "network cut": lambda: cluster.cut_network(rng),
                    "clock jumped": lambda: cluster.jump_clock(rng),
                    "search killed": search.kill,
                    "database killed": lambda: crash(server, rng),
                }
                disturb(search, {k: v for k, v in kinds.items() if k in KINDS or KINDS == [""]})
            assert recorded(project) == expected
            assert outcomes(project) == outcomes(undisturbed)
            repeated += evaluations() - before - alone
            assert repeated <= MOST_AHEAD * 2 * sum(faults.values())
    print(
        f"{sum(faults.values())} faults {dict(faults)} in {runs} searches of {len(expected)} "
        f"trials: all as undisturbed; {repeated} evaluations of {alone * runs} begun once more"
    )

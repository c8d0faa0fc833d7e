"""Faults of every part of a cluster at random moments: the run ends as if undisturbed.

Killed are worker processes, the scheduler, the search and the database server; workers are stopped,
too. The environment variable TILEWRIGHT_CLUSTER_FAULTS says how many faults there are; without it
there are none.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import cluster_digits
import pytest
from postgres_server import Server, missing, running
from toy_project import recorded

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

from tilewright.cluster.serving import Workers
from tilewright.core.errors import TilewrightError
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
OPTIMIZE = [
    *(sys.executable, "-m", "tilewright.cli", "optimize", "toy:digits", "--proposer", "toy"),
    *("--seed", "1", "--beam", "6", "--plans", "5", "--implementations", "3", "--dropout", "0"),
    *("--iterations", "9", "--patience", "9", "--stop-within", "0"),
]


def search(project: Path, executor: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*OPTIMIZE, "--executor", executor, "--project", str(project)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Cluster:
    """A scheduler on a port of its own, and two workers that are started again when they end."""

    def __init__(self, offers: dict[str, dict[str, str]]) -> None:
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._scheduler = self._start()
        self.workers = Workers(f"tcp://127.0.0.1:{self.port}", 2, offers, hang_s=8)

    def _start(self) -> subprocess.Popen[bytes]:
        options = ["--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard"]
        return subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_scheduler", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "6 s"},
        )

    def kill_scheduler(self, rng: random.Random) -> None:
        self._scheduler.kill()
        self._scheduler.wait()
        time.sleep(rng.uniform(0, 1))
        self._scheduler = self._start()

    def kill_worker(self, rng: random.Random) -> None:
        if self.workers.pids:
            os.kill(rng.choice(self.workers.pids), signal.SIGKILL)

    def stop_worker(self, rng: random.Random) -> None:
        """One that hangs for good."""
        if self.workers.pids:
            os.kill(rng.choice(self.workers.pids), signal.SIGSTOP)

    def close(self) -> None:
        self.workers.close()
        self._scheduler.kill()
        self._scheduler.wait()


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    from importlib.metadata import version

    from tilewright.cluster.offers import stamp

    cluster_digits.write_entry_points(tmp_path / "plugins")
    monkeypatch.setenv("PYTHONPATH", cluster_digits.import_path(tmp_path / "plugins"))
    versions = {"tilewright": version("tilewright"), "toy": "1"}
    offers = {"cpu": {}, stamp(cluster_digits.create_target(), versions): versions}
    with closing(Cluster(offers)) as started:
        yield started


@contextmanager
def a_project(server: Server, folder: Path) -> Iterator[Path]:
    folder.mkdir()
    address = server.address(server.new_database())
    (folder / "tilewright.toml").write_text(f'database = "{address}"\n')
    yield folder


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


@pytest.mark.timeout(300 + 30 * FAULTS)
def test_faults_at_random_moments(cluster: Cluster, tmp_path: Path) -> None:
    executor = f"dask://127.0.0.1:{cluster.port}"
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    local = search(undisturbed, "local")
    output, _ = local.communicate()
    assert local.returncode == 0, output
    expected = recorded(undisturbed)
    assert len(expected) >= 300
    rng, faults, runs = random.Random(FAULTS), Counter[str](), 0
    with running() as server:
        while sum(faults.values()) < FAULTS:
            with a_project(server, tmp_path / f"disturbed {runs}") as project:
                runs += 1
                process = search(project, executor)
                kinds: dict[str, Callable[[], None]] = {
                    "worker killed": lambda: cluster.kill_worker(rng),
                    "worker stopped": lambda: cluster.stop_worker(rng),
                    "scheduler killed": lambda: cluster.kill_scheduler(rng),
                    "search killed": lambda: process.kill(),  # noqa: B023
                    "database killed": lambda: crash(server, rng),
                }
                while True:
                    until = time.monotonic() + rng.uniform(0.5, 4)
                    while time.monotonic() < until and process.poll() is None:
                        cluster.workers.look()
                        time.sleep(0.05)
                    if process.poll() == 0:
                        break
                    if process.poll() is not None:  # killed, or told that something went away
                        output, _ = process.communicate()
                        assert process.returncode in (2, -signal.SIGKILL), output
                        assert "Traceback" not in output
                        process = search(project, executor)
                        continue
                    if sum(faults.values()) < FAULTS:
                        kind = rng.choice(list(kinds))
                        kinds[kind]()
                        faults[kind] += 1
                with suppress(TilewrightError):
                    process.communicate()
                assert recorded(project) == expected
                assert outcomes(project) == outcomes(undisturbed)
    print(f"{dict(faults)} in {runs} searches of {len(expected)} trials: all as undisturbed")

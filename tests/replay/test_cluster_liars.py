"""One worker of a cluster does harm: the run is that of an honest cluster.

Runs if the environment variable TILEWRIGHT_CLUSTER_FAULTS is set. `-s` shows how long each took.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path

import cluster_digits
import pytest
from toy_project import recorded

pytest.importorskip("distributed", reason="needs dask.distributed: install the extra cluster")

import lying_worker
from disturbed_cluster import DisturbedCluster

from tilewright.cluster.resources import stamp

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "TILEWRIGHT_CLUSTER_FAULTS" not in os.environ,
        reason="takes minutes: set TILEWRIGHT_CLUSTER_FAULTS",
    ),
]

LONGEST_S = 180


@contextmanager
def worker(
    harm: str, host: str, cluster: DisturbedCluster, offers: object, folder: Path
) -> Iterator[Path]:
    """A worker that does this harm, in a session of its own; the file with its messages."""
    script = str(Path(lying_worker.__file__))
    command = [sys.executable, script, harm, host, f"tcp://{cluster.address}", json.dumps(offers)]
    log = folder / f"messages to {host}"
    process = subprocess.Popen(
        command,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "LYING_WORKER_LOG": str(log)},
    )
    try:
        yield log
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("plugins") / "plugins"
    cluster_digits.write_entry_points(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", cluster_digits.import_path(folder))
        yield folder


@pytest.fixture(scope="module")
def offers() -> dict[str, dict[str, str]]:
    versions = {"tilewright": version("tilewright"), "toy": "1"}
    return {"cpu": {}, stamp(cluster_digits.create_target(), versions): versions}


def searched(project: Path, executor: str) -> str:
    """What a search of a few seconds prints; it must succeed."""
    project.mkdir()
    command = [*cluster_digits.SHORT, "--executor", executor, "--project", str(project)]
    ended = subprocess.run(
        command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LONGEST_S
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


@pytest.mark.timeout(3 * LONGEST_S)
@pytest.mark.parametrize("harm", lying_worker.HARMS)
def test_one_worker_changes_nothing(
    harm: str, plugins: Path, offers: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    searched(tmp_path / "alone", "local")
    with (
        closing(DisturbedCluster(offers, plugins)) as cluster,
        worker("none", "127.0.0.2", cluster, offers, tmp_path) as honest,
        worker(harm, "127.0.0.3", cluster, offers, tmp_path) as lying,
    ):
        time.sleep(6)
        start = time.monotonic()
        searched(tmp_path / "with a liar", f"dask://{cluster.address}")
        took_s = time.monotonic() - start
    counts = [len(file.read_text().splitlines()) for file in (honest, lying)]
    print(f"{harm}: {took_s:.1f} s, {counts[0]} and {counts[1]} messages")
    assert counts[1] > 0
    assert recorded(tmp_path / "with a liar") == recorded(tmp_path / "alone")

"""A search whose database is on a server: killed, or left by its server, it ends as undisturbed."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import Server, missing, running
from test_kill import killed
from toy_project import recorded, start
from toy_run import SETTINGS

from tilewright import run, session
from tilewright.core import plugins, tasks
from tilewright.core.config import Settings
from tilewright.core.roles import Storage
from tilewright.core.tasks import OpenTask
from tilewright.testing.toy import ToyExecutor, ToyProposer, ToyTarget

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "a server can be started"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def project(server: Server, tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    address = server.address(server.new_database())
    (folder / "tilewright.toml").write_text(f'database = "{address}"\n')
    return folder


def wait_for(process: subprocess.Popen[str], log: Path, lines: int) -> None:
    while not (log.exists() and log.read_text().count("\n") >= lines):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)


OPEN = """
SELECT a.state, a.query, l.mode, l.locktype FROM pg_stat_activity a LEFT JOIN pg_locks l USING (pid)
WHERE a.xact_start IS NOT NULL AND a.datname <> 'postgres'
"""
"""The open transactions of all databases, with their locks."""


def test_no_row_is_locked_during_an_evaluation(
    server: Server, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An evaluation may take minutes, for which all other searches would wait."""
    times = 0

    def wait_until_nothing_is_open(source: str) -> None:
        nonlocal times
        times += 1
        over_s = time.monotonic() + 20  # the thread of the search may be writing now
        while found := server.sql(OPEN):
            assert time.monotonic() < over_s, found

    def create_executor(
        opened: OpenTask, settings: object, workers: int | None, storage: Storage | None
    ) -> ToyExecutor:
        assert storage is not None
        return ToyExecutor(
            lookup=storage.cached_outcome,
            store=storage.store_outcome,
            on_evaluated=wait_until_nothing_is_open,
        )

    monkeypatch.setattr(tasks, "load_target", lambda name: ToyTarget())
    monkeypatch.setattr(plugins, "load_proposer", lambda name: ToyProposer())
    monkeypatch.setattr(session, "create_executor", create_executor)
    settings = Settings(seed=1, **{**SETTINGS, "iterations": 2})
    assert run.optimize("toy:digits", settings, project=project).status == "finished"
    assert times >= 10


def finished(process: subprocess.Popen[str]) -> None:
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    assert output.startswith("finished")


def test_killed_at_random_moments(project: Path, tmp_path: Path) -> None:
    undisturbed = start(tmp_path / "undisturbed", 0, 0.0)  # in a file
    rng = random.Random(0)
    lines, kills = 0, 0
    while True:
        lines += rng.randint(8, 14)
        process = start(project, 0, 0.1)  # long enough to be killed on a busy machine
        if not killed(process, project / "log", lines, rng.uniform(0, 0.04)):
            break
        kills += 1
    finished(process)
    assert kills >= 2
    finished(undisturbed)
    assert recorded(project) == recorded(tmp_path / "undisturbed")
    evaluated = (project / "log").read_text().splitlines()
    assert len(evaluated) == len(set(evaluated))


def test_the_server_goes_away_and_comes_back(server: Server, project: Path, tmp_path: Path) -> None:
    undisturbed = start(tmp_path / "undisturbed", 1, 0.0)
    process = start(project, 1, 0.05)
    wait_for(process, project / "log", 10)
    server.stop()
    try:
        _, errors = process.communicate()
    finally:
        server.start()
    assert process.returncode == 1
    assert "StorageUnavailableError: PostgreSQL database" in errors.splitlines()[-1]
    assert "continues where it stopped" in errors.splitlines()[-1]
    finished(start(project, 1, 0.0))
    finished(undisturbed)
    assert recorded(project) == recorded(tmp_path / "undisturbed")
    evaluated = (project / "log").read_text().splitlines()
    assert len(evaluated) == len(set(evaluated))
    assert not list(project.glob(".tilewright/unsent/*/*"))


def test_two_processes_on_one_run(project: Path, tmp_path: Path) -> None:
    other = tmp_path / "another machine's"
    other.mkdir()
    (other / "tilewright.toml").write_text((project / "tilewright.toml").read_text())
    first = start(project, 0, 2.0)
    try:
        wait_for(first, project / "log", 1)
        _, errors = start(other, 0, 2.0).communicate()
        assert f"StorageError: process {first.pid} on" in errors
    finally:
        first.kill()
        first.communicate()

"""The live page of a project on a PostgreSQL server: stopping runs, and a server that goes away."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from postgres_server import Server, missing, running

from tilewright.core.errors import InputError
from tilewright.serve import control
from tilewright.storage.project import open_project
from tilewright.testing.runs import history, run_record

from .conftest import Client, store

TOY_RUN = Path(__file__).parents[2] / "replay" / "toy_run.py"
pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a server can be started")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def project(server: Server, tmp_path: Path) -> Path:
    address = server.address(server.new_database())
    (tmp_path / "tilewright.toml").write_text(f'database = "{address}"\n')
    return tmp_path


@pytest.mark.slow
def test_stop_reaches_a_search_that_shares_only_the_database(project: Path) -> None:
    """The search runs in another project folder, as on another machine, and is resumed there."""
    other = project / "other"
    other.mkdir()
    (other / "tilewright.toml").write_text((project / "tilewright.toml").read_text())
    log = project / "log"
    process = search(other, log, delay_s=0.5)
    while not (log.exists() and log.read_text().count("\n") > 3):
        assert process.poll() is None
        time.sleep(0.05)
    with closing(open_project(project)) as storage:
        (run,) = storage.runs()
    control.stop(project, run)
    assert process.communicate(timeout=120)[0] == "interrupted: the user interrupted the search\n"
    with closing(open_project(project)) as storage:
        (run,) = storage.runs()
    with pytest.raises(InputError, match="is not running"):
        control.stop(project, run)
    assert search(other, log, delay_s=0.0).communicate(timeout=120)[0].startswith("finished")
    evaluated = log.read_text().splitlines()
    assert len(set(evaluated)) == len(evaluated), "nothing was evaluated twice"


def search(project: Path, log: Path, delay_s: float) -> subprocess.Popen[str]:
    """A search for the toy kernel in a process of its own."""
    command = [sys.executable, str(TOY_RUN), str(project), "0", str(delay_s), str(log)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize(
    ("path", "news"), [("/events", "changed"), ("/runs/3fa94c10/events", "news")]
)
def test_a_server_that_goes_away_is_told_and_so_is_its_return(
    server: Server, project: Path, served: Callable[..., Client], path: str, news: str
) -> None:
    run = store(project, history(3, lines=8), run_record(status="running"))
    client = served(project)

    async def told() -> str:
        stream = asyncio.create_task(client.answer(path))
        await asyncio.sleep(0.5)
        await asyncio.to_thread(server.stop)
        await until(lambda: bool(client.changes.away))
        page = await client.answer(f"/runs/{run.id}")
        assert page.status == 503
        assert "cannot be reached" in page.text
        await asyncio.to_thread(server.start)
        await until(lambda: not client.changes.away)
        await asyncio.sleep(0.5)
        await client.changes.end()
        return (await asyncio.wait_for(stream, 10)).text

    parts = asyncio.run(told()).split("\n\n")
    away = next(n for n, part in enumerate(parts) if part.startswith("event: away"))
    assert "PostgreSQL database" in parts[away]
    assert any(part.startswith(f"event: {news}\n") for part in parts[away:])


async def until(is_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_true():
            await asyncio.sleep(0.02)

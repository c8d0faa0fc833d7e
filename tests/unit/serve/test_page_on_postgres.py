"""The live page of a project on a PostgreSQL server: stopping runs, and a server that goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from postgres_server import Server, missing, running

from tilewright.core.errors import InputError
from tilewright.serve import control
from tilewright.storage.project import run_lock
from tilewright.testing.runs import history, run_record

from .conftest import Client, store
from .test_page_control import needs_proc, press, worker

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


@needs_proc
def test_stop_interrupts_the_process_that_works_on_the_run(
    project: Path, served: Callable[..., Client]
) -> None:
    run = store(project, history(3, lines=8), run_record(status="running"))
    client = served(project)
    with worker(project, run) as process:
        assert run_lock(project, run.identity).holder() == process.pid
        assert press(client, f"/runs/{run.id}/stop")[0] == 303
        assert process.communicate(timeout=20)[0] == "interrupted\n"
    status, text = press(client, f"/runs/{run.id}/stop")
    assert status == 400
    assert "is not running" in text


@needs_proc
def test_a_process_of_another_folder_is_named_and_left_alone(project: Path) -> None:
    run = store(project, history(3, lines=8), run_record(status="running"))
    other = project / "other"
    other.mkdir()
    (other / "tilewright.toml").write_text((project / "tilewright.toml").read_text())
    with (
        worker(other, run) as process,
        pytest.raises(InputError, match=f"process {process.pid} on .* cannot be identified"),
    ):
        control.stop(project, run)


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

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from tilewright.core.records import History, RunRecord
from tilewright.storage.project import open_overview, open_project
from tilewright.testing.runs import history, run_record

pytest.importorskip("starlette", reason="the extra `serve` is not installed")

from tilewright.serve.access_control import Access
from tilewright.serve.app import create_app
from tilewright.serve.changes import Changes
from tilewright.serve.project import ServedProject

TOKEN = "a-token-of-the-test"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes
    parts: int
    """In which the body came."""

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """Sends requests to the application, without a server between."""

    def __init__(self, folder: Path, *, read_only: bool = False, token: str | None = TOKEN) -> None:
        self.project = ServedProject(folder, open_overview(folder))
        self.access = Access(token, 8123)
        self.changes = Changes(self.project.overview)
        self.app = create_app(self.project, self.access, self.changes, read_only=read_only)
        self.cookie = f"{self.access.cookie}={token}"

    def ask(
        self, path: str, method: str = "GET", body: bytes = b"", **headers: str | None
    ) -> Answer:
        """`headers` by name, `_` for `-`; None leaves one out that would be there."""
        return asyncio.run(self.answer(path, method, body, **headers))

    async def answer(
        self, path: str, method: str = "GET", body: bytes = b"", **headers: str | None
    ) -> Answer:
        """The whole answer, as `ask` gives it."""
        given: dict[str, str | None] = {"host": "127.0.0.1:8123", "cookie": self.cookie}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        return await self._asked(path, method, body, given)

    async def _asked(
        self, path: str, method: str, body: bytes, headers: Mapping[str, str | None]
    ) -> Answer:
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(k.encode(), v.encode()) for k, v in headers.items() if v is not None],
            "server": ("127.0.0.1", 8123),
            "client": ("127.0.0.1", 50000),
        }
        sent: list[dict] = []
        given = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict:
            if not given:  # the connection stays open, and nothing more comes
                await asyncio.Event().wait()
            return given.pop()

        async def send(message: dict) -> None:
            sent.append(message)

        await self.app(scope, receive, send)
        answered = {k.decode().lower(): v.decode() for k, v in sent[0]["headers"]}
        bodies = [body for message in sent[1:] if (body := message.get("body", b""))]
        return Answer(sent[0]["status"], answered, b"".join(bodies), len(bodies))


def store(folder: Path, trials: History, run: RunRecord | None = None) -> RunRecord:
    """Write a run and its trials into the project."""
    run = run or run_record()
    with closing(open_project(folder, create=True)) as storage:
        storage.create_run(run)
        for trial in trials:
            storage.append_trial(run.id, trial)
    return run


@pytest.fixture
def served() -> Iterator[Callable[..., Client]]:
    """Makes clients of projects, and releases their databases."""
    made: list[Client] = []

    def make(folder: Path, **options: object) -> Client:
        made.append(Client(folder, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for client in made:
        client.project.overview.close()


@pytest.fixture
def client(tmp_path: Path, served: Callable[..., Client]) -> Client:
    """A project with one finished run of 40 trials."""
    store(tmp_path, history(40, lines=12))
    return served(tmp_path)

"""A database is copied whole, from a file to a server and back, or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres_server import Server, missing, running
from sqlalchemy import make_url, select

from tilewright.core.errors import ConfigurationError, StorageError
from tilewright.core.records import Candidate, Failed, RunRecord, Trial
from tilewright.storage.copying import copy_database, database_of
from tilewright.storage.database import Database
from tilewright.storage.schema import metadata
from tilewright.storage.sql import SqlStorage


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if missing():
        pytest.skip(missing())
    with running() as started:
        yield started


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """More rows than are copied at a time, bytes, and text that is no ASCII."""
    file = tmp_path / "old" / "tilewright.db"
    file.parent.mkdir()
    storage = SqlStorage(Database(file))
    for number in range(2):
        run = f"run{number}"
        storage.create_run(RunRecord(run, "toy:digits", "toy", {"seed": number}, {"toy": "1"}, "t"))
        for index in range(300 if number else 1):
            outcome = Failed("check", "wrong_result", "ä\N{SNOWMAN}\0", line=index)
            storage.append_trial(run, Trial(index, index, Candidate(f"source {index}"), outcome))
            storage.store_outcome(f"key {number} {index}", outcome)
        storage.append_event(run, "Stopped", {"reason": "done"})
    storage.put_artifact(bytes(range(256)) * 40, "binary")
    storage.close()
    return file


def rows(place: object) -> dict[str, list[tuple[object, ...]]]:
    database = Database(place)  # type: ignore[arg-type]
    with database.read() as connection:
        found = {
            table.name: [
                tuple(row) for row in connection.execute(select(table).order_by(*table.primary_key))
            ]
            for table in metadata.sorted_tables
        }
    database.close()
    return found


def test_to_a_server_and_back(server: Server, filled: Path, tmp_path: Path) -> None:
    address = database_of(server.address(server.new_database()))
    counts = copy_database(filled, address)
    assert counts["trials"] == counts["outcomes"] == 301
    assert rows(address) == rows(filled)
    back = tmp_path / "new" / "tilewright.db"
    assert copy_database(address, back) == counts
    assert rows(back) == rows(filled)
    for place in (address, back):  # further rows are numbered after the copied ones
        storage = SqlStorage(Database(place))
        storage.append_event("run0", "Stopped", {"reason": "again"})
        assert [data["reason"] for _, _, data in storage.events("run0")] == ["done", "again"]
        storage.close()


def test_nothing_is_mixed(filled: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    copy_database(filled, other)
    before = rows(other)
    with pytest.raises(StorageError, match="already contains"):
        copy_database(filled, other)
    assert rows(other) == before


def test_what_cannot_be_copied(tmp_path: Path, filled: Path) -> None:
    with pytest.raises(StorageError, match="does not exist"):
        copy_database(tmp_path / "none.db", tmp_path / "new.db")
    assert not (tmp_path / "none.db").exists()
    with pytest.raises(StorageError, match="same database"):
        copy_database(filled, filled)
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)
    with pytest.raises(StorageError):
        copy_database(tmp_path / "broken.db", tmp_path / "new.db")


def test_names_of_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_DATABASE", raising=False)
    assert database_of(str(tmp_path)) == tmp_path / ".tilewright" / "tilewright.db"
    assert database_of("a/b.db") == Path("a/b.db")
    (tmp_path / "tilewright.toml").write_text('database = "postgresql://me@host/name"\n')
    assert database_of(str(tmp_path)) == make_url("postgresql+psycopg://me@host/name")
    for secret in ("postgresql://me:pw@host/d", "postgresql://me@host/d?password=pw"):
        with pytest.raises(ConfigurationError, match="password") as refused:
            database_of(secret)
        assert "pw" not in str(refused.value)
    with pytest.raises(ConfigurationError, match="Write postgresql"):
        database_of("mysql://host/d")

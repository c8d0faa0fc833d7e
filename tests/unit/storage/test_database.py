"""A project database that is new, old, newer, foreign, corrupt, locked or not writable."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tilewright.core.errors import StorageError
from tilewright.core.records import Outcome
from tilewright.storage import database, migrate, sqlite
from tilewright.storage.database import Database
from tilewright.storage.project import open_overview, open_project, run_lock
from tilewright.storage.schema import metadata
from tilewright.testing.storage import BOUND, FAILED, MEASURED, run_record, trial

MIGRATIONS = Path(migrate.__file__).parent / "migrations"
REVISIONS = sorted(r.revision for r in ScriptDirectory(str(MIGRATIONS)).walk_revisions())


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Database file of a project with one run of one trial."""
    storage = open_project(tmp_path)
    storage.create_run(run_record())
    storage.append_trial("run-1", trial(0))
    storage.close()
    return tmp_path / ".tilewright" / "tilewright.db"


def test_the_database_uses_a_write_ahead_log(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_new_database_has_the_schema_without_migrations(tmp_path: Path) -> None:
    opened = Database(tmp_path / "a.db")
    assert migrated(opened) == (migrate.HEAD, [])


def migrated(opened: Database) -> tuple[str | None, list[object]]:
    """The revision a database is at, and in what it differs from the newest schema."""
    with opened.read() as connection:
        difference = compare_metadata(MigrationContext.configure(connection), metadata)
        return migrate.schema_version(connection), list(difference)


def test_the_newest_revision_is_the_one_the_code_names() -> None:
    assert REVISIONS[-1] == migrate.HEAD
    assert [f"{i + 1:04}" for i in range(len(REVISIONS))] == REVISIONS


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_earlier_schema_is_upgraded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revision: str
) -> None:
    with monkeypatch.context() as patch:
        upgrade = migrate.migrate
        patch.setattr(database, "migrate", lambda *place: upgrade(*place, revision))
        Database(tmp_path / "a.db").close()
    assert migrated(Database(tmp_path / "a.db")) == (migrate.HEAD, [])


@pytest.mark.parametrize("dump", sorted(Path(__file__).parent.glob("databases/*.sql")))
def test_a_database_of_an_earlier_version_keeps_its_content(tmp_path: Path, dump: Path) -> None:
    folder = tmp_path / ".tilewright"
    folder.mkdir()
    with sqlite3.connect(folder / "tilewright.db") as connection:
        connection.executescript(dump.read_text())
    storage = open_project(tmp_path)
    assert storage.runs() == [run_record()]
    without_samples = replace(MEASURED, samples={})  # which that version did not keep
    assert list(storage.history("run-1")) == [trial(0, without_samples), trial(1, FAILED)]
    assert storage.cached_outcome("key") == BOUND
    assert [kind for _, kind, _ in storage.events("run-1")] == ["started"]
    storage.append_trial("run-1", trial(2))


def test_who_only_reads_changes_no_schema(file: Path, tmp_path: Path) -> None:
    with closing(open_overview(tmp_path, reads_only=True)) as overview:
        assert [found.trials for found in overview.runs()] == [1]
    earlier = tmp_path / "earlier" / ".tilewright"
    earlier.mkdir(parents=True)
    with sqlite3.connect(earlier / "tilewright.db") as connection:
        connection.executescript((Path(__file__).parent / "databases" / "0001.sql").read_text())
    with pytest.raises(StorageError, match=r"has the schema 0001, .* runs list"):
        open_overview(earlier.parent, reads_only=True)
    with sqlite3.connect(earlier / "tilewright.db") as connection:
        (version,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert version == "0001"


def test_an_up_to_date_database_opens_without_alembic(file: Path) -> None:
    script = f"""
        import sys
        from pathlib import Path
        from tilewright.storage.project import open_project
        print(len(open_project(Path({str(file.parent.parent)!r})).runs()), "alembic" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "False"]


def test_an_older_database_is_kept_where_alembic_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ".tilewright"
    folder.mkdir()
    dump = (Path(__file__).parent / "databases" / "0001.sql").read_text()
    with sqlite3.connect(folder / "tilewright.db") as connection:
        connection.executescript(dump)
        before = list(connection.iterdump())
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(StorageError, match=r"earlier tilewright .*0001.*'tilewright\[migrate\]'"):
        open_project(tmp_path)
    with sqlite3.connect(folder / "tilewright.db") as connection:
        assert list(connection.iterdump()) == before


def test_opening_at_the_same_time_creates_one_database(tmp_path: Path) -> None:
    script = f"from tilewright.storage.project import *; open_project(Path({str(tmp_path)!r}))"
    processes = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(4)]
    assert [process.wait() for process in processes] == [0] * 4


def test_a_newer_database_is_refused(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StorageError, match=r"newer tilewright .*9999.*Upgrade"):
        Database(file)


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    with pytest.raises(StorageError, match="another program"):
        Database(file)
    with sqlite3.connect(file) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
    assert tables == [("recipes",)]


def test_a_text_file_is_not_a_database(tmp_path: Path) -> None:
    file = tmp_path / "a.db"
    file.write_text("This is not a database. " * 100)
    with pytest.raises(StorageError, match="not a readable tilewright database"):
        Database(file)


def test_a_damaged_database_is_reported(file: Path) -> None:
    size = file.stat().st_size
    with file.open("r+b") as stream:
        stream.seek(4096)
        stream.write(os.urandom(size - 4096))
    with pytest.raises(StorageError, match=r"tilewright.db (is not a readable|cannot be used)"):
        open_project(file.parent.parent).history("run-1")


@pytest.mark.parametrize(
    ("column", "value"),
    [("outcome", "{not json"), ("outcome", '{"type": "Failed", "from": "the future"}')],
)
def test_a_damaged_record_is_reported(file: Path, column: str, value: str) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(f"UPDATE trials SET {column} = ?", (value,))
    with pytest.raises(StorageError, match="a stored record cannot be read"):
        open_project(file.parent.parent).history("run-1")


def test_a_damaged_artifact_is_reported(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE artifacts SET data = X'00'")
    with pytest.raises(StorageError, match="damaged"):
        open_project(file.parent.parent).history("run-1")


def test_a_locked_database_is_reported(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.1)
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        with pytest.raises(StorageError, match="locked by another program"):
            open_project(file.parent.parent).create_run(run_record("run-2"))
    finally:
        holder.close()


def test_a_full_disk_is_reported(file: Path) -> None:
    def fill(database: Database) -> None:
        with database.write() as connection:
            connection.exec_driver_sql("PRAGMA max_page_count = 1")  # as many as there are
            blob = "INSERT INTO artifacts VALUES ('digest', 'kind', 1, zeroblob(9999999))"
            connection.exec_driver_sql(blob)

    with pytest.raises(StorageError, match=r"disk of .* is full"):
        fill(Database(file))
    assert len(open_project(file.parent.parent).history("run-1")) == 1


@pytest.mark.parametrize(
    ("outcome", "latency"), [(FAILED, None), (replace(MEASURED, latency=77.0), 77.0)]
)
def test_the_column_of_latencies_follows_an_amended_outcome(
    tmp_path: Path, file: Path, outcome: Outcome, latency: float | None
) -> None:
    storage = open_project(tmp_path)
    storage.amend_trial("run-1", 0, outcome)
    storage.close()
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT latency FROM trials").fetchall() == [(latency,)]


def test_a_reader_does_not_wait_for_a_writer(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = sqlite3.connect(file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        assert len(open_project(file.parent.parent).history("run-1")) == 1
    finally:
        holder.close()


def test_a_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be created"):
        open_project(tmp_path / "file")


def test_a_folder_without_runs_is_reported_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="contains no runs of tilewright"):
        open_project(tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("part", [".tilewright", ".tilewright/tilewright.db"])
def test_a_read_only_database_is_reported(part: str) -> None:
    with tempfile.TemporaryDirectory() as folder:  # unlike tmp_path, below no private folder
        project = Path(folder)
        open_project(project).close()
        for path in [project, *project.rglob("*")]:
            path.chmod(0o777 if path.is_dir() else 0o666)
        if part == ".tilewright":
            (project / ".tilewright" / "tilewright.db").chmod(0o444)
        (project / part).chmod(0o555 if part == ".tilewright" else 0o444)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(_WRITE_UNPRIVILEGED), folder],
            capture_output=True,
            text=True,
        )
    assert "cannot be written" in done.stdout, done.stderr


_WRITE_UNPRIVILEGED = """
    import os, sqlite3, sys
    from pathlib import Path
    from tilewright.core.errors import StorageError
    from tilewright.storage.project import open_project
    from tilewright.testing.storage import run_record
    if os.getuid() == 0:
        os.setuid(65534)  # permissions do not bind root
    try:
        open_project(Path(sys.argv[1])).create_run(run_record("run-2"))
    except StorageError as error:
        print(error)
"""


def test_a_run_lock_excludes_other_processes_and_ends_with_its_own(tmp_path: Path) -> None:
    script = f"""
        import time
        from pathlib import Path
        from tilewright.storage.project import run_lock
        with run_lock(Path({str(tmp_path)!r}), "identity"):
            print("held", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    message = f"process {process.pid} is already working on this run"
    with pytest.raises(StorageError, match=message), run_lock(tmp_path, "identity"):
        pass
    with run_lock(tmp_path, "another"):
        pass
    process.kill()
    process.wait()
    with run_lock(tmp_path, "identity"):
        pass


def test_asking_whether_a_run_lock_is_held_keeps_nobody_from_taking_it(tmp_path: Path) -> None:
    lock = run_lock(tmp_path, "identity")
    assert not lock.is_held()
    with lock:
        assert lock.is_held()
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            lock.is_held()

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for _ in range(500):
            with run_lock(tmp_path, "identity"):
                pass
    finally:
        over.set()
        asking.join()

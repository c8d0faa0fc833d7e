"""The database on a real PostgreSQL server: contract, locks, migrations, and its errors."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from postgres_server import Server, missing, running
from sqlalchemy import make_url

from tilewright.core.errors import (
    ConfigurationError,
    InputError,
    StorageError,
    StorageUnavailableError,
    ToolchainMissingError,
)
from tilewright.core.records import CallRecord
from tilewright.core.secrets import without_secrets
from tilewright.core.tuning_records import TunedTrial, TuningRecord
from tilewright.storage import database as database_module
from tilewright.storage import migrate
from tilewright.storage.database import Database
from tilewright.storage.location import VARIABLE, server_of
from tilewright.storage.postgres import engine, error_of, shown
from tilewright.storage.project import (
    describe_server,
    open_calls,
    open_overview,
    open_project,
    open_tunings,
    run_lock,
)
from tilewright.storage.schema import metadata
from tilewright.testing.storage import (
    BOUND,
    FAILED,
    MEASURED,
    OpenStorage,
    StorageContract,
    run_record,
    trial,
)

needs_server = pytest.mark.skipif(bool(missing()), reason=missing() or "a server can be started")
RUN = TuningRecord("a1", "same", "matmul", "family", (64, 64, 64), "cpu", {"seed": 0}, {"tvm": "1"})
TRIAL = TunedTrial("k0", {"tiles": [[1, 2]]}, "{}", (2.0, 1.0), 4, None, "", 0.5, 1.0)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as started:
        yield started


@pytest.fixture
def name(server: Server) -> str:
    return server.new_database()


@pytest.fixture
def configure(tmp_path: Path) -> Callable[[str], Path]:
    """Writes an address into a project's configuration; returns the project."""

    def write(address: str) -> Path:
        (tmp_path / "tilewright.toml").write_text(f'database = "{address}"\n')
        return tmp_path

    return write


@pytest.fixture
def project(server: Server, name: str, configure: Callable[[str], Path]) -> Path:
    return configure(server.address(name))


@needs_server
class TestPostgresStorageContract(StorageContract):
    @pytest.fixture
    def open_storage(self, project: Path) -> OpenStorage:
        return lambda: open_project(project)


@needs_server
def test_nothing_is_written_into_a_file(project: Path) -> None:
    storage = open_project(project)
    storage.create_run(run_record())
    storage.close()
    assert not list(project.rglob("*.db"))
    assert open_project(project, create=False).run("latest") == run_record()


@needs_server
def test_a_database_without_runs_is_reported_and_left_alone(
    server: Server, name: str, project: Path
) -> None:
    with pytest.raises(StorageError, match=f"database {name} at .* contains no runs of tilewright"):
        open_project(project, create=False)
    assert server.sql("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", name) == [(0,)]


@needs_server
def test_the_server_is_described_without_creating_anything(
    server: Server, name: str, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    described = describe_server(project) or ""
    assert described.startswith(f"PostgreSQL database {name} at {server.folder}, server version 1")
    with pytest.raises(StorageError, match="contains no runs of tilewright"):
        open_project(project, create=False)
    assert describe_server(tmp_path_factory.mktemp("without")) is None


@needs_server
def test_calls_and_tunings_are_kept(project: Path) -> None:
    storage, tunings = open_project(project), open_tunings(project)
    storage.create_run(run_record("run"))
    calls = open_calls(project)
    call = CallRecord("run", "key", "openai/a", "plan")
    calls.intend(call, {})
    calls.finish(replace(call, state="failed", note="a zero byte: \0"), None)
    assert calls.calls("run")[0].note == "a zero byte: \N{REPLACEMENT CHARACTER}"
    calls.intend(call, {"question": 1})
    calls.finish(replace(call, state="replied", usd=0.5), {"text": "yes"})
    assert calls.exchanges("run") == [("key", {"question": 1}, {"text": "yes"})]
    tunings.start(RUN)
    tunings.add("a1", [TRIAL, replace(TRIAL, key="k1", samples=(), failure="crashed", log="?")])
    tunings.add("a1", [replace(TRIAL, samples=(9.0,))])
    assert [t.samples for t in tunings.trials("a1")] == [(2.0, 1.0), ()]
    tunings.end("a1", "finished", 2.0)
    assert [t.seconds for t in tunings.nearest("family", "cpu", (64, 64, 32))] == [1.5]
    assert [k.run_id for k in tunings.fastest("cpu", (64, 64, 64))] == ["a1"]
    for opened in (storage, calls, tunings):
        opened.close()


@needs_server
@pytest.mark.parametrize("revision", [None, "0001", "0002"])
def test_the_schema_is_the_newest(
    server: Server, name: str, monkeypatch: pytest.MonkeyPatch, revision: str | None
) -> None:
    url = make_url(server.address(name)).set(drivername="postgresql+psycopg")
    if revision is not None:
        with monkeypatch.context() as patch:
            upgrade = migrate.migrate
            patch.setattr(database_module, "migrate", lambda *place: upgrade(*place, revision))
            Database(url).close()
    opened = Database(url)
    with opened.read() as connection:
        assert migrate.schema_version(connection) == migrate.HEAD
        assert not list(compare_metadata(MigrationContext.configure(connection), metadata))
    opened.close()


@needs_server
def test_pages_learn_of_every_write(project: Path) -> None:
    with (
        closing(open_project(project)) as storage,
        closing(open_overview(project)) as overview,
    ):
        tokens = [overview.change_token()]
        storage.create_run(run_record())
        tokens.append(overview.change_token())
        storage.append_trial(run_record().id, trial(0))
        tokens.append(overview.change_token())
        storage.amend_trial(run_record().id, 0, FAILED)
        tokens.append(overview.change_token())
    assert len(set(tokens)) == 4


@needs_server
def test_opening_at_the_same_time_creates_one_database(project: Path) -> None:
    errors: list[BaseException] = []

    def opens() -> None:
        try:
            open_project(project).close()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=opens) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert open_project(project).runs() == []


@needs_server
def test_outcomes_stored_at_the_same_time_keep_the_better_one(project: Path) -> None:
    storage = open_project(project)
    bounds = [replace(BOUND, bound=float(n)) for n in range(1, 21)]
    threads = [
        threading.Thread(target=storage.store_outcome, args=("key", bound)) for bound in bounds
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.cached_outcome("key") == bounds[-1]
    storage.close()


@needs_server
def test_a_run_lock_holds_across_folders_and_ends_with_its_process(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("machine")
    (elsewhere / "tilewright.toml").write_text((project / "tilewright.toml").read_text())
    script = f"""
        import time
        from pathlib import Path
        from tilewright.storage.project import run_lock
        with run_lock(Path({str(project)!r}), "identity"):
            print("held", flush=True)
            time.sleep(60)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    lock = run_lock(elsewhere, "identity")
    assert lock.is_held()
    holder = f"process {process.pid} on {socket.gethostname()} is already working on this run"
    with pytest.raises(StorageError, match=holder), lock:
        pass
    with run_lock(elsewhere, "another") as other:
        assert other.is_held()
    process.kill()
    process.wait()
    process.stdout.close()
    with run_lock(elsewhere, "identity"):
        pass
    assert not lock.is_held()


@needs_server
def test_a_locked_table_is_reported(
    server: Server, project: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psycopg

    open_project(project).close()
    monkeypatch.setenv(VARIABLE, server.address(name) + "&options=-c%20lock_timeout%3D50")
    storage = open_project(project)
    with psycopg.connect(server.address(name)) as holder:
        holder.execute("LOCK TABLE runs")
        with pytest.raises(StorageError, match="locked by another program"):
            storage.create_run(run_record())
    storage.close()


@needs_server
def test_a_newer_or_foreign_database_is_refused(
    server: Server, name: str, project: Path, configure: Callable[[str], Path]
) -> None:
    open_project(project).close()
    server.sql("UPDATE alembic_version SET version_num = '9999'", name)
    with pytest.raises(StorageError, match=rf"database {name} at .* newer tilewright .*9999"):
        open_project(project)
    other = server.new_database()
    server.sql("CREATE TABLE recipes (name TEXT)", other)
    with pytest.raises(StorageError, match=r"another program: choose another database\."):
        open_project(configure(server.address(other)))
    latin = server.new_database("ENCODING 'LATIN1' TEMPLATE template0")
    with pytest.raises(StorageError, match=r"stores text as LATIN1. Create a database with"):
        open_project(configure(server.address(latin)))


@needs_server
def test_refusals_say_who_and_what_and_no_password(
    server: Server, name: str, configure: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server.sql("CREATE ROLE guarded LOGIN PASSWORD 'sesame%1'")

    def refusal(address: str) -> str:
        with pytest.raises(StorageError) as raised:
            open_project(configure(address))
        assert "sesame" not in str(raised.value)
        assert "guess" not in str(raised.value)
        return str(raised.value)

    wrong = refusal(server.address(name, "guarded", "guess"))
    assert "refuses user guarded" in wrong
    assert "PGPASSWORD" in wrong
    assert "refuses user guarded" in refusal(server.address(name, "guarded"))
    assert "knows no such user" in refusal(server.address(name, "nobody-here"))
    assert "create it with `createdb absent`" in refusal(server.address("absent"))
    denied = refusal(server.address(name, "guarded", "sesame%251"))
    assert "does not let user guarded do this" in denied
    assert "GRANT" in denied
    server.sql("GRANT CREATE ON SCHEMA public TO guarded", name)
    open_project(configure(server.address(name, "guarded", "sesame%251"))).close()
    monkeypatch.setenv("PGPASSWORD", "sesame%1")
    open_project(configure(server.address(name, "guarded"))).close()


@needs_server
def test_what_is_measured_while_the_server_is_away_is_stored_later(
    server: Server, project: Path
) -> None:
    storage, tunings = open_project(project), open_tunings(project)
    storage.create_run(run_record())
    storage.store_outcome("stored", MEASURED)
    tunings.start(RUN)
    server.stop()
    try:
        with pytest.raises(StorageUnavailableError, match=r"are kept in .*/unsent/.*next command"):
            storage.store_outcome("key", FAILED)
        with pytest.raises(StorageUnavailableError, match="kept"):
            tunings.add("a1", [TRIAL])
        with pytest.raises(StorageUnavailableError, match="run the same command again"):
            storage.append_trial("run-1", trial(0))
        with pytest.raises(StorageUnavailableError, match="cannot be reached"):
            open_project(project)
        assert len(list(project.glob(".tilewright/unsent/*/*.json"))) == 2
    finally:
        server.start()
        storage.close()
        tunings.close()
    storage, tunings = open_project(project), open_tunings(project)
    assert storage.cached_outcome("stored") == MEASURED
    assert storage.cached_outcome("key") == FAILED
    assert tunings.trials("a1") == [TRIAL]
    assert not list(project.glob(".tilewright/unsent/*/*"))
    storage.close()
    tunings.close()


@needs_server
def test_kept_results_that_cannot_be_read_are_named(server: Server, project: Path) -> None:
    storage = open_project(project)
    server.stop()
    try:
        with pytest.raises(StorageUnavailableError):
            storage.store_outcome("key", FAILED)
    finally:
        server.start()
        storage.close()
    (file,) = project.glob(".tilewright/unsent/*/*.json")
    for text in (
        '{"table": "tuning_trials", "rows": [{"key": "k"}]}',
        '{"table": "x", "rows": []}',
    ):
        file.write_text(text)
        with pytest.raises(StorageError, match=rf"{file.name} contains results .* not be stored"):
            open_project(project)
    file.write_text("{")
    with pytest.raises(StorageError, match=rf"{file.name} contains results .* cannot be read"):
        open_project(project)


def test_the_variable_comes_before_the_file(
    configure: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = configure("postgres://a@file/x")
    url = server_of(project)
    assert url is not None
    assert (url.host, url.drivername) == ("file", "postgresql+psycopg")
    monkeypatch.setenv(VARIABLE, "postgresql+psycopg://b:c@variable:5433/y")
    url = server_of(project)
    assert url is not None
    assert shown(url) == "PostgreSQL database y at variable:5433"
    monkeypatch.setenv(VARIABLE, "")
    (project / "tilewright.toml").unlink()
    assert server_of(project) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('database = "mysql://u:sesame@h/d"', "kind 'mysql'. Write postgresql://"),
        ('database = "sesame:what"', "not an address. Write postgresql://"),
        ('database = "postgresql://u:sesame@h:port/d"', "not an address"),
        ("database = 3", "is not text"),
        ("database = ", "not valid TOML"),
        ('data_base = "postgresql://u:sesame@h/d"', "did you mean 'database'"),
    ],
)
def test_configurations_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "tilewright.toml").write_text(text)
    with pytest.raises(InputError) as raised:
        server_of(tmp_path)
    assert said in str(raised.value)
    assert "tilewright.toml" in str(raised.value)
    assert "sesame" not in str(raised.value)
    assert isinstance(raised.value, ConfigurationError) or "data_base" in text


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ToolchainMissingError, match=r"pip install 'tilewright\[postgres\]'"):
        engine(make_url("postgresql+psycopg://h/d"))


@pytest.mark.parametrize("address", ["postgresql://me:secret@host/name", "sqlite:///file"])
def test_an_address_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match="a project is a folder") as told:
        open_project(Path(address))
    assert "secret" not in str(told.value)
    assert not list(tmp_path.iterdir())


def test_child_processes_do_not_see_addresses_and_passwords() -> None:
    environment = {VARIABLE: "postgresql://u:sesame@h/d", "PGPASSWORD": "sesame", "PGHOST": "h"}
    assert without_secrets(environment) == {"PGHOST": "h"}


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        (
            "25006",
            "cannot execute INSERT in a read-only transaction",
            "is read-only .*writes",
        ),
        ("0A000", "cannot set transaction read-write mode during recovery", "is read-only"),
        ("53100", "could not extend file", "is full .*Free some space"),
        ("42P01", "relation does not exist", "cannot be used"),
    ],
)
def test_what_a_server_refuses(state: str, reason: str, said: str) -> None:
    refusal = OSError(reason)
    refusal.sqlstate = state  # type: ignore[attr-defined]
    error = error_of(make_url("postgresql+psycopg://u@h/d"), refusal)
    assert re.search(said, str(error))
    assert not isinstance(error, StorageUnavailableError)


def test_passwords_in_parameters_are_hidden_too() -> None:
    url = make_url("postgresql+psycopg://u@h/d?password=sesame")
    error = error_of(url, OSError("invalid dsn: password=sesame"))
    assert "sesame" not in str(error)
    assert os.linesep not in str(error)

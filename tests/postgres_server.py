"""A private PostgreSQL server in a temporary folder, reached through a Unix socket only."""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",
    "max_connections": "40",
    "shared_buffers": "8MB",
    "lc_messages": "C",
}
ACCESS = "local all guarded scram-sha-256\nlocal all all trust\n"
"""Everybody but `guarded` comes in without a password."""


def missing() -> str:
    """Why no server can be started here; "" if one can."""
    if importlib.util.find_spec("psycopg") is None:
        return "needs psycopg: install the extra postgres"
    if _program("initdb") is None:
        return "needs PostgreSQL's initdb and pg_ctl"
    return ""


class Server:
    """Databases of a server that this process started."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = (f"d{number}" for number in itertools.count())

    def new_database(self, options: str = "") -> str:
        """The name of a new, empty database."""
        name = next(self._names)
        self.sql(f"CREATE DATABASE {name} {options}")
        return name

    def address(self, database: str, user: str = "tester", password: str = "") -> str:
        """What a project's configuration names it by."""
        secret = f":{password}" if password else ""
        return f"postgresql://{user}{secret}@/{database}?host={self.folder}"

    def sql(self, command: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one command as the server's owner; its rows, if it has any."""
        import psycopg

        address = self.address(database)
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(command.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        self._control("start", "-o", f"-k {self.folder}")

    def stop(self) -> None:
        """End every session at once."""
        self._control("stop", "-m", "fast")

    def _control(self, command: str, *options: str) -> None:
        data = self.folder / "data"
        _run("pg_ctl", command, "-w", "-t", "120", "-D", data, "-l", self.folder / "log", *options)


@contextmanager
def running() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="tw-pg-", dir="/tmp") as name:  # a short socket path
        folder = Path(name)
        if os.getuid() == 0:
            os.chown(folder, _account().pw_uid, _account().pw_gid)
        data = folder / "data"
        folder.chmod(0o755)
        _run("initdb", "--no-sync", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", data)
        (data / "pg_hba.conf").write_text(ACCESS)
        with (data / "postgresql.conf").open("a") as stream:
            stream.writelines(f"{name} = {value}\n" for name, value in SETTINGS.items())
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _run(program: str, *arguments: object) -> None:
    """The server refuses to run as root: it belongs to an account without rights then."""
    path = _program(program)
    assert path is not None
    account = {}
    if os.getuid() == 0:
        account = {"user": _account().pw_uid, "group": _account().pw_gid, "extra_groups": []}
    done = subprocess.run(
        [path, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if program == "initdb" else subprocess.DEVNULL,
        text=True,
        cwd="/",
        **account,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, f"{program}: {done.stderr or 'see its log'}"


def _account() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _program(name: str) -> str | None:
    installed = sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))
    return shutil.which(name) or (installed[-1] if installed else None)

"""Finds the database of a project, which is an SQLite file or a database on a PostgreSQL server."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from tilewright.core.errors import ConfigurationError, UnknownNameError
from tilewright.core.files import read_toml

CONFIGURATION = "tilewright.toml"
VARIABLE = "TILEWRIGHT_DATABASE"
_SETTING = "database"
_ADDRESS = re.compile(r"[a-z0-9+]+:/", re.IGNORECASE)
"""An address in the form of a path, in which one of two slashes is missing."""


def server_of(project: Path) -> URL | None:
    """The address of the database server that a project names; None if the project uses an SQLite
    file.

    The environment variable `VARIABLE` takes precedence over the setting `database` of the
    project's `CONFIGURATION`. Raises `ConfigurationError` for anything but a PostgreSQL address,
    and for an address instead of the folder. The message does not contain the address, which may
    include a password.
    """
    if _ADDRESS.match(str(project)):
        raise ConfigurationError(
            "a project is a folder, not the address of a database. Give a folder, and name the "
            f'address in its {CONFIGURATION} ({_SETTING} = "ADDRESS") or in {VARIABLE}.'
        )
    named_by, address = VARIABLE, os.environ.get(VARIABLE, "")
    if not address:
        named_by, address = str(project / CONFIGURATION), _configured(project / CONFIGURATION)
    if not address:
        return None
    try:
        url = make_url(address)
    except (ArgumentError, ValueError):
        raise ConfigurationError(
            f"the database in {named_by} is not an address. Write "
            "postgresql://USER@HOST/DATABASE, with special characters of a password as %XX."
        ) from None
    from tilewright.storage.postgres import require_postgresql

    return require_postgresql(url, named_by)


def _configured(file: Path) -> str:
    try:
        settings = read_toml(file)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}.") from error
    for name in settings:
        if name != _SETTING:
            raise UnknownNameError(f"setting of {file}", name, [_SETTING])
    address = settings.get(_SETTING, "")
    if not isinstance(address, str):
        raise ConfigurationError(
            f"{_SETTING} in {file} is not text. Write "
            f'{_SETTING} = "postgresql://USER@HOST/DATABASE".'
        )
    return address

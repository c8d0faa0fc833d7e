"""Results measured while the database server was away, in the project folder until it is back."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.core.errors import StorageError, StorageUnavailableError

Rows = Sequence[Mapping[str, Any]]


class Unsent:
    """Files of `folder`, one per write that failed; sending one twice must be harmless."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, table: str, rows: Rows) -> Path:
        """Write the rows of a table, whole or not at all; returns the file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{time.time_ns()}-{secrets.token_hex(4)}.json"
        unfinished = file.with_suffix(".new")
        with unfinished.open("w") as stream:
            json.dump({"table": table, "rows": list(rows)}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        return unfinished.replace(file)

    def send(self, store: Callable[[str, Rows], None]) -> None:
        """Hand every file's table and rows to `store`, oldest first, and forget those it took."""
        for file in sorted(self._folder.glob("*.json")):
            try:
                kept = json.loads(file.read_text())
                table, rows = kept["table"], kept["rows"]
            except FileNotFoundError:  # another process sent it
                continue
            except (ValueError, KeyError, TypeError, OSError) as error:
                raise StorageError(
                    f"{file} contains results that were not stored yet and cannot be read "
                    f"({error}). Repair it, or delete it to measure them again."
                ) from error
            try:
                store(table, rows)
            except StorageUnavailableError:
                raise
            except StorageError as error:
                raise StorageError(
                    f"{file} contains results that could not be stored ({error}). Delete it to "
                    "measure them again."
                ) from error
            file.unlink(missing_ok=True)

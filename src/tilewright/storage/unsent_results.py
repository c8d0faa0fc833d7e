"""Files in the project folder with results that were measured while the database server was
unavailable.
"""

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


class UnsentResults:
    """The files in `folder`, one for each failed write. Storing a file twice must have no
    effect.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, table: str, rows: Rows) -> Path:
        """Write the rows of a table to a file, completely or not at all, and return the file."""
        self._folder.mkdir(parents=True, exist_ok=True)
        file = self._folder / f"{time.time_ns()}-{secrets.token_hex(4)}.json"
        unfinished = file.with_suffix(".new")
        with unfinished.open("w") as stream:
            json.dump({"table": table, "rows": list(rows)}, stream)
            stream.flush()
            os.fsync(stream.fileno())
        return unfinished.replace(file)

    def send(self, store: Callable[[str, Rows], None]) -> None:
        """Pass the table and the rows of each file to `store`, oldest first, and delete the files
        that were stored.
        """
        for file in sorted(self._folder.glob("*.json")):
            try:
                kept = json.loads(file.read_text())
                table, rows = kept["table"], kept["rows"]
            except FileNotFoundError:  # another process has already stored the results
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

"""Files with one JSON object per line, which remain valid if the writing process is killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.core.errors import InputError
from tilewright.core.files import read_bytes

MOST_BYTES = 256 << 20
"""Maximum size of a file, which is more than the measurements of any comparison take."""


def append(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append lines in one write. If the file ends with an incomplete line of a killed process, a
    new line is begun first. `InputError` if the file is a pipe, a device or a folder.
    """
    if file.exists() and not file.is_file():
        raise _unusable(file, "it is not a regular file")
    with file.open("ab+") as opened:
        opened.seek(0, os.SEEK_END)
        if opened.tell():
            opened.seek(-1, os.SEEK_END)
            rows_begin = b"" if opened.read(1) == b"\n" else b"\n"
        else:
            rows_begin = b""
        opened.write(rows_begin + "".join(json.dumps(row) + "\n" for row in rows).encode())


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a file; empty if the file does not exist.

    Lines that are not JSON objects are left out, because a killed process may have left an
    incomplete line. `InputError` if the file cannot be read.
    """
    try:
        data = read_bytes(file, MOST_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unusable(file, error.strerror) from None
    for line in data.split(b"\n"):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row


def _unusable(file: Path, reason: str | None) -> InputError:
    return InputError(
        f"{file} cannot be used ({reason}). Remove it, or give another output folder."
    )

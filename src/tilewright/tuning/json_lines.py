"""Files with one JSON object per line, which remain valid if the writing process is killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def append(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append lines in one write. If the file ends with an incomplete line of a killed process, a
    new line is begun first.
    """
    with file.open("ab+") as opened:
        opened.seek(0, os.SEEK_END)
        if opened.tell():
            opened.seek(-1, os.SEEK_END)
            rows_begin = b"" if opened.read(1) == b"\n" else b"\n"
        else:
            rows_begin = b""
        opened.write(rows_begin + "".join(json.dumps(row) + "\n" for row in rows).encode())


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """The complete lines of a file; empty if the file does not exist."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # the line that a killed process was writing
            continue

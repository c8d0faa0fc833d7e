"""Files of one JSON object a line, whole after every write whatever became of the writer."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any


def append(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add lines, in one write; after half a line of a killed process, on a new one."""
    with file.open("ab+") as opened:
        opened.seek(0, os.SEEK_END)
        if opened.tell():
            opened.seek(-1, os.SEEK_END)
            rows_begin = b"" if opened.read(1) == b"\n" else b"\n"
        else:
            rows_begin = b""
        opened.write(rows_begin + "".join(json.dumps(row) + "\n" for row in rows).encode())


def read_lines(file: Path) -> Iterator[dict[str, Any]]:
    """Whole lines of a JSON-lines file; nothing if it is not there."""
    if not file.exists():
        return
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:  # the line that a killed process was writing
            continue

"""Writes the files that the user named. They are checked before a search, and written either
completely or not at all.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path

from tilewright.core.errors import OutputError
from tilewright.core.files import resolved


def check_outputs(**paths: Path | None) -> None:
    """Raise OutputError unless every path (by option name) can be written; changes nothing."""
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None:
            continue
        _check_writable(f"--{option}", path)
        other = seen.setdefault(resolved(path), f"--{option}")
        if other != f"--{option}":
            raise OutputError(
                f"--{option} and {other} both name the file {path}. Give two different files."
            )


def write_text(path: Path, text: str, *, private: bool = False) -> None:
    """Write `text` to `path` in one step, so that no reader ever sees half a file.

    A `private` file may be read by its user only.
    """
    write_bytes(path, text.encode(), private=private)


def write_bytes(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write `data` to `path` in one step."""
    import tempfile

    try:
        if path.is_fifo():
            with os.fdopen(_open_pipe(path), "wb") as file:
                file.write(data)
            return
        if _is_device(path):
            path.write_bytes(data)
            return
        target = resolved(path)
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).chmod((0o600 if private else 0o666) & ~_umask())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {_reason(error)}.") from error


def write_json(path: Path | None, value: Mapping[str, object], *, private: bool = False) -> None:
    """Write `value` as indented JSON in one step, if `path` is given."""
    if path is not None:
        write_text(path, json_text(value), private=private)


def json_text(value: Mapping[str, object]) -> str:
    """`value` as indented JSON."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _check_writable(option: str, path: Path) -> None:
    """Check by creating a temporary file in the same folder, because permission bits do not
    restrict root.
    """
    import tempfile

    advice = "give a file in an existing folder that you may write to"
    if path.is_dir():
        raise OutputError(f"cannot write {option} {path}: it is a folder; {advice}.")
    if path.is_fifo():
        try:
            _checked_pipes[path] = _open_pipe(path)
        except OSError as error:
            raise OutputError(f"cannot write {option} {path}: {_reason(error)}.") from error
        return
    if _is_device(path):
        return
    if not resolved(path).parent.is_dir():
        raise OutputError(f"cannot write {option} {path}: there is no such folder; {advice}.")
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "the file is read-only")
        handle, name = tempfile.mkstemp(dir=resolved(path).parent, prefix=".tilewright-probe.")
    except OSError as error:
        raise OutputError(f"cannot write {option} {path}: {_reason(error)}; {advice}.") from error
    os.close(handle)
    Path(name).unlink()


_checked_pipes: dict[Path, int] = {}
"""Open descriptors of the pipes that were checked. If a pipe were closed and opened again, its
reader would see an end of file.
"""


def _open_pipe(path: Path) -> int:
    """A descriptor to write to; `OSError` if no process reads the pipe, because opening it would
    then wait forever.
    """
    checked = _checked_pipes.pop(path, None)
    if checked is not None:
        return checked
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(
            errno.ENXIO, "no process reads from this pipe; start the reader first"
        ) from None
    os.set_blocking(descriptor, True)
    return descriptor


def _is_device(path: Path) -> bool:
    """Whether the path is a pipe or a device (`/dev/stdout`), which is written to and never
    replaced.
    """
    return path.exists() and not path.is_file() and not path.is_dir()


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _umask() -> int:
    """The umask of the process, which can be read only by changing it and restoring it."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

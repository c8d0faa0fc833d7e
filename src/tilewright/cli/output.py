"""Files the user asked for: refused before anything is spent, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from tilewright.core.errors import OutputError


def check_outputs(**paths: Path | None) -> None:
    """Raise OutputError unless every path (by option name) can be written; changes nothing."""
    seen: dict[Path, str] = {}
    for option, path in paths.items():
        if path is None:
            continue
        _check_writable(f"--{option}", path)
        other = seen.setdefault(path.resolve(), f"--{option}")
        if other != f"--{option}":
            raise OutputError(f"--{option} and {other} both name {path}; give two different files.")


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one step, so that no reader ever sees half a file."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` in one step."""
    import tempfile

    try:
        if _is_device(path):
            path.write_bytes(data)
            return
        target = path.resolve()
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            Path(name).chmod(0o666 & ~_umask())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OutputError(f"cannot write {path}: {_reason(error)}.") from error


def write_json(path: Path, value: Mapping[str, object]) -> None:
    """Write `value` as indented JSON, atomically."""
    write_text(path, json.dumps(value, indent=2, allow_nan=False) + "\n")


def _check_writable(option: str, path: Path) -> None:
    """Probe by creating a file beside it: permission bits alone say little for root."""
    import tempfile

    advice = "name a file in an existing folder that you may write to"
    if path.is_dir():
        raise OutputError(f"cannot write {option} {path}: it is a folder; {advice}.")
    if _is_device(path):
        return
    if not path.resolve().parent.is_dir():
        raise OutputError(f"cannot write {option} {path}: there is no such folder; {advice}.")
    try:
        if path.exists() and not os.access(path, os.W_OK):
            raise PermissionError(13, "the file is read-only")
        handle, name = tempfile.mkstemp(dir=path.resolve().parent, prefix=".tilewright-probe.")
    except OSError as error:
        raise OutputError(f"cannot write {option} {path}: {_reason(error)}; {advice}.") from error
    os.close(handle)
    Path(name).unlink()


def _is_device(path: Path) -> bool:
    """A pipe or device (`/dev/stdout`) is written to, never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _reason(error: OSError) -> str:
    return (error.strerror or type(error).__name__).lower()


def _umask() -> int:
    """Read the process umask; the only way is to set it and set it back."""
    mask = os.umask(0)
    os.umask(mask)
    return mask

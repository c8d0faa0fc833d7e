"""Reads regular files that other people may have written, up to a maximum size."""

from __future__ import annotations

import errno
import os
import re
import stat
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.core.errors import InputError, OutputError

if TYPE_CHECKING:
    from tilewright.core.records import KernelLanguage

MAX_TOML_BYTES = 16 << 10
"""Maximum size of TOML files that describe tasks. Real files are much smaller."""
MAX_KEY_PARTS = 32
"""Maximum number of parts of a dotted TOML key. The time that `tomllib` takes for a key grows with
the square of this number.
"""
_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"?+|'[^'\n]*+'?+)"""
_DOT = r"[ \t]*+\.[ \t]*+"
_TOKEN = re.compile(
    rf"""#[^\n]*+|"{{3}}(?:[^\\]|\\.)*?(?:"{{3,5}}|\Z)|'{{3}}.*?(?:'{{3,5}}|\Z)"""
    rf"|{_PART}(?:{_DOT}{_PART}){{0,{MAX_KEY_PARTS - 1}}}+(?P<too_long>{_DOT})?",
    re.DOTALL,
)
"""A comment, a string of several lines, or a dotted key. Every character is read once."""
MAX_TEXT_BYTES = 1 << 20
"""Maximum size of a kernel or a reference, which is larger than any that a person would write."""


def read_bytes(path: Path, most: int, *, follow_link: bool = True) -> bytes:
    """The content of a regular file of at most `most` bytes, which may be a symbolic link only if
    `follow_link` is set.

    Raises `OSError` for anything else, with the reason in `strerror`. Reading a pipe or a device
    might never end, and so might opening one.
    """
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "its name contains a zero byte", str(path).replace("\0", "?"))
    links = 0 if follow_link else os.O_NOFOLLOW
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | links)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it is larger than {_in_words(most)}", str(path))
    return data


def read_text(path: Path, most: int) -> str:
    """The content of a file as UTF-8 text, without a byte order mark (U+FEFF). Raises `OSError` as
    `read_bytes` does, and also if the content is not UTF-8 text.
    """
    try:
        return read_bytes(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise OSError(errno.EILSEQ, f"it is not UTF-8 text: {error}", str(path)) from None


def read_kernel(path: Path, language: KernelLanguage | None) -> str:
    """A kernel's source. `InputError`, with the name of the language if it is known, if the file
    cannot be read or contains only white space.
    """
    wanted = f"Give a {language.name if language else 'kernel'} file"
    try:
        source = read_text(path, MAX_TEXT_BYTES)
    except OSError as error:
        raise InputError(
            f"kernel file {path} cannot be read ({error.strerror}). {wanted} in UTF-8."
        ) from error
    if not source.strip():
        raise InputError(f"kernel file {path} is empty. {wanted} with the kernel's source.")
    return source


def refuse_special_files(folder: Path) -> None:
    """`OutputError` if a folder contains a pipe, a device or a socket, or a link to one; `OSError`
    if the folder cannot be read.

    Writing to such a file might never end.
    """
    for entry in os.scandir(folder):
        with suppress(OSError):  # a link to nothing
            mode = entry.stat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise OutputError(
                    f"cannot write to {folder}: {entry.path} is not a regular file. Remove it, or "
                    "give another folder."
                )


def resolved(path: Path) -> Path:
    """The path with all symbolic links resolved; `OSError` also for links that refer to one
    another.

    For such links, `Path.resolve` raises `RuntimeError` before Python 3.13, and returns a link in
    later versions.
    """
    with suppress(RuntimeError):
        found = path.resolve()
        if not found.is_symlink():
            return found
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def require_inside(path: Path, folder: Path) -> None:
    """Raise `OSError` for a link from a folder to a file outside the folder.

    The files of the folder are sent to other machines. With such a link, the author of the folder
    could obtain any file of this machine.
    """
    if not resolved(path).is_relative_to(resolved(folder)):
        raise OSError(errno.EPERM, "it is a link to a file outside its folder", str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; `OSError` also for one that is not valid."""
    text = read_text(path, MAX_TOML_BYTES)
    try:
        found = parse_toml(text)
        _require_machine_numbers(found)
        return found
    except ValueError as error:  # also raised for numbers with thousands of digits
        raise OSError(errno.EINVAL, f"it is not valid TOML: {error}", str(path)) from None
    except RecursionError:
        message = "it is not valid TOML: its values are nested too deeply"
        raise OSError(errno.EINVAL, message, str(path)) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text in TOML. `ValueError` if it is not valid or contains a key with more
    than `MAX_KEY_PARTS` parts; `RecursionError` if its values are nested too deeply.
    """
    if any(token["too_long"] for token in _TOKEN.finditer(text)):
        raise ValueError(f"a key has more than {MAX_KEY_PARTS} parts")
    return tomllib.loads(text)


def _require_machine_numbers(table: object) -> None:
    """Enforce TOML's limit of 64 bits, because Python refuses to print some longer hexadecimal
    numbers.
    """
    waiting: list[tuple[str, object]] = [("", table)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += ((key, one) for one in value)
        elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
            raise ValueError(f"a whole number has more than 64 bits ({key[:100]})")


def _in_words(size: int) -> str:
    return f"{size >> 20} MiB" if size >> 20 else f"{size >> 10} KiB"

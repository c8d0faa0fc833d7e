"""Packs the files of a kernel folder for workers on machines without this folder."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Mapping
from pathlib import Path

from tilewright.core.errors import WorkloadError
from tilewright.core.files import read_bytes, require_inside

MOST_BYTES = 16 << 20
"""Maximum size of a folder's files, which a worker keeps as long as it runs."""


def packed(folder: Path) -> dict[str, str]:
    """The files of a folder by name, in base64, without hidden files.

    Raises `WorkloadError` for files that are too large, or that are outside the folder because of a
    link.
    """
    found, size = {}, 0
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith(".") or part == "__pycache__" for part in name.parts):
            continue
        if not path.is_file():
            continue
        size += path.stat().st_size
        if size > MOST_BYTES:
            raise WorkloadError(
                f"folder {folder} contains more than {MOST_BYTES >> 20} MiB, which is too much to "
                "send to the workers of a cluster. Move files that the task does not need "
                "elsewhere."
            )
        try:
            require_inside(path, folder)
            found[name.as_posix()] = b64encode(read_bytes(path, MOST_BYTES)).decode()
        except OSError as error:
            raise WorkloadError(
                f"{path} cannot be sent to the workers of a cluster: {error.strerror}. Copy the "
                "file into the folder, or remove it."
            ) from error
    return found


def unpacked(files: Mapping[str, str], name: str) -> Path:
    """A new folder `name` with these files, which is deleted when this process ends; ValueError for
    a file that would be outside the folder.
    """
    above = Path(tempfile.mkdtemp(prefix="tilewright-task-")).resolve()
    atexit.register(shutil.rmtree, above, ignore_errors=True)
    folder = (above / Path(name).name).resolve()
    if not folder.is_relative_to(above):
        raise ValueError(f"{name!r} is not the name of a folder")
    above.chmod(0o711)  # sandboxed programs of a worker may run as another user
    for file, content in files.items():
        path = (folder / file).resolve()
        if not path.is_relative_to(folder):
            raise ValueError(f"file {file!r} of a task is outside its folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b64decode(content))
    return folder

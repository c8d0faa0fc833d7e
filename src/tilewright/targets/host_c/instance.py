"""Reads a user's TOML file for the target, which gives its name and the number of threads of a
kernel.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tilewright.core.errors import ConfigurationError
from tilewright.core.files import read_toml

KEYS = ("target", "name", "threads")
MOST_THREADS = 64


@dataclass(frozen=True, slots=True)
class Instance:
    """The target's name, which is part of workload names, and the number of threads, including the
    thread that calls the kernel.
    """

    name: str
    threads: int


ONE_THREAD = Instance("host-c", 1)


def load_instance(path: Path) -> Instance:
    """The instance that the file `path` describes; `ConfigurationError` says what is wrong with
    it.
    """
    try:
        fields = read_toml(path)
    except OSError as error:
        raise ConfigurationError(f"target file {path} cannot be read: {error.strerror}.") from error
    for key in fields:
        if key not in KEYS:
            raise ConfigurationError(
                f"{path}: unknown field {key!r}: a file may have {', '.join(KEYS)}."
            )
    name, threads = fields.get("name", path.stem), fields.get("threads", 1)
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]+", name):
        raise ConfigurationError(
            f"{path}: name = {name!r} must be letters, digits, '_', '.' and '-', as it is part of "
            "workload names."
        )
    if type(threads) is not int or not 1 <= threads <= MOST_THREADS:
        raise ConfigurationError(
            f"{path}: threads = {threads!r} must be a whole number from 1 to {MOST_THREADS}."
        )
    return Instance(name, threads)

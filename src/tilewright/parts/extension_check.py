"""Tests whether a compiled extension module was made from the present C++ sources."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import ModuleType

from tilewright.core.errors import ToolchainMissingError


def require_current(module: ModuleType, sources: Path) -> None:
    """Raise `ToolchainMissingError` if the sources have changed since the module was compiled.

    `module.SOURCE_HASH` is the hash that CMakeLists.txt computes from the files in the folder
    `sources`. An installed package has no such folder, so it is not checked.
    """
    if sources.is_dir() and source_hash(sources) != module.SOURCE_HASH:
        raise ToolchainMissingError(
            f"the C++ code in {sources} has changed since it was compiled, for example by `git "
            "pull`. Compile it again: run any command through `./tw`, or run `pip install -e .` "
            "in the clone."
        )


def source_hash(sources: Path) -> str:
    """SHA-256 over the hashes of all source files, then of all headers, as in CMakeLists.txt."""
    digests = [
        hashlib.sha256(Path(file).read_bytes()).hexdigest()
        for pattern in ("*.cpp", "*.hpp")
        for file in sorted(map(str, sources.rglob(pattern)))
    ]
    return hashlib.sha256("".join(digests).encode()).hexdigest()

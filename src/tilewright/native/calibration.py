"""The peak rates of this machine's cores, which are measured once in about a second and stored.

The user's cache folder contains one file for each processor, compiler and number of threads.
`doctor` measures again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import content_id
from tilewright.native.machine import on_measuring_cores, processor
from tilewright.native.toolchain import Toolchain, compile_program
from tilewright.parts.kept_files import cache_file, write_cache_file
from tilewright.sandbox import Limits, find_sandbox, open_folder

SOURCE = Path(__file__).with_name("calibration.c")


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak rates per second: float32 multiply-adds, and bytes read from and written to each level
    of memory.

    The rates are those of all threads together, each on its own core.
    """

    products_per_s: float
    l1_read_bytes_per_s: float
    l1_write_bytes_per_s: float
    l2_read_bytes_per_s: float
    l3_read_bytes_per_s: float
    memory_read_bytes_per_s: float


def peaks(toolchain: Toolchain, threads: int = 1, *, fresh: bool = False) -> Peaks:
    """The peak rates of this machine, which are measured if they are not stored yet or if `fresh`
    is true.
    """
    known = processor()
    caches = (known.l1_bytes or 32 << 10, known.l2_bytes or 512 << 10, known.l3_bytes or 8 << 20)
    names = tuple(f.name for f in fields(Peaks))
    source = SOURCE.read_text(encoding="utf-8")
    arguments = (*caches, threads)
    return Peaks(**calibrated(toolchain, source, arguments, names, threads, fresh=fresh))


def calibrated(
    toolchain: Toolchain,
    source: str,
    arguments: Sequence[int],
    names: Sequence[str],
    threads: int = 1,
    *,
    fresh: bool = False,
) -> dict[str, float]:
    """The numbers that a program of this package prints, one `name value` per line, which are
    stored.

    Raises `ToolchainMissingError` if the program cannot be built or does not print all of `names`.
    """
    path = _file(toolchain, source, arguments)
    stored = None if fresh else read_kept(path, names)
    if stored is not None:
        return stored
    program = compile_program(toolchain, source, ("-march=native", "-pthread"))
    with open_folder("tilewright-calibrate-") as name, on_measuring_cores(threads):
        folder = Path(name)
        (folder / "calibrate").write_bytes(program)
        (folder / "calibrate").chmod(0o755)
        finished = find_sandbox().run(["./calibrate", *map(str, arguments)], folder, Limits(60.0))
    lines = [line.split() for line in finished.output.decode(errors="replace").splitlines()]
    try:
        printed = {name: float(value) for name, value in lines}
        found = {name: printed[name] for name in names}
    except (KeyError, ValueError) as error:
        said = finished.output.decode(errors="replace").strip().splitlines()[-1:]
        reason = "; ".join([f"status {finished.status}", *said])
        raise ToolchainMissingError(
            f"this machine could not be calibrated ({reason}). Run `tilewright doctor` again when "
            "it is less busy."
        ) from error
    write_kept(path, found)
    return found


def kept_file(kind: str, key: str) -> Path:
    """The file for numbers of a `kind` that were measured under the conditions `key`."""
    return cache_file(f"{kind}-{key}.json")


def read_kept(path: Path, names: Sequence[str]) -> dict[str, float] | None:
    """The stored numbers with these names; None if the file is missing or does not contain them."""
    try:
        stored = json.loads(path.read_text())
        return {name: float(stored[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_kept(path: Path, found: Mapping[str, float]) -> None:
    """Store numbers. If this is not possible, they are measured again the next time."""
    write_cache_file(path, json.dumps(found, indent=1).encode())


def _file(toolchain: Toolchain, source: str, arguments: Sequence[int]) -> Path:
    known = processor()
    key = content_id(
        known.name, str(sorted(known.features)), toolchain.id, source, *map(str, arguments)
    )
    return kept_file("calibration", key)

"""What one core of this machine can do at best: measured once, in about a second, and kept.

The file lies in the user's cache folder, one per processor and compiler. `doctor` measures again.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.core.records import content_id
from tilewright.native.machine import measuring_core, on_measuring_core, processor
from tilewright.native.toolchain import Toolchain, compile_program
from tilewright.sandbox import Limits, find_sandbox, open_folder
from tilewright.timing import exclusive

SOURCE = Path(__file__).with_name("calibration.c")


@dataclass(frozen=True, slots=True)
class Peaks:
    """Per second and core: float32 multiply-adds, and bytes from and to each level of memory."""

    products_per_s: float
    l1_read_bytes_per_s: float
    l1_write_bytes_per_s: float
    l2_read_bytes_per_s: float
    l3_read_bytes_per_s: float
    memory_read_bytes_per_s: float


def peaks(toolchain: Toolchain) -> Peaks:
    """Those of this machine, measured if they are not known yet."""
    path = _file(toolchain)
    try:
        stored = json.loads(path.read_text())
        return Peaks(**{f.name: float(stored[f.name]) for f in fields(Peaks)})
    except (OSError, ValueError, KeyError, TypeError):
        return calibrate(toolchain)


def calibrate(toolchain: Toolchain) -> Peaks:
    """Measure, and remember where that is possible."""
    program = compile_program(toolchain, SOURCE.read_text(), ("-march=native",))
    known = processor()
    with (
        open_folder("tilewright-calibrate-") as name,
        exclusive(f"cpu{measuring_core()}"),
        on_measuring_core(),
    ):
        folder = Path(name)
        (folder / "calibrate").write_bytes(program)
        (folder / "calibrate").chmod(0o755)
        caches = (
            known.l1_bytes or 32 << 10, known.l2_bytes or 512 << 10, known.l3_bytes or 8 << 20
        )  # fmt: skip
        finished = find_sandbox().run(["./calibrate", *map(str, caches)], folder, Limits(60.0))
    lines = [line.split() for line in finished.output.decode(errors="replace").splitlines()]
    try:
        found = Peaks(**{name: float(value) for name, value in lines})
    except (TypeError, ValueError) as error:
        raise ToolchainMissingError(
            f"this machine could not be calibrated (status {finished.status}): run "
            "`tilewright doctor` again when it is less busy."
        ) from error
    _remember(_file(toolchain), found)
    return found


def _remember(path: Path, found: Peaks) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(f".{os.getpid()}")
        partial.write_text(json.dumps(asdict(found), indent=1))
        partial.replace(path)
    except OSError:
        return  # measured again next time


def _file(toolchain: Toolchain) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    known = processor()
    key = content_id(known.name, str(sorted(known.features)), toolchain.id, SOURCE.read_text())
    return Path(base) / "tilewright" / f"calibration-{key}.json"

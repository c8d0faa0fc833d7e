"""The GPU of this machine, as the driver describes it."""

from __future__ import annotations

import csv
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

HOW_TO_GET = (
    "run tilewright on a machine with an NVIDIA GPU, its driver (nvidia-smi) and the CUDA "
    "toolkit, or let such a machine time kernels for this one with `--host HOST`"
)
_FIELDS = ("name", "uuid", "compute_cap", "memory.total", "driver_version")
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """The first GPU that the driver lists; `architecture` is nvcc's name of its architecture."""

    name: str
    uuid: str
    architecture: str
    memory_mib: int
    driver: str

    @property
    def id(self) -> str:
        """The name of the GPU in results."""
        return f"{self.name}, {self.architecture}, driver {self.driver}"

    @property
    def lock(self) -> str:
        """Name of the device for the lock that measurements hold."""
        return f"cuda:{self.uuid}"


@cache
def find_gpu() -> Gpu | None:
    """The first GPU, or None if there is no driver or the driver lists none."""
    rows = _asked(_FIELDS)
    try:
        name, uuid, capability, memory, driver = rows[0]
        return Gpu(name, uuid, f"sm_{capability.replace('.', '')}", int(float(memory)), driver)
    except (IndexError, ValueError):
        return None


def clock_mhz() -> float | None:
    """The present clock rate of the multiprocessors in MHz, or None if the driver does not report
    it.
    """
    try:
        return float(_asked(("clocks.sm",))[0][0])
    except (IndexError, ValueError):
        return None


def _asked(fields: tuple[str, ...]) -> list[list[str]]:
    """The output of nvidia-smi, with a row for each GPU."""
    path = shutil.which("nvidia-smi")
    if path is None:
        return []
    question = [path, f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(
            question, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode != 0:
        return []
    return [[w.strip() for w in row] for row in csv.reader(done.stdout.splitlines()) if row]

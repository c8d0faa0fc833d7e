"""Finds the external tools, and constructs the command with which each runs a program."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError, UnknownNameError

CHIPYARD = "TILEWRIGHT_CHIPYARD"
"""Environment variable with the folder of a chipyard checkout, for targets whose file names none in
[tools].
"""

_NAME_IT = f"name the checkout in the target's file ([tools] chipyard = ...) or set {CHIPYARD}"

HOW_TO_GET: Mapping[str, str] = {
    "spike": "build it in chipyard (./build-setup.sh riscv-tools, then "
    f"generators/gemmini/scripts/build-spike.sh), then put it on PATH or {_NAME_IT}",
    "verilator": "in chipyard: cd sims/verilator && make CONFIG=GemminiRocketConfig, then "
    + _NAME_IT,
    "firesim": "in chipyard: ./scripts/firesim-setup.sh, build a Gemmini bitstream, then "
    + _NAME_IT,
}


@dataclass(frozen=True, slots=True)
class Tool:
    """One external simulator. If it is `timed`, it counts cycles of the chip; if it is `contained`,
    it needs no network.

    Its command is `command` followed by the path of the program. FireSim is started by a script of
    the user, because clusters differ. The script runs the program and prints the console of the
    chip.
    """

    name: str
    command: tuple[str, ...]
    timed: bool
    contained: bool


def find_tool(name: str, chipyard: Path | None = None) -> Tool:
    """The tool by name, in this chipyard checkout; `ToolchainMissingError` says how to get it."""
    if name not in HOW_TO_GET:
        raise UnknownNameError("simulator", name, list(HOW_TO_GET))
    named = os.environ.get(CHIPYARD)
    folder = chipyard or (Path(named) if named else None)
    program = {"spike": _spike, "verilator": _verilator, "firesim": _firesim}[name](folder)
    if program is None:
        raise ToolchainMissingError(f"{name} was not found: {HOW_TO_GET[name]}.")
    return Tool(name, (str(program), *_OPTIONS[name]), name != "spike", name != "firesim")


_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "spike": ("--extension=gemmini",),
    "verilator": ("+permissive", "+permissive-off"),
    "firesim": (),
}


def _spike(chipyard: Path | None) -> Path | None:
    found = shutil.which("spike")
    if found:
        return Path(found)
    return _executable(chipyard, ".conda-env/riscv-tools/bin/spike")


def _verilator(chipyard: Path | None) -> Path | None:
    return _executable(chipyard, "sims/verilator/simulator-chipyard*Gemmini*Config")


def _firesim(chipyard: Path | None) -> Path | None:
    return _executable(chipyard, "sims/firesim/deploy/tilewright-run")


def _executable(folder: Path | None, pattern: str) -> Path | None:
    """The first executable file in `folder` that fits `pattern`."""
    if folder is None:
        return None
    fitting = sorted(path for path in folder.glob(pattern) if os.access(path, os.X_OK))
    return next((path for path in fitting if path.is_file()), None)

"""Finds a Python that has a package which tilewright itself does not need, and runs it in a
sandbox."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tilewright.core.errors import ToolchainMissingError
from tilewright.sandbox import Sandbox, find_sandbox

_START_S = 120.0
_CPU = Path("/proc/cpuinfo")
"""PyTorch's embedding bags ask for the features of the processor, and fail if they cannot."""


@dataclass(frozen=True)
class FoundPython:
    """A Python that has the package, the package's version, and the sandbox that it runs in."""

    python: str
    version: str
    sandbox: Sandbox


def find_python(package: str, variable: str, why: str, how_to_get: str) -> FoundPython:
    """The Python that the variable names, otherwise this one.

    Raises `ToolchainMissingError`, which says `why` the package is needed and how to install it.
    """
    named = os.environ.get(variable)
    if named is None and importlib.util.find_spec(package) is None:
        raise ToolchainMissingError(f"{why}, which is not installed: {how_to_get}.")
    python = named or sys.executable
    text = (
        f"import importlib.metadata as m, sys; print(m.version({package!r})); "
        "print(*{sys.prefix, sys.base_prefix, *filter(None, sys.path)}, sep='\\n')"
    )
    try:
        printed = subprocess.run(
            [python, "-I", "-c", text], capture_output=True, text=True, timeout=_START_S,
            stdin=subprocess.DEVNULL, check=True,
        ).stdout.splitlines()  # fmt: skip
        roots = [Path(line) for line in printed[1:] if Path(line).is_dir()]
        roots += [_CPU] if _CPU.is_file() else []
        sandbox = find_sandbox(roots, [python, "-I", "-c", "pass"], environment())
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", "") or str(error)
        line = said.strip().splitlines()[-1] if said.strip() else "no message"
        raise ToolchainMissingError(
            f"{python} cannot import {package} ({line[:200]}): {how_to_get}."
        ) from error
    return FoundPython(python, printed[0], sandbox)


def install_command(package: str) -> str:
    """The command that installs a package into the environment of this process."""
    if importlib.util.find_spec("pip") is not None:
        return f"{sys.executable} -m pip install {package}"
    # `uv run` names its own program, which is not on PATH if `./tw` has installed it.
    uv = "uv" if shutil.which("uv") else os.environ.get("UV", "uv")
    return f"{uv} pip install --python {sys.executable} {package}"


def environment() -> dict[str, str]:
    """The environment of such a Python, which contains only PATH from this process."""
    return {
        "PATH": os.environ.get("PATH", ""),
        "USER": "nobody",
        "HOME": "/nonexistent",
        "OMP_NUM_THREADS": "1",
    }

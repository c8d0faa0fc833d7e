"""The sandbox for programs that process or run a candidate; see docs/trust.md.

The targets and the workers import this package, which imports only the standard library.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.sandbox import confine
from tilewright.sandbox.confine import Level
from tilewright.sandbox.control_group import counting_group
from tilewright.sandbox.limits import Limits
from tilewright.sandbox.own_process import call_contained, contain_this_process
from tilewright.sandbox.process import Finished, Sandbox, read_output

__all__ = [
    "UNCONTAINED",
    "Finished",
    "Limits",
    "Sandbox",
    "call_contained",
    "contain_this_process",
    "counting_group",
    "find_sandbox",
    "open_folder",
    "read_output",
]

UNCONTAINED = Level("rlimits")
"""Resource limits only, for programs that the user trusts."""

_PROBE_LIMITS = Limits(wall_s=30.0)
_READS_ALL = ("/bin/sh", "-c", 'for path; do [ -r "$path" ] || exit 1; done', "sh")


def find_sandbox(
    readable: Sequence[Path] = (),
    probe: Sequence[str] = ("/bin/true",),
    environment: Mapping[str, str] | None = None,
    *,
    own_user: bool = True,
) -> Sandbox:
    """The strongest level in which the command `probe` runs successfully and can read `readable`.

    The probe is a harmless call of the command that will run in the sandbox (a compiler's
    --version). A level is not usable if the command cannot start in it, or if its user may not read
    `readable`, for example in a private home folder. Without `own_user`, the command runs as the
    user of this process, for tools in folders of this user. Raises `OSError` if no level works.
    """
    roots = tuple(readable)
    for level in confine.levels(own_user=own_user):
        sandbox = Sandbox(level, roots)
        reads_all = (*_READS_ALL, *(str(root) for root in roots if root.exists()))
        if _works(sandbox, reads_all, {}) and _works(sandbox, probe, environment or {}):
            return sandbox
    raise OSError(f"{probe[0]} does not run, not even with resource limits alone")


def open_folder(prefix: str) -> tempfile.TemporaryDirectory[str]:
    """A temporary folder to which a sandboxed command of another user can get access."""
    return tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True)


def _works(sandbox: Sandbox, probe: Sequence[str], environment: Mapping[str, str]) -> bool:
    with open_folder("tilewright-probe-") as folder:
        try:
            return sandbox.run(probe, Path(folder), _PROBE_LIMITS, environment).status == 0
        except (OSError, subprocess.SubprocessError):
            return False

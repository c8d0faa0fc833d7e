"""Levels of containment, strongest first, and how a command is started in each.

========================== =============================================================
bubblewrap+seccomp         own mount, process, network and IPC namespaces; private /proc and /tmp
landlock+seccomp           files, network and signals refused by the kernel; /proc and /tmp unseen
rlimits                    limits only
========================== =============================================================

All have the limits of `Limits`. "+uid" is appended to the name if the command runs as a separate
user (which requires that tilewright runs as root), and "+userns" if it has a user namespace with
its own process count.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.sandbox import landlock, limits, seccomp
from tilewright.sandbox.limits import Limits

Kind = Literal["bubblewrap", "landlock", "rlimits"]

SYSTEM = tuple(
    Path(path)
    for path in (
        "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
        "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives",
    )
)  # fmt: skip
"""Files that every program needs to start, which contain neither data of users nor secrets."""

DEVICES = tuple(map(Path, ("/dev/null", "/dev/zero", "/dev/full", "/dev/urandom", "/dev/random")))
_BWRAP_PROCESSES = 2  # number of processes of bubblewrap itself


@dataclass(frozen=True, slots=True)
class Level:
    """One containment level. `own_user` and `own_count` add "+uid" and "+userns"."""

    kind: Kind
    own_user: bool = False
    own_count: bool = False

    @property
    def name(self) -> str:
        """The name that is recorded with results."""
        parts: list[str] = [self.kind]
        if self.kind != "rlimits" and seccomp.create_filter() is not None:
            parts.append("seccomp")
        parts += ["uid"] * self.own_user + ["userns"] * self.own_count
        return "+".join(parts)


@dataclass(frozen=True, slots=True)
class Start:
    """A command, the steps of the launcher before it, and the descriptors that were opened for
    both, which the caller closes when the command runs.
    """

    command: list[str]
    steps: list[str]
    pass_on: tuple[int, ...] = ()


def levels(*, own_user: bool = True) -> list[Level]:
    """The levels that may work on this machine, the strongest first. Each has to be tried."""
    if sys.platform != "linux":
        return [Level("rlimits")]
    own_user = own_user and limits.unused_user() is not None
    own_count = os.geteuid() != 0  # processes of root are not counted in any namespace
    kinds: list[Kind] = ["bubblewrap"] if shutil.which("bwrap") else []
    kinds += ["landlock"] if landlock.abi() else []
    kinds += ["rlimits"]
    found: list[Level] = []
    for kind in kinds:
        found += [Level(kind, own_user, own_count), Level(kind)]
    return list(dict.fromkeys(found))


def prepare(
    level: Level, command: Sequence[str], folder: Path, readable: Sequence[Path], bounds: Limits
) -> Start:
    """Prepare the start of a command that may write only to `folder`. Raises `OSError`.

    The caller must close the descriptors in `Start.pass_on` when the command runs.
    """
    user = limits.unused_user() if level.own_user else None
    code = seccomp.create_filter()
    roots = [*SYSTEM, *readable]
    if level.kind == "bubblewrap":
        return _in_bubblewrap(level, command, folder, roots, bounds, user, code)
    steps = _steps(level, bounds, user)
    if level.kind == "rlimits":
        return Start(list(command), steps)
    rules = landlock.ruleset(roots, [folder], DEVICES)
    steps.append(f"landlock={rules}")
    if code is not None:
        steps.append(seccomp.step(code))
    return Start(list(command), steps, (rules,))


def _in_bubblewrap(
    level: Level,
    command: Sequence[str],
    folder: Path,
    roots: Sequence[Path],
    bounds: Limits,
    user: int | None,
    code: bytes | None,
) -> Start:
    bwrap = shutil.which("bwrap") or "bwrap"
    words = [bwrap, "--unshare-all", "--die-with-parent"]
    descriptors: tuple[int, ...] = ()
    if code is not None:
        reading, writing = os.pipe()
        os.write(writing, code)
        os.close(writing)
        descriptors = (reading,)
        words += ["--seccomp", str(reading)]
    everything = Path("/") in roots
    words += ["--ro-bind", "/", "/"] * everything
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]
    for root in (root for root in roots if root != Path("/")):
        words += ["--ro-bind-try", str(root), str(root)]
    words += ["--bind", str(folder), str(folder), "--chdir", str(folder), "--"]

    steps = _steps(level, bounds, user, _BWRAP_PROCESSES)
    return Start([*words, *command], steps, descriptors)


def _steps(level: Level, bounds: Limits, user: int | None, extra_processes: int = 0) -> list[str]:
    """The launcher's steps for every level: change the user and set the limits, permanently."""
    steps = []
    if user is not None:
        steps.append(f"user={user}")
    elif level.own_count:
        steps.append("namespace=user")
    counted = user is not None or level.own_count
    steps += limits.steps(bounds, count_processes=counted, extra_processes=extra_processes)
    if sys.platform == "linux":
        steps.append(f"parent={os.getpid()}")
        # Bubblewrap drops capabilities itself.
        if level.kind != "bubblewrap" and os.geteuid() == 0 and user is None:
            steps.append("capabilities=none")
        steps.append("new_privileges=none")
    return steps

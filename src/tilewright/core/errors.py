"""The one exception tree.

A candidate's failure is never an exception: it is a `Failed` record. Exceptions are for the
user's input and for the machine the tool runs on::

    TilewrightError
    ├── InputError               the command line, a file or a folder is not usable: exit code 2
    │   ├── UnknownNameError     a workload, target, run or option that does not exist
    │   ├── WorkloadError        a malformed shape, workload.toml, reference or starting kernel
    │   ├── ConfigurationError   a target.toml or setting that is missing, unknown or impossible
    │   └── OutputError          a path that cannot be written
    ├── ToolchainMissingError    no compiler, or a native part is not installed: exit code 2
    ├── DeviceBusyError          another process measures on the device: exit code 2
    ├── StorageError             a database that is corrupt, newer or unwritable: exit code 2
    │   └── StorageUnavailableError  a database server that is not there, or went away
    └── InternalError            a defect in tilewright itself: exit code 1

Every message is one sentence that names the input, what was expected and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class TilewrightError(Exception):
    """Base of every error a user may see; `exit_code` is what the command line returns."""

    exit_code = 2


class InputError(TilewrightError):
    """The user's input is not usable."""


class UnknownNameError(InputError):
    """A name that does not exist; the message suggests the nearest known one."""

    def __init__(self, what: str, name: str, known: Iterable[str], hint: str = "") -> None:
        """`what` is the kind of name ("workload"), `known` the names there are."""
        names = sorted(known)
        nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
        suggestion = (
            f"did you mean {nearest[0]!r}?" if nearest else f"known: {', '.join(names) or 'none'}."
        )
        super().__init__(f"unknown {what} {name!r}: {suggestion}{' ' + hint if hint else ''}")
        self.suggestion = nearest[0] if nearest else None


class WorkloadError(InputError):
    """A malformed shape, workload folder, reference or starting kernel."""


class ConfigurationError(InputError):
    """A configuration field that is missing, unknown or impossible."""


class OutputError(InputError):
    """A path that cannot be written."""


class ToolchainMissingError(TilewrightError):
    """A compiler or native part is not installed; the message says how to get it."""


class DeviceBusyError(TilewrightError):
    """Another process holds the device that is to be measured on."""


class StorageError(TilewrightError):
    """A project database that is corrupt, newer than this version, locked or unwritable."""


class StorageUnavailableError(StorageError):
    """A database server that is not there, or went away: what was stored is safe."""


class InternalError(TilewrightError):
    """A defect in tilewright itself."""

    exit_code = 1

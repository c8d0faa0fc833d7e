"""The exceptions of tilewright.

A candidate's failure is never an exception: it is a `Failed` record. Exceptions are for the
user's input and for the machine the tool runs on::

    TilewrightError
    ├── InputError               the command line, a file or a folder is not usable: exit code 2
    │   ├── UnknownNameError     a workload, target, run or option that does not exist
    │   ├── WorkloadError        a malformed shape, workload.toml, reference or starting kernel
    │   ├── ConfigurationError   a target.toml or setting that is missing, unknown or impossible
    │   ├── OutputError          a path that cannot be written
    │   └── OutOfTimeError       a budget whose time ended before there was a result
    ├── ToolchainMissingError    no compiler, or a native part is not installed: exit code 2
    ├── DeviceBusyError          another process measures on the device: exit code 2
    ├── DiskFullError            no room to build kernels, here or on a worker: exit code 2
    ├── HostError                a worker on another machine that does not start: exit code 2
    ├── ClusterError             a scheduler or workers that cannot be reached: exit code 2
    ├── StorageError             a database that is corrupt, newer or unwritable: exit code 2
    │   └── StorageUnavailableError  a database server that cannot be reached, or was lost
    └── InternalError            a defect in tilewright itself: exit code 1
        └── UndeclaredFailureError   a kind of failure that the target does not declare

Every message is one sentence that names the input, what was expected and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from tilewright.core.text import shortened

_LISTED = 12
"""Number of names that a message lists if no name is similar."""


class TilewrightError(Exception):
    """Base class of all errors that a user may see; `exit_code` is the command line's exit code.

    >>> import tilewright as tw
    >>> try:
    ...     tw.optimize("gemmini:gem-16x16x16")
    ... except tw.TilewrightError as error:
    ...     print(type(error).__name__)
    UnknownNameError
    """

    exit_code = 2


class InputError(TilewrightError):
    """The user's input is not usable."""


class UnknownNameError(InputError):
    """A name that does not exist; the message suggests a similar name."""

    def __init__(
        self, what: str, name: str, known: Iterable[str] | None = None, hint: str = ""
    ) -> None:
        """`what` is the kind of name ("workload"), and `known` contains all existing names, or is
        None if the message shall not list them.
        """
        names = sorted(known or ())
        nearest = _of_the_same_sizes(name, names) or difflib.get_close_matches(
            name, names, n=1, cutoff=0.5
        )
        listed = ", ".join(names[:_LISTED])
        more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        suggestion = f". Choose one of {listed}{more}." if names else f": there are no {what}s."
        if known is None:
            suggestion = "."
        if nearest:
            suggestion = f": did you mean {shortened(nearest[0])}?"
        super().__init__(
            f"unknown {what} {shortened(name)}{suggestion}{' ' + hint if hint else ''}"
        )


def _of_the_same_sizes(name: str, names: Sequence[str]) -> list[str]:
    """`name` with its first word replaced by the first word of a known name, if the two words are
    similar.
    """
    word, _, sizes = name.partition("-")
    words = sorted({known.partition("-")[0] for known in names})
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.7)
    return [f"{near[0]}-{sizes}"] if near and near[0] != word and sizes[:1].isdigit() else []


class WorkloadError(InputError):
    """A malformed shape, workload folder, reference or starting kernel."""


class ConfigurationError(InputError):
    """A configuration field that is missing, unknown or impossible."""


class OutputError(InputError):
    """A path that cannot be written."""


class OutOfTimeError(InputError):
    """The time of a budget ended before a necessary part of the work was complete.

    `reason` says which part, without advice.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"{reason}. Give a larger --budget, or search when the machine is less busy."
        )
        self.reason = reason


class ToolchainMissingError(TilewrightError):
    """A compiler or native part is not installed; the message says how to get it."""


class NotTimedError(ToolchainMissingError):
    """A correct kernel that this machine cannot time; the message says what is missing.

    `known` contains facts about the kernel, as sentences without their subject, the kernel.
    """

    def __init__(self, message: str, known: str = "") -> None:
        super().__init__(message)
        self.known = known


class DeviceBusyError(TilewrightError):
    """Another process is using the device on which kernels are measured."""


class DiskFullError(TilewrightError):
    """The disk of a machine that evaluates has no space left for temporary files."""


class HostError(TilewrightError):
    """A worker on another machine that cannot be started, or has different versions."""


class ClusterError(TilewrightError):
    """A scheduler or workers that cannot be reached or used. Finished measurements are kept."""


class StorageError(TilewrightError):
    """A project database that is corrupt, newer than this version, locked or unwritable."""


class StorageUnavailableError(StorageError):
    """A database server that cannot be reached, or was lost. Stored data is safe."""


class InternalError(TilewrightError):
    """A defect in tilewright itself."""

    exit_code = 1


class UndeclaredFailureError(InternalError):
    """A target reported a kind of failure that it does not declare."""

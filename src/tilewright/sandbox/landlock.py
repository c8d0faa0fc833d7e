"""Landlock through ctypes: what a process may open, connect to and signal (Linux 5.13 and later).

Source: `linux/landlock.h`. Later ABIs support more restrictions. Restrictions that the running
Linux kernel does not support are left out, and the ABI in use is part of the sandbox's name.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446  # the same on every architecture
_VERSION = 1
_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE = 1 << 14
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE = _EXECUTE | _READ_FILE | _WRITE_FILE | _TRUNCATE
_NODES = 1 << 6 | 1 << 11  # creating device files, which could give access to a disk
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""Number of file system rights that each ABI knows; these rights are the lowest bits."""
_NETWORK = 0b11  # bind and connect TCP: from ABI 4
_SCOPES = 0b11  # abstract Unix sockets and signals stay inside: from ABI 6

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("filesystem", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


def abi() -> int:
    """The ABI version of Landlock in the running Linux kernel; 0 if there is none."""
    found = _libc.syscall(_CREATE, None, ctypes.c_size_t(0), _VERSION)
    return max(0, int(found))


def ruleset(readable: Iterable[Path], writable: Iterable[Path], devices: Iterable[Path]) -> int:
    """The descriptor of rules that deny access to all other files. The caller must close it.

    Files in `readable` may be read and executed. In `writable`, everything except creating devices
    is allowed. `devices` may be read and written. Paths that do not exist are left out. Raises
    `OSError`.
    """
    version = abi()
    rights = (1 << _RIGHTS[min(version, max(_RIGHTS))]) - 1
    attributes = _Ruleset(rights, _NETWORK if version >= 4 else 0, _SCOPES if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    rules = _checked(_libc.syscall(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(size), 0))
    try:
        for path in readable:
            _allow(rules, path, _READ & rights)
        for path in devices:
            _allow(rules, path, (_READ_FILE | _WRITE_FILE) & rights)
        for path in writable:
            _allow(rules, path, rights & ~_NODES)
    except BaseException:
        os.close(rules)
        raise
    return rules


def restrict_self(rules: int) -> None:
    """Apply rules to this thread permanently; requires `no_new_privs`. Raises `OSError`."""
    _checked(_libc.syscall(_RESTRICT, rules, 0))


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = rights if path.is_dir() else rights & _OF_A_FILE
        rule = _PathBeneath(allowed, parent)
        _checked(_libc.syscall(_ADD_RULE, rules, _PATH_BENEATH, ctypes.byref(rule), 0))
    finally:
        os.close(parent)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(result)

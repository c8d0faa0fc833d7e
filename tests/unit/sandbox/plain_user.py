"""Runs a function in a child process, as a user without rights where the tests run as root."""

from __future__ import annotations

import ctypes
import os
import pickle
import shutil
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tilewright.sandbox import launcher

T = TypeVar("T")
NOBODY = 65534
_PR_SET_DUMPABLE = 4


def in_child(function: Callable[[], T], *, plain: bool) -> T:
    """What `function` returns in a forked child; `AssertionError` with its traceback if it fails.

    What a child does to itself (limits, containment) is gone with it.
    """
    if plain and os.geteuid() == 0:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)
            program = shutil.copy(launcher.find_program(), folder)
            return _in_child(function, program)
    return _in_child(function, None)


def _in_child(function: Callable[[], T], launcher_of_all: str | None) -> T:
    """The same. `launcher_of_all` is for a user without rights, who may not enter the folder of a
    checkout as its owner does.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if launcher_of_all is not None:
                launcher.find_program = lambda: launcher_of_all
                os.setgroups([])
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
                # As after a login: otherwise its own /proc would belong to root.
                ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
            result = (True, function())
        except BaseException:
            result = (False, traceback.format_exc())
        with open(writing, "wb") as pipe:  # noqa: PTH123 (a descriptor, not a path)
            pickle.dump(result, pipe)
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:  # noqa: PTH123
        data = pipe.read()
    os.waitpid(child, 0)
    assert data, "the child ended without a result"
    ended_well, value = pickle.loads(data)
    assert ended_well, value
    returned: T = value
    return returned

"""Runs a function in a child process, as a user without rights where the tests run as root."""

from __future__ import annotations

import ctypes
import os
import pickle
import traceback
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
NOBODY = 65534
_PR_SET_DUMPABLE = 4


def in_child(function: Callable[[], T], *, plain: bool) -> T:
    """What `function` returns in a forked child; `AssertionError` with its traceback if it fails.

    What a child does to itself (limits, containment) is gone with it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if plain and os.geteuid() == 0:
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

"""Tests whether tile instructions can run on this machine, which requires support by the CPU and by
the operating system.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

from tilewright.native.machine import processor
from tilewright.targets.amx.elements import Element

_ARCH_PRCTL = 158
_GET_SUPPORTED = 0x1021
"""ARCH_GET_XCOMP_SUPP: which parts of a process's state the system can save (arch_prctl(2))."""
_TILE_DATA = 1 << 18


def missing_feature(element: Element) -> str | None:
    """The missing CPU feature without which tile instructions cannot run, or None."""
    features = processor().features
    return next((f for f in ("amx_tile", element.feature) if f not in features), None)


def refusal(element: Element) -> str | None:
    """The reason why kernels cannot be timed on this machine, as a sentence, or None."""
    emulated = (
        f"kernels for {element.target} are checked with an emulation of the tile instructions "
        "and cannot be timed"
    )
    lacking = missing_feature(element)
    if lacking is not None:
        return (
            f"this CPU ({processor().name}) has no {lacking}: {emulated}. To search for a "
            f"faster kernel, use a machine whose /proc/cpuinfo lists {lacking}."
        )
    reason = tile_data_refused()
    if reason is None:
        return None
    return f"this CPU has tiles, but {reason}. Until then, {emulated}."


@cache
def tile_data_refused() -> str | None:
    """The reason why the system does not permit tile data, with a remedy, or None."""
    libc = ctypes.CDLL(None, use_errno=True)
    supported = ctypes.c_uint64()
    if libc.syscall(_ARCH_PRCTL, _GET_SUPPORTED, ctypes.byref(supported)) == 0:
        if supported.value & _TILE_DATA:
            return None
        return (
            "the system does not save their data (boot without clearcpuid, or expose AMX to this "
            "virtual machine)"
        )
    code = ctypes.get_errno()
    if code == errno.EINVAL:
        return f"Linux {os.uname().release} cannot save their data (5.16 or later can)"
    return (
        f"the request for permission to use tile data failed ({os.strerror(code)}): allow "
        "arch_prctl in the "
        "container"
    )

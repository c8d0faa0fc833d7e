"""The addresses of a kernel's arguments in the simulated memory."""

from __future__ import annotations

from collections.abc import Sequence

ARGUMENTS_BASE = 0x9000_0000
PAGE_BYTES = 4096


def argument_addresses(sizes: Sequence[int]) -> list[int]:
    """Page-aligned addresses for arrays of these sizes in bytes, each followed by an unmapped page.

    A kernel that accesses memory after the end of an array reaches the unmapped page instead of the
    next array.
    """
    addresses = []
    address = ARGUMENTS_BASE
    for size in sizes:
        addresses.append(address)
        pages = -(-size // PAGE_BYTES) + 1
        address += pages * PAGE_BYTES
    return addresses

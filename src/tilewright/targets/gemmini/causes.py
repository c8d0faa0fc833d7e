"""The meanings of the entries of a breakdown, which are the simulator's counters in cycles.

The exclusive causes describe the state of the array and add up to all cycles. The other causes
overlap with them. The order of the exclusive causes is that of the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.core.records import Cause

_EXCLUSIVE: Mapping[str, str] = {
    "array_busy": "the array works",
    "bank_conflict": "two operands of a product share a scratchpad bank",
    "write_steal": "a load writes the scratchpad bank that the array reads",
    "dma_wait": "the array waits for a load",
    "store_wait": "the array waits for a store to read its accumulator rows",
    "dependency": "the array waits for its own products, or for a command that was just sent",
    "rs_full_load": "a load finds its queue full and delays the products after it",
    "rs_full_store": "a store finds its queue full and delays the products after it",
    "cpu": "the core runs other instructions",
    "cpu_fetch": "the core fetches instructions that are not in its cache",
    "cpu_data": "the core loads or stores data that are not in its cache",
    "cpu_literal": "the core loads a constant that the compiler put in memory",
    "fence": "the core waits at a fence",
    "drain": "config_ex waits until the array is empty, or the last results leave the array",
}
_OVERLAPPING: Mapping[str, str] = {
    "preloads_alone": "the array reads the block of a preload without also computing a product",
    "product_rows": "the number of rows of A in all products, which is the minimum number of "
    "cycles for these products",
    "rs_full_execute": "a preload or a compute waits for a free entry in its queue",
    "full_store_products": "a store finds its queue full, because the first store in the queue "
    "waits until products have left the array",
    "full_store_bank": "a store finds its queue full, because the store in progress waits for its "
    "bank",
    "accumulator_port": "a row waits to be stored, because the array or a load uses the "
    "accumulator bank of this row",
    "command_wait": "the core waits because the command queue is full",
    "fence_wait": "the core waits at a fence, whether or not the array works",
    "fetch_wait": "the core waits for instructions, whether or not the array works",
    "data_wait": "the core waits for data, whether or not the array works",
    "literal_wait": "the core waits for constants in memory, whether or not the array works",
    "l2_hit": "DMA requests that the L2 cache serves (number of requests, not of cycles)",
    "l2_miss": "DMA requests that go to DRAM (number of requests, not of cycles)",
    "mispredictions": "branches and jumps that the core mispredicts (number of branches and jumps, "
    "not of cycles)",
}

CAUSES = (
    *(Cause(name, meaning, exclusive=True) for name, meaning in _EXCLUSIVE.items()),
    *(Cause(name, meaning) for name, meaning in _OVERLAPPING.items()),
)
EXCLUSIVE = tuple(_EXCLUSIVE)
"""The causes of which each cycle has exactly one."""

LOSSES: Mapping[str, str] = {
    name: meaning for name, meaning in _EXCLUSIVE.items() if name != "array_busy"
}
"""The exclusive causes of cycles in which the array does not work, with their meanings."""

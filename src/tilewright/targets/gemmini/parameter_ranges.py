"""The allowed ranges of parameters, and the conditions between parameters.

The limits are those of the public Gemmini RTL, or of the model if the code says so. Every refusal
is one sentence that names the parameter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

ARRAY_SIZES = (4, 8, 16, 32)
"""The numbers of rows and columns of arrays that are modelled."""

_MAY_BE_ZERO = {
    "array_element_type",
    "accumulator_scaled_loads",
    "array_tile_latency",
    "array_output_delay",
    "array_flush_cycles",
    "l2_probe_latency",
    "l2_store_miss_cycles",
    "dma_issue_latency",
    "cpu_branch_miss",
    "cpu_fence_latency",
    "cpu_l1_refill",
    "cpu_fetch_refill",
}
_POWERS_OF_TWO = (
    "scratchpad_banks",
    "scratchpad_bank_rows",
    "accumulator_banks",
    "accumulator_bank_rows",
    "l2_bytes",
    "l2_ways",
    "l2_line_bytes",
    "dma_bus_bytes",
    "dma_max_request_bytes",
    "cpu_branch_directions",
    "cpu_multiply_bits",
    "cpu_l1_bytes",
    "cpu_l1_ways",
)


_MOST = {
    # The model keeps one bit for each entry and bank.
    "commands_load_entries": 32,
    "commands_execute_entries": 32,
    "commands_store_entries": 32,
    "scratchpad_banks": 16,
    "accumulator_banks": 8,
    "accumulator_scaled_loads": 1,
    "array_output_bits": 32,
    "cpu_multiply_bits": 32,
    # Far more than any design has; with more, the model would be too slow.
    "array_minimum_rows": 64,
    "l2_mshrs": 256,
}
_LEAST = {
    "scratchpad_banks": 2,  # the RTL has no design with one bank
    # The execute controller looks at three commands at once: a compute, the next preload and its
    # compute.
    "commands_execute_queue": 3,
    "commands_execute_entries": 3,
    "cpu_branch_directions": 8,  # three bits of the index are a hash of the branch history
}
_MAX_LOCAL_BYTES = 64 << 20  # maximum size of each local memory in the simulator
_BYTES = (1, 4, 4)  # sizes of the element types, by their number
_INT8, _FP32, _INT32 = range(3)
_SUMS = {_INT8: _INT32, _FP32: _FP32}


def dotted(name: str) -> str:
    """The name of a parameter in the form of target.toml."""
    section, _, key = name.partition("_")
    return f"simulator.{section}.{key}"


def impossible(parameters: Mapping[str, int]) -> str | None:
    """A sentence on what is wrong with a complete set of parameters, or None."""
    for name, must in chain(_ranges(parameters), _between(parameters)):
        return f"{dotted(name)} = {_shown(name, parameters[name])} is impossible: it must {must}"
    return None


def _shown(name: str, value: int) -> str:
    return ("int8", "fp32", "int32")[value] if name.endswith("element_type") else str(value)


def _ranges(p: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Parameters that are wrong independently of the others, each with its requirement."""
    if p["array_dim"] not in ARRAY_SIZES:
        yield "array_dim", f"be one of {', '.join(map(str, ARRAY_SIZES))}."
    for name, value in p.items():
        least = _LEAST.get(name, 0 if name in _MAY_BE_ZERO else 1)
        most = _MOST.get(name, 1 << 24)
        if not least <= value <= most:
            yield name, f"be between {least} and {most}."
    for name in _POWERS_OF_TWO:
        if p[name].bit_count() != 1:
            yield name, "be a power of two."


def _between(p: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """Parameters that conflict with others, each with its requirement. Called only if all
    parameters are in their ranges.
    """
    dim, element = p["array_dim"], p["array_element_type"]
    row_bytes = {
        "scratchpad": dim * _BYTES[element],
        "accumulator": dim * _BYTES[p["accumulator_element_type"]],
    }
    if p["accumulator_element_type"] != _SUMS[element]:
        yield (
            "accumulator_element_type",
            "be int32 for int8 elements and fp32 for fp32 elements, so that it holds their sums.",
        )
    if element == _INT8 and p["accumulator_scaled_loads"]:
        yield "accumulator_scaled_loads", "be 0 for int8 elements: int32 sums have no scaler."
    needed = (dim * 2**14 + 2**7).bit_length() + 1
    if element == _INT8 and p["array_output_bits"] < needed:
        yield (
            "array_output_bits",
            f"be at least {needed}, or the sum of {dim} int8 products and a bias overflows.",
        )
    yield from _memories(p, row_bytes)
    yield from _moves(p)


def _memories(p: Mapping[str, int], row_bytes: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    dim = p["array_dim"]
    columns = dim * max(1, p["dma_max_request_bytes"] // row_bytes["scratchpad"])
    for memory in ("scratchpad", "accumulator"):
        name, rows = f"{memory}_bank_rows", p[f"{memory}_bank_rows"]
        if rows % dim:
            yield name, f"be a multiple of the array's {dim} rows."
        total = rows * p[f"{memory}_banks"]
        if total * row_bytes[memory] > _MAX_LOCAL_BYTES:
            yield name, f"give a {memory} of at most {_MAX_LOCAL_BYTES >> 20} MiB."
        held = rows if memory == "scratchpad" else total // 2
        if held < columns:
            yield (
                name,
                f"hold the widest move, {columns} rows, in "
                f"{'one bank' if memory == 'scratchpad' else 'half of the accumulator'}.",
            )


def _moves(p: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    if p["dma_bus_bytes"] > p["dma_max_request_bytes"]:
        yield (
            "dma_bus_bytes",
            f"be at most the {p['dma_max_request_bytes']} bytes of dma.max_request_bytes.",
        )
    if p["dma_max_request_bytes"] > p["l2_line_bytes"]:
        yield (
            "dma_max_request_bytes",
            f"be at most an L2 line of {p['l2_line_bytes']} bytes: a request lies in one line.",
        )
    if p["l2_ways"] * p["l2_line_bytes"] > p["l2_bytes"]:
        yield "l2_bytes", "hold at least one line for every way."
    if p["cpu_l1_ways"] * p["l2_line_bytes"] > p["cpu_l1_bytes"]:
        yield "cpu_l1_bytes", "hold at least one line for every way."

"""Counts of what a traced kernel does, which show the options of the menu that cannot help it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tilewright.targets.trainium import techniques
from tilewright.targets.trainium.latency.costs import is_slow_pair
from tilewright.targets.trainium.trace import Access, Instruction, Trace

NAMES = (
    "float32_products",
    "additions_of_tiles",
    "two_cycle_pairs",
    "copies_and_memsets",
    "converting_copies",
    "selections",
    "scans",
    "statistics",
    "squares",
    "transposes",
    "on_few_partitions",
    "broadcast_loads",
    "converting_transfers",
    "single_element_transfers",
    "bytes_loaded_again",
    "bytes_of_intermediates",
    *techniques.NAMES,
)
"""All counts; `techniques.py` describes the last ones. Products include transposes on PE, and
copies include those by activations. A two-cycle pair is a `tensor_tensor` on DVE that would be
faster with an operand in PSUM. Statistics are `bn_stats`, squares are powers and products of a
tile with itself, transposes are those of engines, instructions on few partitions access at most
half of the partitions, and intermediates are what a kernel stores in HBM and loads again."""
_FEW = 64
_SELECTIONS = {
    "select",
    "affine_select",
    "select_reduce",
    "range_select",
    "tensor_copy_predicated",
}


def counts_of(trace: Trace) -> dict[str, float]:
    """Every count of `NAMES`."""
    found: Counter[str] = Counter()
    loads, contained = _Loads(), techniques.Techniques()
    for one in trace.instructions:
        contained.add(one)
        if one.engine == "dma":
            found.update(_of_transfer(one))
            loads.add(one)
        else:
            found.update(_of_instruction(one))
    found.update(contained.counts)
    found["bytes_loaded_again"] = loads.again()
    found["bytes_of_intermediates"] = loads.intermediates()
    return {name: float(found[name]) for name in NAMES}


def _of_instruction(one: Instruction) -> Mapping[str, int]:
    name, attributes = one.opcode, one.attributes
    operations = {attributes.get(key) for key in ("op", "op0", "op1")}
    copies = name == "tensor_copy" or (name == "activation" and attributes.get("op") == "copy")
    tiles = name in ("tensor_tensor", "scalar_tensor_tensor")
    return {
        "float32_products": one.engine == "pe" and _is_wide(one),
        "additions_of_tiles": tiles and "add" in operations,
        "two_cycle_pairs": name == "tensor_tensor" and one.engine == "dve" and is_slow_pair(one),
        "copies_and_memsets": copies or name == "memset",
        "converting_copies": copies and _converts(one),
        "selections": name in _SELECTIONS,
        "scans": name == "tensor_tensor_scan",
        "statistics": name == "bn_stats",
        "transposes": name == "nc_transpose" or "is_transpose" in attributes,
        "on_few_partitions": all(a.partitions <= _FEW for a in (*one.reads, *one.writes)),
        "squares": bool(operations & {"square", "power"})
        or ("multiply" in operations and tiles and len({_place(a) for a in one.reads[:2]}) == 1),
    }


def _of_transfer(one: Instruction) -> Mapping[str, int]:
    accesses = (*one.reads, *one.writes)
    hbm = [access for access in accesses if access.tensor.memory == "hbm"]
    loads = [access for access in one.reads if access.tensor.memory == "hbm"]
    return {
        "broadcast_loads": any(a.partitions > 1 and not a.partition_step for a in loads),
        "converting_transfers": _converts(one),
        "single_element_transfers": one.opcode == "dma_transpose"
        or any(a.pattern.run == 1 < a.elements for a in hbm),
    }


def _place(access: Access) -> tuple[object, ...]:
    return access.tensor.id, access.start_partition, access.offset, access.pattern.dims


def _is_wide(one: Instruction) -> bool:
    return any(access.tensor.dtype == "float32" for access in one.reads)


def _converts(one: Instruction) -> bool:
    return len({access.tensor.dtype for access in (*one.reads[:1], *one.writes)}) > 1


class _Loads:
    """What transfers read from HBM."""

    def __init__(self) -> None:
        self._read: Counter[int] = Counter()
        self._repeated: Counter[int] = Counter()
        self._sizes: dict[int, int] = {}
        self._written: set[int] = set()
        self._seen: set[tuple[object, ...]] = set()

    def add(self, one: Instruction) -> None:
        """Take account of one transfer."""
        for access in one.reads:
            if access.tensor.memory == "hbm":
                self._load(access)
        self._written.update(a.tensor.id for a in one.writes if a.tensor.memory == "hbm")

    def _load(self, access: Access) -> None:
        tensor = access.tensor
        key = (tensor.id, access.offset, access.pattern, access.partition_step, access.partitions)
        # A row that all partitions receive is one row.
        copies = 1 if access.partition_step else access.partitions
        self._read[tensor.id] += access.bytes // copies
        self._sizes[tensor.id] = tensor.bytes_per_partition * tensor.partitions
        if key in self._seen:
            self._repeated[tensor.id] += access.bytes
        self._seen.add(key)

    def again(self) -> int:
        """Bytes that were read although the same transfer, or all of the tensor, had been read. The
        copies of one transfer for several partitions do not count."""
        return sum(
            max(self._repeated[tensor], read - self._sizes[tensor])
            for tensor, read in self._read.items()
        )

    def intermediates(self) -> int:
        """Bytes read of tensors that the kernel itself stored."""
        return sum(read for tensor, read in self._read.items() if tensor in self._written)

"""Describes the fault that ended a kernel on the CPU: the rule, the line and the thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewright.core.records import Argument, Failed
from tilewright.parts.languages import CUDA

KINDS = {
    "not_checked": "only a GPU can run the kernel (inline PTX, libraries); it may be correct",
    "barrier": "threads wait at a barrier or for their warp, but other threads never arrive",
    "launch_failure": "a launch that every GPU refuses, because it has too many threads, blocks "
    "or bytes",
    "undefined": "an operation for which C++ defines no result, and which a GPU and a CPU compute "
    "differently",
    "misaligned": "a vector access to an address that is not a multiple of its size",
    "host_access": "host code accesses device memory",
    "unfinished": "an output changed after the kernel had returned, or the default stream does not "
    "wait for work in another stream",
    "keeps_memory": "the kernel keeps memory of the device from one call to the next",
    "keeps_state": "variables of the kernel still change after its first call, and the new values "
    "depend on earlier calls",
    "race": "threads access the same element, and nothing orders the accesses",
}
"""Kinds of failure that only this target has."""

_SMALLER = "give smaller shapes"
_PART = f"not checked: a call is too large for the CPU ({_SMALLER}). Only some blocks are run there"

_NOT_JOINED = (
    "the kernel returns although nothing lets the default stream wait for this work of another "
    "stream. Record an event after it, and let the default stream wait for the event "
    "(cudaEventRecord, cudaStreamWaitEvent)"
)

_AT_A_LINE: dict[str, tuple[str, str]] = {
    "divergent_barrier": (
        "barrier",
        "threads of one block wait at different barriers, at lines {0} and {1}",
    ),
    "divergent_warp": (
        "barrier",
        "threads of one warp meet in different operations, at lines {0} and {1}",
    ),
    "deadlock_barrier": (
        "barrier",
        "{1} threads wait at this barrier forever, because other threads of the block wait "
        "elsewhere",
    ),
    "deadlock_warp": (
        "barrier",
        "threads wait for their warp forever, because other threads in the mask never arrive",
    ),
    "not_in_mask": ("barrier", "a thread takes part although its own mask does not contain it"),
    "launch_threads": (
        "launch_failure",
        "a block of {1} threads: from 1 to 1024 are possible, 64 in z",
    ),
    "launch_grid": (
        "launch_failure",
        "a grid of {1} blocks: at least one, and at most 65535 in y and z, are possible",
    ),
    "launch_shared": (
        "launch_failure",
        "{1} bytes of dynamic shared memory: more than 49152 bytes must be requested with "
        "cudaFuncSetAttribute, and no GPU has more than 232448",
    ),
    "nested_launch": ("not_checked", "not checked: a launch from within a kernel"),
    "part_launches": (
        "not_checked",
        f"{_PART}, which is possible only for a kernel that consists of one launch; this is a "
        "second one",
    ),
    "part_atomic": (
        "not_checked",
        f"{_PART}, which cannot check an element to which several blocks contribute by atomic "
        "operations on global memory",
    ),
    "part_of_a_block": (
        "not_checked",
        f"not checked: one of its {{1}} blocks takes too many operations for the CPU; {_SMALLER}",
    ),
    "not_joined": ("unfinished", _NOT_JOINED),
    "stale_read": (
        "race",
        "__ldg reads an element that the same launch has written: on a GPU, its cache may contain "
        "the old value. Use a plain read",
    ),
    "false_promise": (
        "undefined",
        "__builtin_assume or __builtin_assume_aligned promises nvcc something that does not hold",
    ),
    "trap": (
        "crash",
        "the kernel stopped with __trap, or an assertion of its host code failed",
    ),
}
"""Rules by the name that the runtime uses for them, with the kind of failure. The line is the first
argument."""
_OF_THE_HOST: dict[str, tuple[str, str]] = {
    "bad_free": ("illegal_address", "host code frees memory that it did not allocate"),
    "keeps_memory": (
        "keeps_memory",
        "the kernel returns without freeing {0} bytes that it has allocated on the device",
    ),
    "keeps_state": (
        "keeps_state",
        "what a call leaves in {2} depends on earlier calls, as if the kernel counted its calls. "
        "After the first call, variables that are not local may only hold values that each call "
        "writes again; allocate memory for everything else with cudaMalloc in each call",
    ),
    "copy_out_of_bounds": ("illegal_address", "host code copies beyond an array"),
    "input_modified": ("input_modified", "host code writes to an input"),
    "part_host_writes": (
        "not_checked",
        f"{_PART}, which cannot check a kernel whose host code fills an output or copies to it",
    ),
}
_RACES = {
    "write_write": ("changes", "writes"),
    "read_write": ("changes", "reads"),
    "write_read": ("reads", "writes"),
    "atomic_write": ("writes", "changes by an atomic operation"),
    "write_atomic": ("changes by an atomic operation", "writes"),
}
"""The access of the thread that is named, and that of the other thread."""
_RACED = {-2: "an element of shared memory", -3: "a variable of the device"}
_SCRATCH = "an element of an allocated array"
_WHOSE = {
    "thread": (
        "thread of the same block",
        "A barrier between them, or an atomic operation, is missing",
    ),
    "block": (
        "thread of another block",
        "Blocks run at the same time: use atomic operations, or let each block write different "
        "elements",
    ),
    "fence": (
        "thread of another block",
        "Both blocks use atomic operations, but a write may become visible after the atomic "
        "operation that follows it: call __threadfence() between them",
    ),
}
_FAULTS = {
    "misaligned": ("misaligned", "an access to an address that is not a multiple of its size"),
    "undefined_shift": (
        "undefined",
        "a shift by a negative number of bits, or by at least the width of the type: C++ does not "
        "define the result, and a GPU and a CPU give different ones. Check the number of bits "
        "first",
    ),
    "undefined_conversion": (
        "undefined",
        "a conversion of a float to an integer type that cannot hold it: C++ does not define the "
        "result, and a GPU and a CPU give different ones. Limit the number first, or call a "
        "function such as __float2int_rz, which gives the nearest possible number",
    ),
    "local_of_another": (
        "illegal_address",
        "an access to a local variable of another thread: on a GPU, the address names a variable "
        "of the thread that uses it. Exchange values through shared memory or by warp functions",
    ),
    "unreachable": ("undefined", "a thread reaches __builtin_unreachable()"),
    "no_return": ("undefined", "a function ends without the value that it must return"),
    "divided_by_zero": ("illegal_instruction", "an integer division by zero"),
    "host_access": ("host_access", "host code accesses an array in device memory"),
    "input_modified": ("input_modified", "the kernel writes to an input"),
}


def failed_by(
    report: Sequence[Sequence[str]],
    arguments: Sequence[Argument],
    line_of: Callable[[int], int | None],
    name_of: Callable[[int], str],
    printed: str,
) -> Failed:
    """The failure in a report; a crash if the report contains none.

    `line_of` gives the source line of an instruction, `name_of` the variable at an address.
    """
    for row in report:
        try:
            if row[0] == "failed":
                return _broken_rule(row, name_of)
            if row[0] == "race":
                return _race(row, arguments, line_of)
            if row[0] == "fault":
                return _fault(row, arguments, line_of)
        except (IndexError, KeyError, ValueError):
            break
    return Failed(
        "check", "crash", f"the kernel's process on the CPU ended early. {printed}".strip()
    )


def _broken_rule(row: Sequence[str], name_of: Callable[[int], str]) -> Failed:
    kind, words = _AT_A_LINE.get(row[1]) or _OF_THE_HOST[row[1]]
    first, second = int(row[2]), int(row[3])
    line = first if row[1] in _AT_A_LINE and first > 0 else None
    name = name_of(first) if row[1] == "keeps_state" else ""
    log = CUDA.located(f"{words.format(first, second, name)}{_where(row[4:])}.", line)
    return Failed("check", kind, log, line)


def _fault(
    row: Sequence[str], arguments: Sequence[Argument], line_of: Callable[[int], int | None]
) -> Failed:
    _, name, *numbers = row
    pc, index, offset, size, written = map(int, numbers[:5])
    line = -pc if pc < 0 else line_of(pc)
    touched = arguments[index].name if 0 <= index < len(arguments) else "an allocated array"
    if name in _FAULTS:
        kind, words = _FAULTS[name]
        if index >= 0:
            words += f" ({touched})"
    else:
        kind, words = "illegal_address", "a write to" if written else "a read of"
        if index < 0:
            words += " memory outside every array, or next to a shared or local array"
        elif offset < 0:
            words += f" {touched}, {-offset} bytes before its beginning"
        else:
            words += f" {touched}, {offset - size} bytes after its end"
    return Failed("check", kind, CUDA.located(f"{words}{_where(numbers[5:])}.", line), line)


def _race(
    row: Sequence[str], arguments: Sequence[Argument], line_of: Callable[[int], int | None]
) -> Failed:
    _, kind, pc, other_pc, index, whose, *numbers = row
    line, other = (-int(at) if int(at) < 0 else line_of(int(at)) for at in (pc, other_pc))
    work, other_work = map(int, numbers[:2])
    does, other_does = _RACES[kind]
    touched = _touched(int(index), arguments, _SCRATCH)
    where = f" at line {other}" if other else ""
    if whose == "work":
        log = (
            f"a data race between streams: the work of line {work}{_where(numbers[2:])} {does} "
            f"{touched}{f' at line {line}' if line else ''}, which the work of line {other_work} "
            f"{other_does}{where}. Nothing lets the stream of line {work} wait for it: record an "
            "event after that work, and then call cudaStreamWaitEvent."
        )
        return Failed("check", "race", CUDA.located(log, work or line), work or line)
    other_thread, advice = _WHOSE[whose]
    log = (
        f"a data race: a thread{_where(numbers[2:])} {does} {touched} that another {other_thread} "
        f"{other_does}{where}, and nothing orders the two accesses. {advice}."
    )
    fault = other if whose == "fence" else line
    return Failed("check", "race", CUDA.located(log, fault), fault)


def _touched(index: int, arguments: Sequence[Argument], other: str) -> str:
    return f"an element of {arguments[index].name}" if index >= 0 else _RACED.get(index, other)


def unset_by(
    report: Sequence[Sequence[str]],
    arguments: Sequence[Argument],
    line_of: Callable[[int], int | None],
) -> Failed | None:
    """The first read in a report of an element that no thread has written, or None."""
    for row in report:
        try:
            if row[0] != "unset":
                continue
            index = int(row[2])
            if index >= 0 and arguments[index].role != "output":
                continue
            line = line_of(int(row[1])) if int(row[1]) >= 0 else -int(row[1])
        except (IndexError, ValueError):
            return None
        log = (
            f"a thread{_where(row[3:])} reads {_touched(index, arguments, _SCRATCH)} that nothing "
            "has written before."
        )
        return Failed("check", "wrong_result", CUDA.located(log, line), line)
    return None


def _where(numbers: Sequence[str]) -> str:
    if len(numbers) != 6:
        return ""
    block, thread = ", ".join(numbers[:3]), ", ".join(numbers[3:])
    return f" (block {block}; thread {thread})"

"""Instructions of x86-64 as GNU objdump prints them (AT&T syntax)."""

from __future__ import annotations

import re
from itertools import pairwise

from tilewright.parts.machine_code.instructions import Class, Flow, Instruction

ARCHITECTURE = "x86-64"

_LINE = re.compile(r"^\s*([0-9a-f]+):\t(.+)$", re.MULTILINE)
_COMMENT = re.compile(r"\s*(?:#|<).*$")
_PREFIX = re.compile(
    r"^(?:(?:rep|repz|repnz|lock|bnd|notrack|data16|[cdefgs]s|rex(?:\.\w+)?|\{\w+\})\s+)+"
)
_MEMORY = re.compile(
    r"(?:%[c-g]s:)?(?P<offset>-?(?:0x[0-9a-f]+|\d+))?"
    r"\((?P<base>%\w+)?(?:,(?P<index>%\w+)(?:,\d)?)?\)"
)
_ABSOLUTE = re.compile(r"^(?:%[c-g]s:)?(?:0x[0-9a-f]+|\d+)$")
_TARGET = re.compile(r"^(?:0x)?([0-9a-f]+)$")
_VECTOR_REGISTER = re.compile(r"%([xyz])mm\d+")
_BYTES = {"x": 16, "y": 32, "z": 64}

_JUMP = re.compile(r"^jmpq?$")
_BRANCH = re.compile(r"^(?:j\w+|loop\w*|xbegin)$")
_RETURN = re.compile(r"^(?:ret\w*|iret\w*|ud[012]|hlt|\(bad\))$")
_CALL = re.compile(r"^callq?$")
_TILES = re.compile(r"^(?:ldtilecfg|sttilecfg|tile\w+|tdp\w+)$")
_OTHER = re.compile(r"^(?:nop\w*|[lsm]fence|prefetch\w*|vzero\w+|endbr\w+|pause|cpuid|rdtscp?)$")
_SINGLE = re.compile(
    r"^(?!v?(?:p|broadcast))[a-z]\w*(?:ss|sd|sh)$|^v?cvtt?s[sdh]2\w+$|^v?u?comis[sdh]$"
)
"""Instructions on one float in a vector register."""
_XOR = re.compile(r"^v?p?xor(?:[dq]|p[sd])?$")
_PART = re.compile(
    r"broadcast|cvt|gather|scatter|extract|insert|extr[bwdq]|pins|pmov|compress|expand"
    r"|^v?mov(?:[dq]|s[sdh]|[hl]p[sd]|ddup)$"
)
"""Vector instructions that access fewer bytes of memory than their registers have."""
_VECTOR_MOVE = re.compile(
    r"^v?(?:mov|lddqu|perm|p?shuf|p?unpck|p?insert|insr|p?extr|extract|p?broadcast|palignr|align"
    r"|p?blend|pack|p?pack|pmov|pins|maskmov|pmaskmov|p?gather|p?scatter|p?compress|p?expand"
    r"|kmov|pslldq|psrldq)"
)
_WORK = {
    "multiply-adds": re.compile(
        r"^v(?:fn?m(?:add|sub)|pdp[bw]|dpbf16|pmadd52)|^v?pmadd(?:wd|ubsw)"
    ),
    "shifts and logic": re.compile(r"^v?p?(?:andn?|x?or|ternlog|s[lr]l|sra|ro[lr]|sh[lr]d)"),
    "conversions": re.compile(r"^v?cvt"),
}
"""Vector arithmetic that is done by different units, in words."""
_MOVE = re.compile(r"^(?:mov\w*|push\w*|pop\w*|lods\w*|stos\w*|xchg\w*|cmov\w+|k?mov\w+)$")
_ADDRESS_ONLY = re.compile(r"^(?:lea\w?|nop\w*|prefetch\w*|clflush\w*)$")
_REGISTER_EXTENSION = re.compile(
    r"^(?:movs[bwl][wlq]|movz[bw][wlq]|movs[bwl]\w?|c[bwl]t[wldq]\w?)$"
)
_TWO_WAY = re.compile(
    r"^(?:add|sub|and|or|xor|adc|sbb|inc|dec|neg|not|shl|shr|sar|sal|rol|ror|xadd|bt[src])[bwlq]?$"
)
"""Instructions that read and write their last operand."""
_READS_ONLY = re.compile(r"^(?:cmp|test|bt|v?u?comis|v?ptest|vtest|mul|imul|div|idiv)")
"""Instructions that write no memory, whatever their last operand is."""


def read_objdump(text: str, end: int) -> list[Instruction]:
    """Parse the output of `objdump -d --no-show-raw-insn`; the code ends at `end`."""
    found = [(int(line[1], 16), _COMMENT.sub("", line[2]).strip()) for line in _LINE.finditer(text)]
    has_frame = any(re.match(r"movq?\s+%rsp,%rbp$", words) for _, words in found)
    ends = [after for _, (after, _) in pairwise(found)] + [end]
    return [
        _instruction(address, after - address, words, has_frame=has_frame)
        for (address, words), after in zip(found, ends, strict=True)
        if address < end
    ]


def _instruction(address: int, size: int, words: str, *, has_frame: bool) -> Instruction:
    name, operands = _parts(words)
    text = " ".join(words.split())
    flow, target = _flow(name, operands)
    memory = None if _ADDRESS_ONLY.match(name) else _memory(operands)
    reads, writes = _accesses(name, operands, memory)
    kind = _class(name, operands, flow, reads=reads, writes=writes)
    widest = max((_BYTES[w] for w in _VECTOR_REGISTER.findall(words)), default=0)
    return Instruction(
        address,
        size,
        text,
        kind,
        flow,
        target,
        reads=reads,
        writes=writes,
        frame=memory is not None and _in_frame(memory, has_frame=has_frame),
        extends=bool(_REGISTER_EXTENSION.match(name)) and memory is None,
        vector_bytes=widest if kind == "vector arithmetic" else 0,
        work=_work(name) if kind == "vector arithmetic" else "",
        accessed_bytes=widest if (reads or writes) and _is_whole(name, words) else 0,
        padding=name.startswith("nop") or text == "xchg %ax,%ax" or "cs nop" in text,
    )


def _is_whole(name: str, words: str) -> bool:
    """Whether an instruction accesses as many bytes of memory as its vector registers have."""
    return not (_PART.search(name) or _SINGLE.match(name) or "{1to" in words)


def _work(name: str) -> str:
    return next((work for work, pattern in _WORK.items() if pattern.match(name)), "")


def _parts(words: str) -> tuple[str, list[str]]:
    """Mnemonic without prefixes, and operands."""
    name, _, rest = _PREFIX.sub("", words).partition(" ")
    operands, depth, last = [], 0, ""
    for letter in rest.strip():
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            operands.append(last.strip())
            last = ""
        else:
            last += letter
    return name, [*operands, last.strip()] if last.strip() else operands


def _flow(name: str, operands: list[str]) -> tuple[Flow, int | None]:
    leads = _TARGET.match(operands[0]) if operands else None
    target = int(leads[1], 16) if leads else None
    if _RETURN.match(name):
        return "end", None
    if _CALL.match(name):
        return "call", target
    if _JUMP.match(name):
        return ("jump", target) if target is not None else ("end", None)
    if _BRANCH.match(name):
        return "branch", target
    return "next", None


def _memory(operands: list[str]) -> tuple[int, re.Match[str] | None] | None:
    """The operand that is in memory, and its parts if it contains registers."""
    for position, operand in enumerate(operands):
        found = _MEMORY.match(operand)
        if found:
            return position, found
        if _ABSOLUTE.match(operand) and not operand.startswith("$"):
            return position, None
    return None


def _accesses(
    name: str, operands: list[str], memory: tuple[int, re.Match[str] | None] | None
) -> tuple[bool, bool]:
    """Whether it reads memory, and whether it writes it."""
    if name.startswith("push"):
        return memory is not None, True
    if name.startswith("pop") and not name.startswith("popcnt"):
        return True, memory is not None
    if _BRANCH.match(name) or _CALL.match(name):
        return memory is not None and memory[1] is not None, False
    if memory is None:
        return False, False
    is_last = memory[0] == len(operands) - 1
    if name.startswith(("tilestored", "sttilecfg")):
        return False, True
    if not is_last or _READS_ONLY.match(name):
        return True, False
    if _TWO_WAY.match(name):
        return True, True
    return (True, False) if len(operands) == 1 else (False, True)


def _class(name: str, operands: list[str], flow: Flow, *, reads: bool, writes: bool) -> Class:
    if _CALL.match(name):
        return "calls"
    if flow != "next":
        return "branches"
    if _TILES.match(name):
        return "commands"
    if _OTHER.match(name) or name == "cs":
        return "other"
    if name == "xchg" and len(set(operands)) == 1:
        return "other"
    in_vectors = any(o.startswith(("%xmm", "%ymm", "%zmm", "%k")) for o in operands)
    is_move = bool(_VECTOR_MOVE.match(name)) if in_vectors else bool(_MOVE.match(name))
    if is_move and writes:
        return "stores"
    if is_move and reads:
        return "loads"
    if not in_vectors or _SINGLE.match(name):
        return "arithmetic"
    if _XOR.match(name) and len(set(operands)) == 1:  # sets a register to zero
        return "vector moves"
    return "vector moves" if is_move else "vector arithmetic"


def _in_frame(memory: tuple[int, re.Match[str] | None], *, has_frame: bool) -> bool:
    """Whether the operand is one word of the stack frame; local arrays have an index."""
    parts = memory[1]
    if parts is None or parts["index"]:
        return False
    offset = parts["offset"] or "0"
    return parts["base"] == "%rsp" or (
        has_frame and parts["base"] == "%rbp" and offset.startswith("-")
    )

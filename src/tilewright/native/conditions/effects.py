"""The operands that an instruction of x86-64 reads and writes, as far as this matters for a
dependence on data. Unknown instructions are assumed to read all their operands and to write the
last one.
"""

from __future__ import annotations

import re

from tilewright.native.conditions.listing import Instruction

FLAGS = "flags"
X87 = "x87"
CONDITIONS = re.findall(
    r"\w+", "nbe nae nge nle ae be ge le na nb nc ne ng nl no np ns nz pe po a b c e g l o p s z"
)
_ALTERNATIVES = "|".join(CONDITIONS)
_REGISTER = re.compile(r"%([a-z][a-z0-9]*|st\(\d\))")
_JUMP = re.compile(rf"^j({_ALTERNATIVES})$")
_SET = re.compile(rf"^set({_ALTERNATIVES})$")
_MOVE = re.compile(rf"^f?cmov({_ALTERNATIVES})[wlq]?$")
_CARRY = re.compile(r"^(?:sbb|adc)[bwlq]?$")
_ONLY_NAN = {"p", "np", "pe", "po"}

_COMPARES = re.compile(
    r"^(?:cmp[bwlq]?|test[bwlq]?|bt[wlq]?|v?u?comis[sdh]|k(?:or)?test[bwdq]|v?ptest|vtestp[sd])$"
)
_ONLY_FLAGS_OF_X87 = re.compile(r"^f(?:u?comi?p{0,2}|tst|ucompp|xam)$")
_FROM_STATUS = re.compile(
    r"^(?:f(?:u?comi?p{0,2}|tst|ucompp|xam)|fn?(?:stsw|stenv|save)|fi?stt?p?[slqt]{0,2}"
    r"|v?stmxcsr|xsave\w*)$"
)
_SETS_FLAGS = re.compile(
    r"^(?:add|sub|and|or|xor|neg|inc|dec|sh[lr]d?|sa[lr]|imul|mul|i?div|adc|sbb|ro[lr]|rc[lr]"
    r"|popcnt|[lt]zcnt|bs[fr]|bt[src]|andn|bls\w+|bzhi|bextr|xadd|cmpxchg)[bwlq]?$"
)
_OVERWRITES = re.compile(
    r"^(?:mov(?!l?hps|lps|lpd|hpd|hlps).*|lea[wlq]?|k?mov[bwdq]|cvt.*|popcnt[wlq]?|[lt]zcnt[wlq]?|bs[fr][wlq]?"
    r"|sqrt[sp][sd]|pshuf.*|pmovmskb|v(?!fm|fnm|pdp|pternlog|perm[it]2).*|k(?!mov)\w+|andn[lq]?"
    r"|bls\w+|rorx\w*|s[ah][rl]x\w*|bzhi\w*|bextr\w*|pdep\w*|pext\w*|mulx\w*)$"
)
_IN_A_AND_D = re.compile(r"^i?(?:mul|div)[bwlq]?$")
_SAME_GIVES_CONSTANT = re.compile(
    r"^(?:xor[bwlq]?|sub[bwlq]?|v?p?xor[dq]?|v?xorp[sd]|v?psub[bwdq]|v?pcmpeq[bwdq]|kx(?:n?or)[bwdq]"
    r"|v?pandn[dq]?|v?andnp[sd])$"
)
NOTHING = re.compile(
    r"^(?:nop\w*|endbr\w+|vzero\w+|prefetch\w*|ud[012]|[lsm]fence|pause|leave|cld|emms|hlt|int3)$"
)


def register(name: str) -> str:
    """The same name for all widths of a register."""
    if name.startswith("st"):
        return X87
    if name[1:3] == "mm" and name[0] in "xyz":
        return f"v{name[3:]}"
    if name.startswith("mm") or re.fullmatch(r"k[0-7]", name):
        return name
    if re.fullmatch(r"r\d+[dwb]?", name):
        return name[1:].rstrip("dwb")
    if name.startswith(("r", "e")) and len(name) == 3:
        name = name[1:]
    if len(name) == 3 and name.endswith("l"):  # sil, dil, bpl, spl
        name = name[:2]
    return name[0] if name[0] in "abcd" and len(name) == 2 and name[1] in "xlh" else name


def registers(operand: str) -> list[str]:
    """The registers that an operand names."""
    return [register(name) for name in _REGISTER.findall(operand)]


def in_memory(operand: str) -> bool:
    """Whether an operand of an instruction other than a jump is in memory."""
    return not operand.startswith(("$", "%"))


def condition(one: Instruction) -> str | None:
    """The condition of flags that a jump, move, or value depends on, if any.

    Conditions that only tell whether a number is NaN are left out, because inputs never are.
    """
    found = _JUMP.match(one.name) or _SET.match(one.name) or _MOVE.match(one.name)
    if found:
        return None if found[1] in _ONLY_NAN else found[1]
    return "b" if _CARRY.match(one.name) else None


def condition_for_nan(one: Instruction) -> str | None:
    """The condition of a jump, move or value that tells whether a number is NaN, if it is one."""
    found = _JUMP.match(one.name) or _SET.match(one.name) or _MOVE.match(one.name)
    return found[1] if found and found[1] in _ONLY_NAN else None


def from_status(one: Instruction) -> bool:
    """Whether the result comes from the stack of the x87 unit, or from flags that an operation on
    floating-point numbers sets, for instance because its result is not exact.
    """
    return bool(_FROM_STATUS.match(one.name))


def is_in_a_and_d(one: Instruction) -> bool:
    """Whether the result of a product or quotient of whole numbers is in registers a and d."""
    return len(one.operands) == 1 and bool(_IN_A_AND_D.match(one.name))


def is_branch(one: Instruction) -> bool:
    """Whether the instruction is a jump that depends on flags."""
    return bool(_JUMP.match(one.name))


def reads_flags(one: Instruction) -> bool:
    """Whether the result of the instruction depends on flags."""
    return bool(_SET.match(one.name) or _MOVE.match(one.name) or _CARRY.match(one.name))


def only_compares(one: Instruction) -> bool:
    """Whether the instruction writes flags and nothing else."""
    return bool(_COMPARES.match(one.name) or _ONLY_FLAGS_OF_X87.match(one.name))


def sets_flags(one: Instruction) -> bool:
    """Whether the instruction writes flags."""
    return bool(_SETS_FLAGS.match(one.name))


def keeps_its_target(one: Instruction) -> bool:
    """Whether the result also depends on the previous value of the last operand."""
    masked = "{%k" in one.operands[-1] and "{z}" not in one.operands[-1]
    if masked or _MOVE.match(one.name):
        return True
    if one.name in ("movss", "movsd", "imull", "imulq", "imulw"):
        return len(one.operands) < 3 and not any(map(in_memory, one.operands))
    return not (_OVERWRITES.match(one.name) or _SET.match(one.name))


def is_constant(one: Instruction) -> bool:
    """Whether the result is the same for all values of the operands, as of x - x."""
    if re.match(r"^v?pternlog", one.name) and one.operands[0] in ("$255", "$0xff", "$-1"):
        return True
    sources = one.operands[:2]
    same = len(one.operands) >= 2 and sources[0] == sources[1] and sources[0].startswith("%")
    return same and bool(_SAME_GIVES_CONSTANT.match(one.name))

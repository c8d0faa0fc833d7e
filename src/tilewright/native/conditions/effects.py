"""The operands that an instruction of x86-64 reads and writes, as far as this matters for a
dependence on data. Unknown instructions are assumed to read all their operands, and to write the
last one and the flags.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from tilewright.native.conditions.implicit import implicit_reads
from tilewright.native.conditions.listing import Instruction

FLAGS = "flags"
X87 = "x87"
KEPT = ("b", "bp", "sp", "12", "13", "14", "15")
"""The registers whose values functions keep."""
CONDITIONS = re.findall(
    r"\w+", "nbe nae nge nle ae be ge le na nb nc ne ng nl no np ns nz pe po a b c e g l o p s z"
)
_ALTERNATIVES = "|".join(CONDITIONS)
_REGISTER = re.compile(r"%([a-z][a-z0-9]*|st\(\d\))")
_JUMP = re.compile(rf"^j({_ALTERNATIVES})$")
_SET = re.compile(rf"^set({_ALTERNATIVES})$")
_MOVE = re.compile(rf"^f?cmov({_ALTERNATIVES})[wlq]?$")
_LEA = re.compile(r"^lea[wlq]?$")
_CARRY = re.compile(r"^(?:sbb|adcx?)[bwlq]?$")
_READS_FLAGS = re.compile(r"^(?:rc[lr][bwlq]?|adox[lq]?|pushf[wq]?)$")
_ONLY_NAN = {"p", "np", "pe", "po"}

_COMPARES = re.compile(
    r"^(?:cmp[bwlq]?|test[bwlq]?|bt[wlq]?|v?u?comis[sdh]|k(?:or)?test[bwdq]|v?ptest|vtestp[sd])$"
)
_ONLY_FLAGS_OF_X87 = re.compile(r"^f(?:u?comi?p{0,2}|tst|ucompp|xam)$")
_FROM_STATUS = re.compile(
    r"^(?:f(?:u?comi?p{0,2}|tst|ucompp|xam)|fn?(?:stsw|stenv|save)|fi?stt?p?[slqt]{0,2}"
    r"|v?stmxcsr|xsave\w*|rd(?:rand|seed|pid|[fg]sbase)[wlq]?)$"
)
_SETS_FLAGS = re.compile(
    r"^(?:add|sub|and|or|xor|neg|inc|dec|sh[lr]d?|sa[lr]|imul|mul|i?div|adc|sbb|ro[lr]|rc[lr]"
    r"|popcnt|[lt]zcnt|bs[fr]|bt[src]|andn|bls\w+|bzhi|bextr|xadd|cmpxchg)[bwlq]?$"
)
_OF_AVX = (
    r"v(?:add|sub|mul|div|min|max|sqrt|andn?|x?or|hadd|hsub|addsub|unpck[lh]|shuf|blend[vm]?|cmp\w*"
    r"|round|rcp(?:14|28)?|rsqrt(?:14|28)?|rndscale|reduce|range|getexp|getmant|scalef|fpclass"
    r"|perm(?:il)?|compress|expand)[sp][sdh]\w*"
    r"|v(?:mov|cvt|extract|insert|broadcast|align|lddqu|mpsadbw|dbpsadbw|dpp[sd]|gf2p8|aes|perm2"
    r"|maskmov)\w*"
    r"|vp(?:add|sub|hadd|hsub|mul|maddwd|maddubsw|and|x?or|cmpeq|cmpgt|cmpu|max|min|abs|avg|sign"
    r"|s[lr]l|sra|ro[lr]|sadbw|shuf|unpck|ack|blend|broadcast|extr|insr|mov|align|maskmov"
    r"|multishift|hminpos|lzcnt|popcnt|conflict|compress|expand|testn?m|clmul)\w*"
    r"|vpcmp[bwdq]|vpsh[lr]d[wdq]|vperm[bwdq]"
)
"""Instructions of AVX that only write their last operand, and no flags."""
_OVERWRITES = re.compile(
    r"^(?:mov(?!l?hps|lps|lpd|hpd|hlps).*|lea[wlq]?|k?mov[bwdq]|cvt.*|popcnt[wlq]?|[lt]zcnt[wlq]?"
    r"|sqrt[sp][sd]|pshuf(?:[lh]?w|d)|pmovmskb|andn[lq]?|bls\w+|rorx\w*|s[ah][rl]x\w*|bzhi\w*"
    rf"|bextr\w*|pdep\w*|pext\w*|mulx\w*|k(?:add|andn?|x?n?or|not|shift|unpck)\w*|{_OF_AVX})$"
)
_KEEPS_FLAGS = re.compile(
    r"^(?:mov\w*|f?cmov\w+|set\w+|j\w+|cltq|cltd|cqto|cwtl|cwtd|lea[wlq]?|push\w*|pop[wlq]?|not[bwlq]?|bswap\w*|xchg\w*|rorx\w*"
    r"|s[ah][rl]x\w*|mulx\w*|pdep[lq]?|pext[lq]?|crc32\w*|f\w+|k\w+|vfn?m(?:add|sub)\w+|vpternlog[dq]"
    r"|vpermt2\w+|vpermi2\w+|vp?gather\w+|vpdp\w+|cvt\w+|pshuf\w+|pmovmskb|p(?:add|sub|mul|madd|andn?|x?or"
    r"|cmp(?:eq|gt)|max|min|abs|s[lr]l|sra|unpck|ack|blend|extr|insr|mov|align|avg)\w+"
    r"|(?:add|sub|mul|div|min|max|sqrt|andn?|x?or|cmp\w*|shuf|unpck[lh]|rcp|rsqrt|round|blendv?|h?add"
    rf"|hsub)[sp][sd]|{_OF_AVX})$"
)
_IN_A_AND_D = re.compile(r"^i?(?:mul|div)[bwlq]?$")
_SAME_GIVES_CONSTANT = re.compile(
    r"^(?:xor[bwlq]?|sub[bwlq]?|v?p?xor[dq]?|v?xorp[sd]|v?psub[bwdq]|v?pcmpeq[bwdq]|kx(?:n?or)[bwdq]"
    r"|v?pandn[dq]?|v?andnp[sd])$"
)
_NOTHING = re.compile(
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


@lru_cache(maxsize=1 << 14)
def registers(operand: str) -> tuple[str, ...]:
    """The registers that an operand names."""
    return tuple(register(name) for name in _REGISTER.findall(operand))


def in_memory(operand: str) -> bool:
    """Whether an operand of an instruction other than a jump is in memory."""
    return not operand.startswith(("$", "%"))


@dataclass(frozen=True, slots=True)
class Effects:
    """What an instruction reads, writes and does.

    Attributes:
        is_nothing: whether it neither computes anything nor jumps.
        is_plain: whether it has operands, and is no jump, return or call.
        condition: the condition of flags that it depends on. Conditions that only tell whether a
            number is NaN are left out, because inputs never are.
        condition_for_nan: the condition of flags that tells whether a number is NaN.
        is_branch: whether it is a jump that depends on flags.
        only_compares: whether it writes flags and nothing else.
        sets_flags: whether it writes flags.
        may_set_flags: whether it is not known to leave flags as they are.
        may_read_flags: whether it is not known to depend on no flags.
        is_address: whether it computes an address, and does not read what is there.
        in_a_and_d: whether it writes a product or quotient of whole numbers to registers a and d.
        from_status: whether the result comes from the stack of the x87 unit, from flags that an
            operation on floating-point numbers sets, for instance because its result is not exact,
            from a generator of random numbers, or from a register with a random address.
        is_constant: whether the result is the same for all values of the operands, as of x - x.
        reads: the registers, and the flags, that the result depends on.
        loads: the operands in memory that the result depends on.
    """

    is_nothing: bool
    is_plain: bool
    condition: str | None
    condition_for_nan: str | None
    is_branch: bool
    only_compares: bool
    sets_flags: bool
    may_set_flags: bool
    may_read_flags: bool
    is_address: bool
    in_a_and_d: bool
    from_status: bool
    is_constant: bool
    reads: frozenset[str]
    loads: tuple[str, ...]


def effects_of(one: Instruction) -> Effects:
    """What an instruction reads, writes and does."""
    return effects_of_words(one.name, one.operands)


@lru_cache(maxsize=1 << 14)
def effects_of_words(name: str, operands: tuple[str, ...]) -> Effects:
    """What an instruction with this mnemonic and these operands reads, writes and does."""
    found = _JUMP.match(name) or _SET.match(name) or _MOVE.match(name)
    is_nan = bool(found and found[1] in _ONLY_NAN)
    carry = "b" if _CARRY.match(name) else None
    in_a_and_d = len(operands) == 1 and bool(_IN_A_AND_D.match(name))
    compares = bool(_COMPARES.match(name) or _ONLY_FLAGS_OF_X87.match(name))
    is_address = bool(_LEA.match(name))
    reads: set[str] = set()
    loads: tuple[str, ...] = ()
    if operands:
        sources = operands[:-1]
        # Of a register with a truth value, compilers read only the byte that was set.
        alone = len(operands) == 1 and not _SET.match(name)
        if alone or compares or _keeps_its_target(name, operands):
            sources = operands
        if is_address or name.startswith("mulx"):
            sources = operands[:1]
        reads = {name for operand in sources for name in registers(operand)}
        reads.update(implicit_reads(name))
        if "{" in operands[-1]:
            reads |= {mask for mask in registers(operands[-1]) if mask.startswith("k")}
        if in_a_and_d:
            reads |= {"a", "d"}
        loads = () if is_address else tuple(filter(in_memory, sources))
    if found or carry or _READS_FLAGS.match(name):
        reads.add(FLAGS)
    is_nothing = bool(_NOTHING.match(name))
    sets_flags, keeps_flags = bool(_SETS_FLAGS.match(name)), bool(_KEEPS_FLAGS.match(name))
    return Effects(
        is_nothing=is_nothing,
        is_plain=bool(operands) and not name.startswith(("j", "ret", "call")),
        condition=found[1] if found and not is_nan else carry,
        condition_for_nan=found[1] if found and is_nan else None,
        is_branch=bool(_JUMP.match(name)),
        only_compares=compares,
        sets_flags=sets_flags,
        may_set_flags=not (keeps_flags or is_nothing) or compares or sets_flags,
        may_read_flags=FLAGS in reads or not (keeps_flags or is_nothing or compares or sets_flags),
        is_address=is_address,
        in_a_and_d=in_a_and_d,
        from_status=bool(_FROM_STATUS.match(name)),
        is_constant=_is_constant(name, operands),
        reads=frozenset(reads),
        loads=loads,
    )


def _keeps_its_target(name: str, operands: tuple[str, ...]) -> bool:
    """Whether the result also depends on the previous value of the last operand."""
    masked = "{%k" in operands[-1] and "{z}" not in operands[-1]
    if masked or _MOVE.match(name):
        return True
    if name in ("movb", "movw"):  # the other bits of a register stay as they are
        return not in_memory(operands[-1])
    if name in ("movss", "movsd"):
        return len(operands) < 3 and not any(map(in_memory, operands))
    if name in ("imull", "imulq", "imulw"):
        return len(operands) < 3
    return not (_OVERWRITES.match(name) or _SET.match(name))


def _is_constant(name: str, operands: tuple[str, ...]) -> bool:
    if re.match(r"^v?pternlog", name) and operands[0] in ("$255", "$0xff", "$-1"):
        return True
    sources = operands[:2]
    same = len(operands) >= 2 and sources[0] == sources[1] and sources[0].startswith("%")
    return same and bool(_SAME_GIVES_CONSTANT.match(name))

"""Rules for a kernel's text, and the parts of it that only a GPU can run."""

from __future__ import annotations

import re
from functools import cache

from tilewright.core.records import Failed
from tilewright.parts.languages import CUDA
from tilewright.parts.source_rules import check_source
from tilewright.targets.cuda.emulator_files import EMULATOR
from tilewright.targets.cuda.messages import without_messages, without_text

HEADERS = (
    "cuda_runtime.h", "cuda.h", "cuda_fp16.h", "cuda_bf16.h", "cooperative_groups.h",
    "cooperative_groups/reduce.h", "mma.h", "cuda_pipeline.h", "cuda_pipeline_primitives.h",
    "device_launch_parameters.h", "cuda_runtime_api.h", "math_constants.h", "vector_types.h",
    "math.h", "cmath", "stdint.h", "cstdint", "float.h", "cfloat", "limits.h", "climits", "limits",
    "stddef.h", "cstddef", "type_traits", "algorithm", "array", "utility",
)  # fmt: skip
"""Headers that a kernel may include, in addition to those that only nvcc has."""
_GPU_HEADER = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*[<\"]((?:cub|cuda)/[\w/]+(?:\.cuh|\.h)?|curand_kernel\.h|"
    r"cuda_fp8\.h|cooperative_groups/(?:memcpy_async|scan)\.h)[>\"][ \t]*$",
    re.MULTILINE | re.ASCII,
)
"""A line that includes a header that only nvcc's toolkit has."""
NO_KERNEL = Failed(
    "build",
    "compile_error",
    "the kernel launches nothing, because it defines no __global__ function.",
)
"""The message for a source that defines no function for a GPU."""
_OWN_NAMES = re.compile(
    r"__(?!glibc|attr|asm|redirect|extern|nonnull|warn|err|fortify|va_|file|func|line|date|time)"
    r"[a-z]\w*",
    re.ASCII,
)
"""Names of CUDA begin with two underscores and are allowed. The C library's macros with such names
are refused."""
_HASH = re.compile(r"#|%:|\?\?=|\b(?:u8|u|U|L)?R\"")
_ASSEMBLER = re.compile(r"\b(?:asm|__asm__|__asm)\b(?:\s+(?:volatile|__volatile__))?\s*\(")
_CONDITION = re.compile(
    r"^[ \t\f\v]*(?:#|%:)[ \t\f\v]*(?:if|ifdef|ifndef|elif)\b(.*)", re.MULTILINE
)
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_PREDEFINED = re.compile(r"\b(?:__[A-Z]\w*__|__cplusplus|__COUNTER__)\b")
_BUILTIN = re.compile(
    r"\b__builtin_(?!(?:assume|assume_aligned|expect|unreachable|huge_val|inf|nan|isnan|isinf|isfinite|signbit|abs|fabs|copysign|fma|fmax|fmin|sqrt|floor|ceil|trunc|rint|nearbyint|exp2?|log2?|memcpy|memset|memmove|bswap(?:16|32|64)|(?:popcount|clz|ctz|ffs)(?:l|ll)?)f?\b)\w*"
)
_NAME = re.compile(r"\b[A-Za-z_]\w*")
_CLOCK = re.compile(r"\b(?:clock|clock64)\s*\(|%(?:clock|globaltimer)\w*")
_OF_THE_CPU = re.compile(r"\btw\s*::|\bnamespace\s+tw\b|=\s*(?:::\s*)?tw\s*;")
"""The namespace of the replacement for the toolkit on the CPU."""
_OWN = re.compile(r"\b(?:tw|TW)_\w+")
ONLY_A_GPU = (
    (re.compile(r"\bcublas|\bcudnn|\bcutlass|\bcute\s*::"), "it calls a GPU library"),
    (re.compile(r"\bthis_grid\s*\(|\bcudaLaunchCooperativeKernel\b"),
     "its blocks wait for one another"),
    (re.compile(r"\bthis_cluster\s*\(|\bcluster_group\b"), "it uses clusters of blocks"),
    (re.compile(r"\bcuda\s*::\s*(?:barrier|pipeline|memcpy_async)|\bCUtensorMap\b"),
     "it uses asynchronous copies of the hardware"),
    (re.compile(r"\btex2D\b|\btex1Dfetch\b|\bcudaTextureObject_t\b"), "it reads textures"),
    (re.compile(r"\bcudaGraph\w+"), "it records a graph of launches"),
    (re.compile(r"\blong\s+double\b"), "it uses long double, which has fewer digits on a GPU"),
)  # fmt: skip
"""Features that the check on the CPU cannot run, in words."""


def refused(source: str) -> Failed | None:
    """The rule that a source breaks, or None. Inline PTX is allowed."""
    for number, line in enumerate(source.split("\n"), 1):
        bare = line.rstrip(" \t\f\v\r")
        if bare.endswith("\\") and (bare != line or "//" in line):
            reason = ("a backslash that a space follows, or that ends a comment of //, is not "
                      "allowed: compilers read it differently.")  # fmt: skip
            return Failed("build", "compile_error", CUDA.located(reason, number), number)
    source = without_messages(source)
    code = without_text(source)
    for start, end in _assembler(code):
        hidden = _HASH.search(source, start, end)
        if hidden is not None:
            return _line_of(source, hidden.start(), f"{hidden[0]} is not allowed within the "
                            "parentheses of asm")  # fmt: skip
    joined = code.replace("\\\n", "  ")
    own = set(_DEFINED.findall(joined))
    for condition in _CONDITION.finditer(joined):
        foreign = [n for n in _NAME.findall(condition[1]) if n not in own and n != "defined"]
        if foreign:
            return _line_of(code, condition.start(), f"#if may only test names that the kernel "
                            f"defines, not {foreign[0]}: the text that is checked must be the text "
                            "that runs on a GPU")  # fmt: skip
    predefined = _PREDEFINED.search(code)
    if predefined is not None:
        return _line_of(code, predefined.start(), f"{predefined[0]} is not allowed: a kernel must "
                        "be the same for every compiler")  # fmt: skip
    builtin = _BUILTIN.search(code)
    if builtin is not None:
        return _line_of(code, builtin.start(), f"{builtin[0]} is not allowed: its value may depend "
                        "on the compiler")  # fmt: skip
    advice = "write it as C++, or as the operand of one `asm volatile(...)` statement"
    clock = _CLOCK.search(code) or next(
        (c for start, end in _assembler(code) if (c := _CLOCK.search(source, start, end))), None
    )
    if clock is not None:
        return _line_of(source, clock.start(), f"{clock[0].rstrip('( ')} is not allowed: what a "
                        "kernel computes must not depend on time")  # fmt: skip
    emulated = _OF_THE_CPU.search(code) or _names_of_the_cpu().search(code)
    if emulated is not None:
        reason = (
            f"{emulated[0]} is not allowed: it is reserved for the emulator that runs kernels on "
            "the CPU"
        )
        return _line_of(code, emulated.start(), reason)
    return check_source(
        _GPU_HEADER.sub("", _without_assembler(source)),
        CUDA,
        HEADERS,
        advice,
        ("unroll", "unroll ..."),
        _OWN_NAMES,
    )


@cache
def _names_of_the_cpu() -> re.Pattern[str]:
    """Names that begin with tw_ or TW_ in the headers of the emulator. Kernels may use other names
    with these prefixes."""
    found = {n for file in EMULATOR.glob("*.h") for n in _OWN.findall(file.read_text("utf-8"))}
    return re.compile(rf"\b(?:{'|'.join(sorted(found))})\b")


def only_a_gpu(source: str) -> tuple[str, int] | None:
    """The part of a source that the CPU cannot run, with its line; None if no such part is
    known."""
    header = _GPU_HEADER.search(source)
    if header is not None:
        return f"it includes {header[1]}", source.count("\n", 0, header.start()) + 1
    code = without_text(source)
    assembler = _ASSEMBLER.search(code)
    if assembler is not None:
        return "it contains inline PTX", code.count("\n", 0, assembler.start()) + 1
    for pattern, words in ONLY_A_GPU:
        found = pattern.search(code)
        if found is not None:
            return words, code.count("\n", 0, found.start()) + 1
    return None


def _without_assembler(source: str) -> str:
    """The source without statements of inline PTX, which only the GPU's assembler can read."""
    parts, done = list[str](), 0
    for start, end in _assembler(without_text(source)):
        parts += [source[done:start], re.sub(r"[^\n]", " ", source[start:end])]
        done = end
    return "".join([*parts, source[done:]])


def _assembler(code: str) -> list[tuple[int, int]]:
    """Where statements of inline PTX begin and end, without nested ones."""
    spans, done = list[tuple[int, int]](), 0
    for found in _ASSEMBLER.finditer(code):
        if found.start() < done:
            continue
        depth, done = 1, found.end()
        while done < len(code) and depth:
            depth += (code[done] == "(") - (code[done] == ")")
            done += 1
        spans.append((found.start(), done))
    return spans


def _line_of(code: str, at: int, reason: str) -> Failed:
    line = code.count("\n", 0, at) + 1
    return Failed("build", "compile_error", CUDA.located(f"{reason}.", line), line)

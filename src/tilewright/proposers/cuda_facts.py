"""Facts about a kernel in CUDA C++ that show which optimisations can help it.

They are found by searching its text. If a fact is not found, it certainly does not hold; if it
is found, it may hold. Facts whose names begin with `no-` state what a kernel does not do yet. An
option that needs such a fact is not offered to a kernel that already does this somewhere.
"""

from __future__ import annotations

import ast
import re

from tilewright.parts.languages import CUDA
from tilewright.parts.untrusted_python import UnparsableError, parsed

FACTS = {
    "no-kernel": "it is an answer in KernelBench's form and defines no GPU function",
    "several-kernels": "it defines or launches more than one GPU function",
    "loops": "it contains a loop",
    "several-loops": "it contains more than one loop",
    "branches": "it contains branches other than those that end a thread",
    "conditions": "it contains a condition",
    "wide-indices": "it computes with integers of 64 bits",
    "maxima-and-exponentials": "it computes maxima or chooses values, and exponentials",
    "shared-memory": "it declares shared memory",
    "shared-numbers": "it declares shared memory that may hold integers",
    "shared-tiles": "it declares a shared array of two dimensions, or of a dynamic size",
    "slow-functions": "it divides, or calls a function that has a faster, less exact form",
    "unrolled": "it asks the compiler to unroll a loop, or has constant loop bounds",
    "barriers": "threads of a block are synchronised",
    "tensor-cores": "it multiplies on tensor cores",
    "wmma": "it multiplies on tensor cores by nvcuda::wmma",
    "divisions": "it divides",
    "loose-pointers": "a GPU function has a pointer parameter without __restrict__",
    "no-vectors": "it uses no vector type, such as float4",
    "no-shuffles": "threads of a block are synchronised, and no warp shuffle is used",
    "no-exchange": "no warp shuffle is used",
    "no-votes": "it declares shared memory that may hold integers, and no warp vote is used",
    "no-async-copies": "it declares shared memory, and copies nothing asynchronously",
    "no-padding": "it declares a shared tile that is not padded",
    "no-tensor-cores": "it does not multiply on tensor cores",
    "no-launch-bounds": "it declares no launch bounds",
    "no-cache-hints": "no load has a cache hint",
    "no-streaming-stores": "no store has a cache hint",
    "no-large-shared": "it declares shared memory, and does not ask for more than 48 KB of it",
    "no-carveout": "it declares shared memory, and does not choose its share of the L1 cache",
}
"""All facts, as texts."""


def _nested(depth: int) -> str:
    """A pattern for a text in parentheses, up to so many of them within one another."""
    within = rf"|{_nested(depth - 1)}" if depth > 1 else ""
    return rf"\((?:[^()]{within})*+\)"


def _until(end: str, begin: str) -> str:
    """A pattern for a text up to one of these characters. It contains no `begin`, with which
    further matches begin, so searching for all of them takes linear time."""
    return rf"(?:(?!{begin})[^{end}])*"


_PADDED = r"\+\s*[1-9]\d*\s*\]"
_TILE = r"(?:\]\s*\[|\[\s*\])"
_SHARED = r"\b__shared__\b"
_DECLARED = _until(";", _SHARED)
_KERNEL = r"\b__global__\b"
_LOOP = r"\bfor\b"
_PATTERNS = {
    "loops": re.compile(r"\b(?:for|while|do)\b"),
    "several-loops": re.compile(r"\b(?:for|while)\b[\s\S]*\b(?:for|while)\b"),
    "branches": re.compile(rf"\bif\b(?!\s*{_nested(4)}\s*\{{?\s*return\b)|\?|\bswitch\b"),
    "conditions": re.compile(r"\bif\b|\?|\bswitch\b|\b(?:min|max|f(?:min|max)f?)\s*\("),
    "wide-indices": re.compile(
        r"\b(?:s?size_t|long|u?int64_t|u?intptr_t|ptrdiff_t|index_t|auto)\b|\bI64\b"
    ),
    "shared-numbers": re.compile(
        rf"\bextern\s+__shared__\b|{_SHARED}"
        r"(?!\s*(?:const\b|volatile\b|(?:alignas|__align__)\s*\([^()]*\)|\s)*"
        r"(?:float|double|half|__half|__nv_bfloat16)\d?\b)"
    ),
    "shared-memory": re.compile(_SHARED),
    "no-padding": re.compile(rf"{_SHARED}(?!{_DECLARED}{_PADDED}){_DECLARED}{_TILE}"),
    "shared-tiles": re.compile(rf"{_SHARED}{_DECLARED}{_TILE}"),
    "slow-functions": re.compile(
        r"\b(?:expf?|exp2f?|exp10f?|logf?|log2f?|log10f?|powf?|sinf?|cosf?|sincosf?|tanf?|tanhf?|"
        r"sqrtf?|rsqrtf?|erff?|fdividef?)\s*\(|/"
    ),
    "unrolled": re.compile(rf"#\s*pragma\s+unroll|{_LOOP}\s*\({_until(';', _LOOP)};[^;<]*<=?\s*\d"),
    "barriers": re.compile(r"\b__syncthreads\w*\s*\(|\bsync\s*\("),
    "tensor-cores": re.compile(r"\bmma|\bwmma|\bwgmma"),
    "wmma": re.compile(r"\bwmma"),
    "divisions": re.compile(r"/|\b__?f?divide?f?\w*\s*\("),
    "loose-pointers": re.compile(
        rf"{_KERNEL}{_until('({;', _KERNEL)}\({_until(')', _KERNEL)}\*"
        r"(?!\s*(?:const\s*)?__restrict)"
    ),
}
_EXCHANGE = r"\b__(?:shfl|reduce)_\w+\s*\(|\bshfl\w*\s*\(|\bcooperative_groups/reduce\.h\b"
_MISSING = {
    "no-vectors": ("", r"\b(?:float|double|u?int|half|__half|u?short|__nv_bfloat16)[24]\b"),
    "no-shuffles": ("barriers", _EXCHANGE),
    "no-exchange": ("", _EXCHANGE),
    "no-votes": ("shared-numbers", r"\b__(?:ballot|any|all)_sync\s*\("),
    "no-async-copies": (
        "shared-memory",
        r"\bmemcpy_async|\b__pipeline_memcpy_async|\bcp\s*\.\s*async",
    ),
    "no-tensor-cores": ("", _PATTERNS["tensor-cores"].pattern),
    "no-launch-bounds": ("", r"\b__launch_bounds__\b"),
    "no-cache-hints": ("", r"\b__ld(?:g|cs|cg|ca|lu|cv)\s*\("),
    "no-streaming-stores": ("", r"\b__st(?:cs|cg|wt|wb)\s*\("),
    "no-large-shared": ("shared-memory", r"\bcudaFuncAttributeMaxDynamicSharedMemorySize\b"),
    "no-carveout": ("shared-memory", r"\bcudaFuncAttributePreferredSharedMemoryCarveout\b"),
}
"""What a kernel does not do yet: another fact that must hold as well, or "", and a pattern that is
found in kernels that do it already."""
_CHOICES = re.compile(r"max|\?|\bif\b", re.IGNORECASE)
_EXPONENTIALS = re.compile(r"\bh?_*(?:exp|ex2|pow)\w*\s*\(|\bexp\b")
_OF_INDICES = re.compile(
    r"#\s*include\b[^\n]*|(?:-\s*1\s*\)|\b(?:thread|block)Idx\s*\.\s*[xyz])\s*/(?!=)|"
    r"/=?\s*(?:1|2|4|8|16|32|64|128|256|512|1024)\b(?!\s*\.)"
)
"""Slashes that say nothing about the cost of divisions: in names of files, in divisions of thread
numbers or that round up, and in those by powers of two."""
_INTEGER = r"(?:(?:const|unsigned|int|size_t|long|short|u?int(?:8|16|32|64)_t)\b\s*)"
_WHOLE = re.compile(rf"\b{_INTEGER}+([^;(){{}}]*)")
"""The names that one declaration declares as integers, with their values."""
_ONE = re.compile(rf"\s*{_INTEGER}*([A-Za-z_]\w*)\s*(?:=|$)")
"""One of these names, with the end of what declares it or its value."""
_REAL = re.compile(r"\b(?:float|double|__?half|auto|T|scalar_t)\s+([A-Za-z_]\w*)")
"""A name that is declared as something other than an integer, at least somewhere."""
_DIVIDED = re.compile(r"([\w.\])>]?)\s*(\(\s*[\w\s+*%-]*\)|\b[A-Za-z_]\w*)\s*/(?!=)")
"""What precedes a dividend, if the dividend is only a part of an expression, and the dividend."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTION = re.compile(_KERNEL)
_LAUNCH = re.compile(r"<<<|\bcudaLaunch\w+\s*\(")


def _without_whole_quotients(code: str) -> str:
    """The code without divisions of values that are declared as integers."""
    parts = [part for match in _WHOLE.finditer(code) for part in match[1].split(",")]
    whole = {found[1] for part in parts if (found := _ONE.match(part))}
    whole -= set(_REAL.findall(code))
    return _DIVIDED.sub(
        lambda m: " " if not m[1] and whole.issuperset(_NAME.findall(m[2])) else m[0],
        _OF_INDICES.sub(" ", code),
    )


def facts_in(source: str) -> frozenset[str]:
    """The facts that may hold."""
    code = CUDA.normal_form(source)
    computing = _without_whole_quotients(code)
    found = {
        fact
        for fact, pattern in _PATTERNS.items()
        if pattern.search(computing if fact in ("divisions", "slow-functions") else code)
    }
    if len(_FUNCTION.findall(code)) > 1 or len(_LAUNCH.findall(code)) > 1:
        found.add("several-kernels")
    if _CHOICES.search(code) and _EXPONENTIALS.search(code):
        found.add("maxima-and-exponentials")
    for fact, (basis, done) in _MISSING.items():
        if (not basis or basis in found) and not re.search(done, code):
            found.add(fact)
    return frozenset(found)


def facts_in_answer(source: str) -> frozenset[str] | None:
    """The facts of the CUDA source in an answer in KernelBench's form, or None if the answer
    cannot be read."""
    try:
        tree = parsed(source, "kernel.py")
    except (SyntaxError, UnparsableError):
        return None
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    kernels = "\n".join(text for text in texts if isinstance(text, str))
    return facts_in(kernels) if _FUNCTION.search(kernels) else frozenset({"no-kernel"})

"""Facts about a kernel in CUDA C++ that show which optimisations can help it.

They are found by searching its text. A fact that is not found certainly does not hold; one that is
found may hold.
"""

from __future__ import annotations

import re

from tilewright.parts.languages import CUDA

FACTS = {
    "several-kernels": "it defines or launches more than one GPU function",
    "shared-memory": "it declares shared memory",
    "shared-tiles": "it declares a shared array of two dimensions, or of a dynamic size",
    "slow-functions": "it divides, or calls a function that has a faster, less exact form",
    "unrolled": "it asks the compiler to unroll a loop, or has constant loop bounds",
    "barriers": "threads of a block wait for one another",
    "tensor-cores": "it multiplies on tensor cores",
}
"""All facts, as texts."""

_PATTERNS = {
    "shared-memory": re.compile(r"\b__shared__\b"),
    "shared-tiles": re.compile(r"\b__shared__\b[^;]*(?:\]\s*\[|\[\s*\])"),
    "slow-functions": re.compile(
        r"\b(?:expf?|exp2f?|exp10f?|logf?|log2f?|log10f?|powf?|sinf?|cosf?|sincosf?|tanf?|tanhf?|"
        r"sqrtf?|rsqrtf?|erff?|fdividef?)\s*\(|/"
    ),
    "unrolled": re.compile(r"#\s*pragma\s+unroll|\bfor\s*\([^;]*;[^;<]*<=?\s*\d"),
    "barriers": re.compile(r"\b__syncthreads\w*\s*\(|\bsync\s*\("),
    "tensor-cores": re.compile(r"\bmma|\bwmma|\bwgmma"),
}
_FUNCTION = re.compile(r"\b__global__\b")
_LAUNCH = re.compile(r"<<<|\bcudaLaunch\w+\s*\(")


def facts_in(source: str) -> frozenset[str]:
    """The facts that may hold."""
    code = CUDA.normal_form(source)
    found = {fact for fact, pattern in _PATTERNS.items() if pattern.search(code)}
    if len(_FUNCTION.findall(code)) > 1 or len(_LAUNCH.findall(code)) > 1:
        found.add("several-kernels")
    return frozenset(found)

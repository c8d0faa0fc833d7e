"""Facts about a kernel in Triton that show which optimisations can help it.

As in `cuda_facts`, a fact that is not found certainly does not hold, and one that is found may
hold.
"""

from __future__ import annotations

import re

from tilewright.parts.languages import PYTHON

FACTS = {
    "several-kernels": "it defines or launches more than one kernel",
    "products": "it multiplies tiles by tl.dot",
    "no-products": "it does not multiply tiles by tl.dot",
    "added-products": "it adds the result of tl.dot to a sum",
    "full-precision-products": "it multiplies tiles with factors that are not rounded",
    "loops": "it contains a loop",
    "reductions": "it reduces a tile",
    "maxima-and-exponentials": "it computes maxima, and exponentials",
    "divisions": "it divides, or computes a remainder",
    "slow-functions": "it calls a function that has a cheaper form, or divides",
    "masks": "it masks loads or stores",
    "wide-indices": "it computes indices in 64 bits",
    "no-hints": "it states nothing about the alignment of offsets",
    "no-eviction": "no access states how long its data stay in the cache",
    "no-cache-modifier": "no access has a cache modifier",
}
"""All facts, as texts."""

_PRODUCT = r"\bdot(?:_scaled)?\s*\("
_PATTERNS = {
    "products": _PRODUCT,
    "added-products": rf"(?:\+=|\+)\s*(?:tl\s*\.\s*)?{_PRODUCT}|{_PRODUCT}[^\n]*\+",
    "full-precision-products": r"\bieee\b|\btf32x3\b",
    "loops": r"\b(?:for|while)\b",
    "reductions": r"\b(?:sum|max|min|argmax|argmin|reduce|xor_sum)\s*\(",
    "maxima-and-exponentials": r"(?s)\A(?=.*max)(?=.*\bexp)",
    "divisions": r"[/%]|\btl\s*\.\s*cdiv\b|\bfdiv\b|\bdiv_rn\b",
    "slow-functions": r"/|\b(?:exp|log|sqrt|sqrt_rn|div_rn)\s*\(",
    "masks": r"\bmask\b",
    "wide-indices": r"\bint64\b",
}
_MISSING = {
    "no-products": _PRODUCT,
    "no-hints": r"\b(?:multiple_of|max_contiguous|max_constancy)\b",
    "no-eviction": r"\beviction_policy\b",
    "no-cache-modifier": r"\bcache_modifier\b",
}
"""What a kernel does not do yet, by a pattern that is found in kernels that do it already."""
_KERNEL = re.compile(r"\btriton\s*\.\s*jit\b|@\s*jit\b")
_LAUNCH = re.compile(r"\]\s*\(")


def facts_in(source: str) -> frozenset[str]:
    """The facts that may hold."""
    code = PYTHON.normal_form(source)
    found = {fact for fact, pattern in _PATTERNS.items() if re.search(pattern, code)}
    found |= {fact for fact, done in _MISSING.items() if not re.search(done, code)}
    if len(_KERNEL.findall(code)) > 1 or len(_LAUNCH.findall(code)) > 1:
        found.add("several-kernels")
    return frozenset(found)

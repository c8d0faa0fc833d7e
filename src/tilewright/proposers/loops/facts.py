"""Facts about a kernel in plain C that show which optimisations can help it.

They are found by searching its text. A fact that is not found certainly does not hold; one that is
found may hold.
"""

from __future__ import annotations

import re

from tilewright.parts.languages import C

FACTS = {
    "exponentials": "it calls expf",
    "divisions": "it divides",
    "roots": "it computes square roots",
    "updated-elements": "it changes an element of an array to a value that depends on this element",
    "scalar-sums": "a loop adds to one variable",
    "long-steps": "a variable grows by more than one at a time",
    "bytes": "it uses 8-bit numbers",
}
"""All facts, as texts."""

_PATTERNS = {
    "exponentials": re.compile(r"\bexpf?\s*\("),
    "divisions": re.compile(r"(?<![/*])/(?![/*])"),
    "roots": re.compile(r"\bsqrt"),
    "updated-elements": re.compile(
        r"(?:\]|\)|\*\s*\w+)\s*(?:[-+*/%&|^]|<<|>>)=(?!=)|\]\s*(?:\+\+|--)|(?:\+\+|--)\s*\w+\s*\[|"
        r"(\w+(?:\s*\[(?:[^;=\[\]]|\[[^;=\[\]]*\])*\])+)\s*=[^=;]*?\1|(\*\s*\w+)\s*=[^=;]*?\2"
    ),
    "scalar-sums": re.compile(r"\+="),
    "long-steps": re.compile(r"\+=\s*(?:[2-9]|\d\d)"),
    "bytes": re.compile(r"\b(?:u?int(?:_least|_fast)?8_t|char|_BitInt)\b"),
}


def facts_in(source: str) -> frozenset[str]:
    """The facts that may hold."""
    code = C.normal_form(source)
    return frozenset(fact for fact, pattern in _PATTERNS.items() if pattern.search(code))

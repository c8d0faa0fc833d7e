"""Facts about a kernel in plain C that show which optimisations can help it.

They are found in its text, or in its syntax where they depend on what follows what. A fact that is
not found certainly does not hold; one that is found may hold.
"""

from __future__ import annotations

import re

from tree_sitter import Node

from tilewright.parts.languages import C
from tilewright.proposers.c.syntax import LOOPS, declared_name, descendants, parse, text_of

FACTS = {
    "exponentials": "it calls expf",
    "angles": "it computes sines or cosines",
    "divisions": "it divides by something other than a power of two",
    "roots": "it computes square roots",
    "updated-elements": "it changes an element of an array to a value that depends on this element",
    "scalar-sums": "a variable gets a new value that depends on its old one",
    "conditions": "something depends on a condition",
    "neighbouring-loops": "two loops follow one another",
    "long-steps": "a variable grows by more than one at a time",
    "bytes": "it uses 8-bit numbers",
    "unsigned-numbers": "it uses unsigned numbers",
}
"""All facts, as texts."""

_PATTERNS = {
    "exponentials": re.compile(r"\bexpf?\s*\("),
    "angles": re.compile(r"\b(?:v_)?(?:sin|cos)(?:f?|_of_any)\s*\("),
    "roots": re.compile(r"sqrt|\bpowf?\s*\("),
    "updated-elements": re.compile(  # the last letter of a name is enough, and found sooner
        r"(?:\]|\)|\*\s*\w+)\s*(?:[-+*/%&|^]|<<|>>)=(?!=)|\]\s*(?:\+\+|--)|(?:\+\+|--)\s*\w+\s*\[|"
        r"(\w(?:\s*\[(?:[^;=\[\]]|\[[^;=\[\]]*\])*\])+)\s*=[^=;]*?\1|(\*\s*\w+)\s*=[^=;]*?\2"
    ),
    "scalar-sums": re.compile(
        r"(?:[-+*/%&|^]|<<|>>)=(?!=)|\b([A-Za-z_]\w*)(?:\s*\[[^=;]*\])?\s*=(?!=)[^;]*\b\1\b"
    ),
    "conditions": re.compile(r"\bif\b|\?|\bcontinue\b|\bswitch\b|&&|\|\||(?<!f)(?:min|max)"),
    "long-steps": re.compile(r"\+=\s*(?:[2-9]|\d\d)"),
    "unsigned-numbers": re.compile(r"\bunsigned\b|\bu\w+_t\b|size_t\b"),
    "bytes": re.compile(r"\b(?:u?int(?:_least|_fast)?8_t|char|_BitInt)\b"),
}
_DIVISOR = re.compile(r"(?<![/*])/=?(?![/*=])\s*\(*\s*(\w[\w.]*)?")
_NUMBER = re.compile(r"#\s*define\s+(\w+)\s+\(?(\d[\w.]*)\)?\s*$", re.MULTILINE)
_LOOP_TEXT = re.compile(r"#\s*define\b[^\n]*\b(?:for|while|do)\b")


def facts_in(source: str) -> frozenset[str]:
    """The facts that may hold."""
    code = C.normal_form(source)
    found = {fact for fact, pattern in _PATTERNS.items() if pattern.search(code)}
    if _divides(code):
        found.add("divisions")
    if _LOOP_TEXT.search(code) or _has_neighbours(parse(code)):
        found.add("neighbouring-loops")
    return frozenset(found)


def _divides(code: str) -> bool:
    """Whether it divides by anything but powers of two, for which compilers need no division."""
    known: dict[str, str] = dict(_NUMBER.findall(code))
    divisors = [str(found[1] or "") for found in _DIVISOR.finditer(code)]
    return not all(_is_power_of_two(known.get(text, text)) for text in divisors)


def _is_power_of_two(text: str) -> bool:
    try:
        number = float(text.rstrip("uUlLfF"))
    except ValueError:
        return False
    return number >= 1 and number.is_integer() and int(number).bit_count() == 1


def _has_neighbours(root: Node) -> bool:
    """Whether two loops may follow one another, also in functions that call one another."""
    functions = {
        declared_name(node.child_by_field_name("declarator") or node): node
        for node in descendants(root)
        if node.type == "function_definition"
    }
    outermost: dict[str, int] = {}

    def loops(node: Node) -> int:
        """The number of loops that a node runs one after the other, at most 2."""
        here = 0
        if node.type == "call_expression":
            name = text_of(node.child_by_field_name("function") or node)
            if name in functions and name not in outermost:
                outermost[name] = 0  # in a recursive call
                outermost[name] = loops(functions[name])
            here = outermost.get(name, 0)
        inside = sum(loops(child) for child in node.named_children)
        if node.type in LOOPS:
            return 2 if inside > 1 else 1
        return min(2, here + inside)

    try:
        return any(loops(function) > 1 for function in functions.values())
    except RecursionError:
        return True

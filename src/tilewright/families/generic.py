"""Derives one kernel for any sizes from the texts of a starting kernel for several sizes.

Targets generate their starting kernels for given sizes. Texts for different sizes differ only in
numbers, as long as they need the same code for partial tiles. Numbers that depend on sizes are
replaced by expressions:

    void kernel(const float A[13][31])        void kernel(const float A[size_M][(size_K + 2)])
    for (int i = 0; i < 13; i++)         ->   for (int i = 0; i < size_M; i++)

This proves nothing, so the derived kernel is checked on shapes from which it was not derived.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement
from math import prod

_NUMBER = re.compile(r"(?<![\w.])(\d+)(\.0f?)?(?![\w.])")
"""A whole number, which may be written as a float such as `67.0f`."""
_TYPES = {"": "", ".0": "(double)", ".0f": "(float)"}
_MOST_FACTORS = 3
"""Maximum number of sizes whose product is one number of a kernel, such as an array's length."""


def generic_source(texts: Sequence[str], sizes: Sequence[Mapping[str, int]]) -> str | None:
    """The kernel's text with names instead of sizes, or None if the texts are not the same kernel.

    `sizes` are the sizes of each text, which must be different within one text. A number that is
    the same in all texts is kept. Sizes are named `size_M`, so that they do not hide a local
    variable.
    """
    if len({_NUMBER.sub(r"0\2", text) for text in texts}) != 1:
        return None
    numbers = [[int(found[1]) for found in _NUMBER.finditer(text)] for text in texts]
    written = [_expression(column, sizes) for column in zip(*numbers, strict=True)]
    if any(expression is None for expression in written):
        return None
    following = iter(written)

    def replaced(found: re.Match[str]) -> str:
        expression, ending = str(next(following)), found[2] or ""
        return expression + ending if expression.isdecimal() else _TYPES[ending] + expression

    return _NUMBER.sub(replaced, texts[0])


def _expression(values: Sequence[int], sizes: Sequence[Mapping[str, int]]) -> str | None:
    """A constant, a size, a product of sizes and a constant, or a sum of a size and a constant, as
    the size of an array with borders, that has these values.
    """
    if len(set(values)) == 1:
        return str(values[0])
    for count in range(1, _MOST_FACTORS + 1):
        for names in combinations_with_replacement(sizes[0], count):
            products = [prod(of[name] for name in names) for of in sizes]
            times = {divmod(value, found) for value, found in zip(values, products, strict=True)}
            if len(times) == 1 and (found := times.pop())[1] == 0:
                factors = [str(found[0])] * (found[0] != 1) + [f"size_{name}" for name in names]
                return factors[0] if len(factors) == 1 else f"({' * '.join(factors)})"
    borders = {
        name: {value - of[name] for value, of in zip(values, sizes, strict=True)}
        for name in sizes[0]
    }
    fitting = [(name, of.pop()) for name, of in borders.items() if len(of) == 1]
    fitting = [(name, border) for name, border in fitting if border > 0]
    return f"(size_{fitting[0][0]} + {fitting[0][1]})" if len(fitting) == 1 else None

"""Subscripts as sums of terms."""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.proposers.loops.ir import Binary, Expr, Negative, Number


def linear(subscript: Expr) -> tuple[dict[Expr, int], int]:
    """A subscript as a sum of terms with whole non-zero factors, and a constant."""
    if isinstance(subscript, Number) and subscript.text.isdigit():
        return {}, int(subscript.text)
    if isinstance(subscript, Negative):
        return _scaled(linear(subscript.value), -1)
    if isinstance(subscript, Binary) and subscript.operator in "+-":
        terms, offset = linear(subscript.left)
        others, more = _scaled(linear(subscript.right), 1 if subscript.operator == "+" else -1)
        for term, factor in others.items():
            terms[term] = terms.get(term, 0) + factor
        return {t: f for t, f in terms.items() if f}, offset + more
    if isinstance(subscript, Binary) and subscript.operator == "*":
        for number, other in (
            (subscript.left, subscript.right),
            (subscript.right, subscript.left),
        ):
            if isinstance(number, Number) and number.text.isdigit():
                return _scaled(linear(other), int(number.text))
    return {subscript: 1}, 0


def sum_of(terms: Mapping[Expr, int], offset: int) -> Expr:
    """The expression of a sum of terms with whole factors, and a constant: the inverse of
    `linear`.

    A positive constant comes first, and terms with negative factors come last.
    """
    found: Expr | None = Number(str(offset)) if offset > 0 else None
    for term, factor in sorted(terms.items(), key=lambda item: item[1] < 0):
        if not factor:
            continue
        size = abs(factor)
        product = term if size == 1 else Binary("*", term, Number(str(size)))
        if found is None:
            found = product if factor > 0 else Negative(product)
        else:
            found = Binary("+" if factor > 0 else "-", found, product)
    if offset >= 0:
        return found or Number("0")
    below = Number(str(-offset))
    return Binary("-", found, below) if found is not None else Negative(below)


def _scaled(sum_of_terms: tuple[dict[Expr, int], int], by: int) -> tuple[dict[Expr, int], int]:
    terms, offset = sum_of_terms
    return {term: factor * by for term, factor in terms.items() if by}, offset * by

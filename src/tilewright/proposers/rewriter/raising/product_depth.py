"""Joins products of a sum that continue one another, and divides them again into products that are
as deep as the array allows.

A product of depth d multiplies d elements of its first operand with d rows of its second operand.
If another product of the same sum begins with the next element and the next row, both together are
one product of a larger depth. A convolution of 3 channels, for example, multiplies 3 elements for
each tap, but the 21 elements of seven taps beside one another are contiguous. Each sum keeps
exactly the same pairs of elements, so its value is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tilewright.proposers.rewriter.raising.computation import (
    Computation,
    Kind,
    Product,
    Stored,
    relative,
)


def deepened(computation: Computation, deepest: int) -> Computation:
    """The computation with the fewest products of a depth up to `deepest`.

    The result is `computation` itself if the number of products cannot be reduced and no product
    is deeper than one that it continues.
    """
    kinds = list(computation.kinds)
    numbers = {kind: n for n, kind in enumerate(kinds)}

    def numbered(kind: Kind) -> int:
        if kind not in numbers:
            numbers[kind] = len(kinds)
            kinds.append(kind)
        return numbers[kind]

    known: dict[bytes, tuple[Product, ...] | None] = {}
    stored: list[Stored] = []
    for one in computation.stored:
        is_repeated = len(set(one.products)) < len(one.products)  # as in sums that are doubled
        if len(one.products) < 2 or is_repeated:
            stored.append(one)
            continue
        if one.count == 1 and len({step for _, step, _, _ in one.products}) > 1:
            alone = tuple((a, 0, b, k) for a, _, b, k in one.products)  # no row follows
            one = replace(one, products=alone)
        first, _, second, _ = one.products[0]
        form = relative(one.products).tobytes()
        if form not in known:
            apart = tuple((a - first, s, b - second, k) for a, s, b, k in one.products)
            divided = _divided(apart, kinds, numbered, deepest)
            known[form] = None if divided is apart else divided
        found = known[form]
        if found is None:
            stored.append(one)
            continue
        products = tuple((a + first, s, b + second, k) for a, s, b, k in found)
        stored.append(replace(one, products=products))
    if len(kinds) == len(computation.kinds) and stored == computation.stored:
        return computation
    return _ordered(replace(computation, stored=stored, kinds=kinds))


def _ordered(computation: Computation) -> Computation:
    """Number the kinds by decreasing depth, so that the rest of a chain is multiplied last."""
    kinds = computation.kinds
    order = sorted(range(len(kinds)), key=lambda n: -kinds[n].depth)
    new = {old: n for n, old in enumerate(order)}
    stored = [
        replace(one, products=tuple((a, s, b, new[k]) for a, s, b, k in one.products))
        for one in computation.stored
    ]
    return replace(computation, stored=stored, kinds=[kinds[n] for n in order])


def _divided(
    products: tuple[Product, ...],
    kinds: Sequence[Kind],
    numbered: Callable[[Kind], int],
    deepest: int,
) -> tuple[Product, ...]:
    """Products with the same pairs of elements; the same products if fewer are impossible.

    In a chain of products that continue one another, the deepest ones come first, so that chains
    with the same elements have the same form.
    """
    begins: dict[tuple[object, ...], Product] = {}
    for product in products:
        begins[_place(product, kinds)] = product
    if len(begins) < len(products):  # two products use the same elements, so the order is ambiguous
        return products
    follows = {p: begins.get(_place(p, kinds, at_end=True)) for p in products}
    later = {p for p in follows.values() if p is not None}
    if any(p is q for p, q in follows.items()):  # all rows are at the same address
        return products
    result: list[Product] = []
    changed = False
    for head in (p for p in products if p not in later):
        chain, last = [head], follows[head]
        while last is not None:
            chain.append(last)
            last = follows[last]
        depths = [kinds[p[3]].depth for p in chain]
        total = sum(depths)
        if -(-total // deepest) >= len(chain) and depths == sorted(depths, reverse=True):
            result += chain
            continue
        changed = True
        kind = kinds[head[3]]
        for start in range(0, total, deepest):
            part = numbered(replace(kind, depth=min(deepest, total - start)))
            result.append(
                (head[0] + start * kind.apart, head[1], head[2] + start * kind.stride, part)
            )
    return tuple(result) if changed and len(result) <= len(products) else products


def _place(product: Product, kinds: Sequence[Kind], *, at_end: bool = False) -> tuple[object, ...]:
    """The beginning or end of a product, and all properties that joined products must share."""
    first, step, second, number = product
    kind = kinds[number]
    if at_end:
        first, second = first + kind.depth * kind.apart, second + kind.depth * kind.stride
    return first, step, second, replace(kind, depth=0)

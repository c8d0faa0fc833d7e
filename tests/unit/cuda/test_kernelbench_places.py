"""Composed views of arrays read the elements that numpy reads."""

from __future__ import annotations

import random

import numpy as np

from tilewright.targets.cuda.models.places import (
    COMPUTED,
    ONE,
    Element,
    Index,
    OtherError,
    Shape,
    Size,
    broadcast,
    count,
    moved,
    negative,
    plus,
    steps,
    strided,
    times,
)


def value(index: Index, place: int, way: int) -> int:
    found = index.offset[way]
    for term in index.terms:
        part = value(term.of, place, way) if isinstance(term.of, Index) else place
        part //= term.inner[way]
        found += (part % term.extent[way] if term.extent else part) * term.times[way]
    return found


def test_any_sequence_of_views_reads_the_same_elements_at_both_sizes() -> None:
    draw, direct, compared = random.Random(1), 0, 0
    sizes: list[Size] = [(1, 1), (2, 2), (3, 2), (4, 2), (6, 4)]
    for _ in range(400):
        shape: Shape = tuple(draw.choice(sizes) for _ in range(draw.randint(1, 4)))
        arrays = [np.arange(count(shape)[w]).reshape([s[w] for s in shape]) for w in (0, 1)]
        element = Element("a", shape)
        try:
            for _ in range(draw.randint(1, 4)):
                shape, index, arrays = step(draw, shape, arrays)
                element = moved(element, index, count(shape))
        except OtherError:
            continue
        compared += 1
        direct += all(term.of == COMPUTED for term in element.index.terms)
        for way, wanted in enumerate(arrays):
            found = [value(element.index, place, way) for place in range(wanted.size)]
            assert found == list(wanted.ravel()), element
    assert compared > 380
    assert direct > 0.6 * compared


def step(
    draw: random.Random, shape: Shape, arrays: list[np.ndarray]
) -> tuple[Shape, Index, list[np.ndarray]]:
    strides, axis = steps(shape), draw.randrange(len(shape))
    match draw.choice(["permuted", "flipped", "sliced", "repeated", "joined"]):
        case "permuted":
            axes = draw.sample(range(len(shape)), len(shape))
            shape = tuple(shape[a] for a in axes)
            index = strided(shape, [strides[a] for a in axes])
            return shape, index, [one.transpose(axes) for one in arrays]
        case "flipped":
            start = times(plus(shape[axis], negative(ONE)), strides[axis])
            strides[axis] = negative(strides[axis])
            return shape, strided(shape, strides, start), [np.flip(one, axis) for one in arrays]
        case "sliced" if min(shape[axis]) > 1:
            start = strides[axis]
            shape = (*shape[:axis], plus(shape[axis], negative(ONE)), *shape[axis + 1 :])
            parts = [one.take(range(1, one.shape[axis]), axis) for one in arrays]
            return shape, strided(shape, strides, start), parts
        case "repeated":
            larger = ((3, 2), *shape)
            repeated = [np.broadcast_to(one, (3 - w, *one.shape)) for w, one in enumerate(arrays)]
            return larger, broadcast(shape, larger), repeated
        case _:
            shape = (count(shape[: axis + 1]), *shape[axis + 1 :])
            joined = [one.reshape([s[w] for s in shape]) for w, one in enumerate(arrays)]
            return shape, strided(shape, steps(shape)), joined

"""`itertools`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tilewright.targets.trainium.errors import too_large
from tilewright.targets.trainium.execution import Execution
from tilewright.targets.trainium.language import arithmetic
from tilewright.targets.trainium.language.arithmetic import compare, truth
from tilewright.targets.trainium.language.calling import call
from tilewright.targets.trainium.language.contents import each_of, items_of_any
from tilewright.targets.trainium.language.iterators import KernelIterator
from tilewright.targets.trainium.language.python import number, whole
from tilewright.targets.trainium.language.values import Builtin, Namespace

_MOST_LISTS = 100
"""Maximum number of times that a product takes its lists."""


def _product(run: Execution, *values: Any, repeat: Any = 1) -> list[tuple[Any, ...]]:
    if whole(repeat, "repeat") > _MOST_LISTS:
        raise too_large(f"itertools.product with repeat={repeat}")
    lists = [items_of_any(value) for value in values] * repeat
    count = 1
    for items in lists:
        count *= len(items)
    if count > arithmetic.MOST_ITEMS:
        raise too_large(f"itertools.product of {count:,} items")
    return list(itertools.product(*lists))


def _repeat(run: Execution, value: Any, times: Any = None) -> KernelIterator:
    several = itertools.repeat(value)
    return KernelIterator(
        run, several if times is None else itertools.repeat(value, whole(times, "times"))
    )


def _count(run: Execution, start: Any = 0, step: Any = 1) -> KernelIterator:
    return KernelIterator(run, itertools.count(number(start, "count"), number(step, "count")))


def _slice(run: Execution, values: Any, *bounds: Any) -> KernelIterator:
    return KernelIterator(run, itertools.islice(each_of(values), *bounds))


def _longest(run: Execution, *values: Any, fillvalue: Any = None) -> KernelIterator:
    rows = itertools.zip_longest(*map(each_of, values), fillvalue=fillvalue)
    return KernelIterator(run, rows)


def _chosen(function: Callable[..., Any]) -> Callable[..., KernelIterator]:
    """`combinations` and similar functions of items and a length."""

    def choose(run: Execution, values: Any, length: Any = None) -> KernelIterator:
        size = () if length is None else (whole(length, "the length"),)
        return KernelIterator(run, function(items_of_any(values), *size))

    return choose


def _tested(function: Callable[..., Any]) -> Callable[..., KernelIterator]:
    """`takewhile` and similar functions of a condition and items."""

    def choose(run: Execution, test: Any, values: Any) -> KernelIterator:
        def holds(item: Any) -> bool:
            return truth(item if test is None else call(run, test, [item], {}))

        return KernelIterator(run, function(holds, each_of(values)))

    return choose


def _accumulate(
    run: Execution, values: Any, func: Any = None, *, initial: Any = None
) -> KernelIterator:
    def joined(a: Any, b: Any) -> Any:
        if func is None:
            return arithmetic.binary(run, "+", a, b)
        return call(run, func, [a, b], {})

    return KernelIterator(run, itertools.accumulate(each_of(values), joined, initial=initial))


def _groups(run: Execution, values: Any, key: Any = None) -> KernelIterator:
    def found() -> Iterator[tuple[Any, KernelIterator]]:
        group: list[Any] = []
        last: Any = None
        for item in each_of(values):
            mark = item if key is None else call(run, key, [item], {})
            if group and not truth(compare(run, "==", mark, last)):
                yield last, KernelIterator(run, group)
                group = []
            group.append(item)
            last = mark
        if group:
            yield last, KernelIterator(run, group)

    return KernelIterator(run, found())


def _starmap(run: Execution, function: Any, values: Any) -> KernelIterator:
    rows = (call(run, function, items_of_any(row), {}) for row in each_of(values))
    return KernelIterator(run, rows)


def _compress(run: Execution, values: Any, chosen: Any) -> KernelIterator:
    pairs = zip(each_of(values), each_of(chosen), strict=False)
    return KernelIterator(run, (value for value, wanted in pairs if truth(wanted)))


_MOST_COPIES = 100


def _tee(run: Execution, values: Any, count: Any = 2) -> tuple[KernelIterator, ...]:
    number = whole(count, "tee")
    if number > _MOST_COPIES:
        raise too_large(f"tee with {number:,} iterators")
    return tuple(KernelIterator(run, items) for items in itertools.tee(each_of(values), number))


def _chained(run: Execution, values: Any) -> KernelIterator:
    return KernelIterator(run, (item for one in each_of(values) for item in each_of(one)))


def itertools_module() -> Namespace:
    """The module."""
    functions: dict[str, Callable[..., Any]] = {
        "product": _product, "repeat": _repeat, "count": _count, "islice": _slice,
        "zip_longest": _longest, "accumulate": _accumulate, "groupby": _groups,
        "starmap": _starmap, "compress": _compress, "tee": _tee,
        "combinations": _chosen(itertools.combinations),
        "combinations_with_replacement": _chosen(itertools.combinations_with_replacement),
        "permutations": _chosen(itertools.permutations),
        "takewhile": _tested(itertools.takewhile), "dropwhile": _tested(itertools.dropwhile),
        "filterfalse": _tested(itertools.filterfalse),
        "cycle": lambda run, v: KernelIterator(run, itertools.cycle(each_of(v))),
        "pairwise": lambda run, v: KernelIterator(run, itertools.pairwise(each_of(v))),
    }  # fmt: skip
    found: dict[str, object] = {
        n: Builtin(f"itertools.{n}", f, masked=False) for n, f in functions.items()
    }
    chain = Builtin("itertools.chain", lambda run, *values: _chained(run, values), masked=False)
    chain.members["from_iterable"] = Builtin("from_iterable", _chained, masked=False)
    return Namespace("itertools", {**found, "chain": chain})

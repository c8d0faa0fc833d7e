"""Generators, `with`, `match` and names of enclosing functions: as in Python."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from nki_world import Kernel, numbers, refused
from python_parts import PARTS

from tilewright.targets.trainium.errors import KernelError

X = numbers(4, 8)

ITEMS_ARE_COMPUTED_WHEN_THEY_ARE_NEEDED = """
def chunks(total, step):
    for number, start in enumerate(range(0, total, step)):
        found.append(-start)
        yield number, start, min(step, total - start)
for number, start, size in chunks(10, 4):
    found.append((number, start, size))
squares = (n * n for n in chunks_of(3))
found.append(2)
found.extend(squares)
found.extend(squares)
pairs = zip(chunks(4, 2), "abc")
found.append(next(pairs))
found.append(next(pairs))
found.append(next(pairs, None))
doubled = map(lambda n: found.append(n) or 2 * n, filter(lambda n: n != 1, range(4)))
found.append(100)
found.append(sum(doubled))
found.append(list(enumerate((n for n in range(3) if n), 5)))
found.append("-".join(str(n) for n in range(3)))
found.append(2 in (n for n in range(3)))
found.append([*zip([1, 2, 3], iter([4, 5]))])
first, *others = (n for n in range(4))
found.append((first, others, max(n for n in (3, 7, 5)), all(n for n in ())))
rest = iter([1, 2, 3])
found.append((2 in rest, iter(rest) is rest, list(rest)))
"""
STATEMENTS_WITH_YIELD = """
def walk(depth):
    if depth:
        yield from walk(depth - 1)
        yield depth
        yield from walk(depth - 1)
    else:
        found.append("leaf")
def stop_early(items):
    for item in items:
        if item == 4:
            return
        while item < 3:
            yield item
            item += 1
            if item == 2:
                break
        else:
            yield from (-item, item)
        if item == 1:
            continue
        yield
    else:
        yield "end"
found.extend(walk(3))
found.extend(stop_early([0, 1, 2, 3]))
found.extend(stop_early((3, 4, 5)))
def endless():
    n = 0
    while True:
        n += 1
        yield n
for n in endless():
    if n > 3:
        break
    found.append(n)
numbers = endless()
found.append([next(numbers) for _ in range(3)])
found.append(list(zip(range(2), numbers)))
found.append(next(numbers))
growing = [1]
for item in growing:
    if item < 5:
        growing.append(item + 2)
found.append(growing)
"""
CONTEXTS = """
from contextlib import contextmanager
class Scope:
    def __init__(self, name):
        self.name = name
    def __enter__(self):
        found.append("enter " + self.name)
        return self.name
    def __exit__(self, kind, value, trace):
        found.append("leave " + self.name)
@contextmanager
def section(name, *more):
    found.append(name)
    yield len(more)
    found.append(f"end of {name}")
def leaves():
    with Scope("a") as a, Scope("b"):
        for n in (0, 1, 2):
            with section("c", n, n) as count:
                if n == 1:
                    return a + str(count)
found.append(leaves())
def items():
    with Scope("d") as d:
        yield d
        yield 2
found.extend(items())
with Scope("e"):
    pass
"""
MATCHES = """
from collections import namedtuple
class Conv:
    def __init__(self, taps):
        self.taps = taps
def name(value):
    match value:
        case 0 | 1:
            return "small"
        case int(n) if n < 10:
            return f"number {n}"
        case "blur" | "box" as kind:
            return kind
        case None:
            return "none"
        case (a, (b, *rest)):
            return a + b + len(rest)
        case [first, *_, last]:
            return first - last
        case []:
            return "empty"
        case Conv(taps=3):
            return "three"
        case Conv(taps=taps):
            return taps
    return "other"
for value in (0, 1, 7, 70, "blur", "sobel", None, (1, (2, 3, 4)), [9, 5, 6, 7], (), [3],
              Conv(3), Conv(5), namedtuple("Ends", "a b c")(7, 2, 3)):
    found.append(name(value))
"""
OUTER_NAMES = """
total = 0
def count(values):
    seen, last = 0, None
    def add(value):
        nonlocal seen, last
        seen += value
        last, other = value, 3
        for last in (value, value + 1):
            pass
        return [last := last + 1 for _ in range(2)]
    found.append([add(v) for v in values])
    return seen, last
found.append(count([1, 2, 4]))
"""
OWN_CLASSES = """
class Tiles:
    def __init__(self, count):
        self.parts = [10 * n for n in range(count)]
    def __len__(self):
        return len(self.parts)
    def __getitem__(self, at):
        return self.parts[at]
    def __iter__(self):
        for number, part in enumerate(self.parts):
            yield part + number
    def __call__(self, x, *, scale=1):
        return scale * x + len(self)
tiles = Tiles(4)
found.append((len(tiles), tiles[2], tiles[1:3], list(tiles), tiles(5), tiles(1, scale=3)))
for value in tiles:
    found.append(value)
"""
CLASSES_WITH_BASES_AND_OPERATORS = """
class Shape:
    def __init__(self, rows):
        self.rows = rows
    def area(self):
        return self.rows
    @property
    def half(self):
        return self.rows // 2
class Wide(Shape):
    def __init__(self, rows, columns=2):
        super().__init__(rows + 1)
        self.columns = columns
    def area(self):
        return self.columns * super().area() + super().half
class Widest(Wide):
    def area(self):
        return -super().area()
found.append((Wide(3).area(), Widest(3, 5).area(), Wide(5).half))
from dataclasses import dataclass
@dataclass
class Tile:
    rows: int
    columns: int = 4
    def __post_init__(self):
        self.elements = self.rows * self.columns
class Named(Tile):
    def __init__(self, name, rows):
        super().__init__(rows, columns=3)
        self.name = name
class Alone:
    def __init__(self):
        super().__init__()
found.append((Named("a", 2).elements, Named("b", 5).name, Tile(2).elements, Alone() is None))
class Size:
    def __init__(self, values):
        self.values = values
    def __add__(self, other):
        return Size([*self.values, *other.values])
    def __rmul__(self, times):
        return Size(self.values * times)
    def __eq__(self, other):
        return self.values == other.values
    def __lt__(self, other):
        return sum(self.values) < sum(other.values)
    def __contains__(self, value):
        return value in self.values
    def __setitem__(self, at, value):
        self.values[at] = value
    def __bool__(self):
        return bool(self.values)
size = 2 * Size([1]) + Size([4])
size[1] = 7
found.append((size.values, Size([1]) == Size([1]), Size([1]) != Size([1]), 7 in size, 3 in size))
found.append((Size([1]) < size, Size([1]) > size, not Size([]), 1 if size else 0))
"""
CLASSES_WITH_SEVERAL_BASES = """
from dataclasses import dataclass
class First:
    size = 1
    def __init__(self, n):
        self.log = ["first", n]
    def name(self):
        return ["first"]
class Second(First):
    def __init__(self, n):
        super().__init__(n + 1)
    def name(self):
        return ["second"] + super().name()
class Third(First):
    size = 3
    def __init__(self, n):
        super().__init__(n * 10)
    def name(self):
        return ["third"] + super().name()
class Both(Second, Third):
    def name(self):
        return ["both"] + super().name()
found.append((Both(1).log, Both(1).name(), Both.size, isinstance(Both(1), Third)))
@dataclass
class Sized(First):
    n: int = 2
found.append((Sized(5).n, Sized(5) in [Sized(5)], [1] in [[1]]))
class Count:
    def __init__(self, n):
        self.n = n
    def __iadd__(self, by):
        self.n += by
        return self
    def __add__(self, by):
        return "sum"
    def __sub__(self, other):
        return "left"
    __radd__ = __add__
class Countdown(Count):
    def __rsub__(self, other):
        return "right"
count = same = Count(1)
count += 5
found.append((same.n, 1 + count, Count(1) - Countdown(2), Count(1) - Count(2)))
"""
TEXTS_NUMBERS_AND_ITEMS = """
found.append(("a,b".split(","), " a ".strip(), "abc".replace("b", "dd"), "ab".find("b")))
found.append(((6).bit_length(), int("12"), float("1.5"), float("-inf") < 0, "12".isdigit()))
items = [3, 1, 2]
items.sort()
found.append(items.copy())
items.sort(reverse=True)
del items[0], items[-1]
same = items
items *= 2
found.append(same)
places = {"a": 1, "b": 2}
places.update({"c": 3}, d=4)
del places["a"]
found.append(list(places))
"""
MODULES = """
import math
from collections import OrderedDict, namedtuple
from itertools import (
    accumulate, chain, combinations, count, cycle, islice, pairwise, product, repeat, zip_longest,
)
from operator import itemgetter
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import torch
found.append([list(islice(count(3), 2)), [c for c, _ in zip(cycle("ab"), range(3))]])
found.append([list(repeat(1, 2)), [*pairwise((1, 2, 3))], [*zip_longest([1], [2, 3])]])
found.append([*combinations(range(3), 2), *chain((1,), [2]), *product((1, 2), "a")])
found.append([list(accumulate((1, 2, 3))), itemgetter(1)((4, 5)), math.lcm(4, 6)])
found.append(list(OrderedDict(a=1)))
Place = namedtuple("Place", "row column")
found.append(tuple(Place(1, 2)._replace(row=3)))
"""
DICTS_WITH_DEFAULTS = """
from collections import defaultdict
groups = defaultdict(list)
groups["a"].append(1)
copy = groups.copy()
copy["b"].append(2)
copy["a"].append(3)
found.append((dict(zip("ab", range(2)), c=3), dict({"a": 1}, b=2), dict([(1, 2)]), dict(a=1)))
found.append((groups["a"], copy["b"], len(groups), sorted(copy)))
"""


@pytest.mark.parametrize(
    "text",
    [
        ITEMS_ARE_COMPUTED_WHEN_THEY_ARE_NEEDED, STATEMENTS_WITH_YIELD, CONTEXTS, MATCHES,
        OUTER_NAMES, OWN_CLASSES, CLASSES_WITH_BASES_AND_OPERATORS, TEXTS_NUMBERS_AND_ITEMS,
        MODULES, DICTS_WITH_DEFAULTS, CLASSES_WITH_SEVERAL_BASES, *PARTS.values(),
    ],
)  # fmt: skip
@pytest.mark.parametrize("language", [1, 2])
def test_parts_of_python_do_what_python_does(text: str, language: int) -> None:
    head = "def chunks_of(n):\n    found.append(n)\n    return range(n)\nfound = []\n"
    names: dict[str, object] = {}
    exec(head + text, names)
    store = "nl.store(out, nl.load(x))" if language == 1 else "nisa.dma_copy(out, x)"
    check = f"assert found == {names['found']!r}, f'{{found}}'\n{store}"
    body = textwrap.dedent(head + text) + check
    np.testing.assert_array_equal(Kernel(body, x=X, language=language).run(), X)


def test_a_global_name_is_that_of_the_file() -> None:
    before = """
        made = 0

        def tile():
            global made
            made += 2
            return made
    """
    body = "tile()\nnl.store(out, nl.load(x) * float(tile() + made))"
    np.testing.assert_array_equal(Kernel(body, before=before, x=X).run(), X * np.float32(8))


def test_a_generator_makes_its_instructions_when_an_item_is_taken() -> None:
    body = """
        def tiles():
            for i in range(2):
                t = nl.ndarray((4, 4), dtype=nl.float32, buffer=nl.sbuf)
                nisa.dma_copy(t, x[:, 4 * i:4 * i + 4])
                yield i, t

        for i, t in tiles():
            nisa.tensor_scalar(t, t, nl.multiply, 2.0)
            nisa.dma_copy(out[:, 4 * i:4 * i + 4], t)
    """
    kernel = Kernel(body, x=X, language=2)
    np.testing.assert_array_equal(kernel.run(), 2 * X)
    opcodes = [i.opcode for i in kernel.trace.instructions]
    assert opcodes == ["dma_copy", "tensor_scalar", "dma_copy"] * 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("def f():\n    t = abs(-1) + (yield 1)\nlist(f())", "not_supported"),
        ("def f():\n    t = 1 and (yield 1)\nlist(f())", "not_supported"),
        ("def f():\n    try:\n        yield 1\n    except ValueError:\n        pass\nlist(f())",
         "not_supported"),
        ("def f():\n    yield 1\nf().send(3)", "unsupported_operand"),
        ("iter([1]).send(None)", "unsupported_operand"),
        ("'%d' % 'a'", "unsupported_operand"),
        ("'%s %s' % 1", "missing_argument"),
        ("'%s' % (1, 2)", "too_many_arguments"),
        ("'%(a)s' % 3", "index"),
        ("'%y' % 3", "not_supported"),
        ("'{0.real}'.format(1)", "not_supported"),
        ("'{a}'.format(1)", "missing_argument"),
        ("'{'.format(1)", "arithmetic"),
        ("f'{1:{1000}}'", "not_supported"),
        ("'a'.ljust(1000000)", "too_large"),
        ("'{:99}' * 99999 % 1", "too_large"),
        ("from enum import IntEnum\nclass A(IntEnum):\n    X = 'a'", "unsupported_operand"),
        ("from enum import Enum\nclass A(Enum):\n    X = 1\nA.X.value = 2", "not_supported"),
        ("from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A:\n    n: int\n"
         "A(1).n = 2", "unsupported_assignment"),
        ("from dataclasses import dataclass\n@dataclass\nclass A:\n    n: int\n{A(1)}",
         "unsupported_operand"),
        ("ValueError.n = 1", "not_supported"),
        ("from abc import abstractmethod\nclass A:\n    @abstractmethod\n    def f(self): ...\nA()",
         "unsupported_operand"),
        ("class A(metaclass=abs):\n    pass", "not_supported"),
        ("raise 3", "unsupported_operand"),
        ("raise", "unsupported_operand"),
        ("try:\n    raise KeyError(1)\nexcept ValueError:\n    pass", "assertion_failed"),
        ("try:\n    nl.load(x[9:30])\nexcept Exception:\n    pass", "tensor_access_out_of_bound"),
        ("try:\n    nl.lod(x)\nexcept:\n    pass", "not_supported"),
        ("x @ x", "not_supported"),
        ("1 @ 2", "not_supported"),
        ("type(x)", "not_supported"),
        ("x.__dict__", "not_supported"),
        ("x.__class__", "not_supported"),
        ("(1).__class__.__subclasses__()", "not_supported"),
        ("len.__self__", "not_supported"),
        ("def f():\n    pass\nf.__globals__", "not_supported"),
        ("def f():\n    yield (yield 1)\nlist(f())", "not_supported"),
        ("def f():\n    yield from f()\nlist(f())", "too_deep"),
        ("def f():\n    while True:\n        yield 'a'\n''.join(f())", "too_large"),
        ("n = (v for v in (1, 2))\nfor _ in [0] * 60:\n    n = map(abs, n)\nlist(n)", "too_deep"),
        ("len(zip([1], [2]))", "unsupported_operand"),
        ("next([1])", "unsupported_operand"),
        ("dict([(1, 2, 3)])", "unsupported_operand"),
        ("next(iter([]))", "index"),
        ("list(zip([1], [], strict=True))", "unsupported_operand"),
        ("with nl.load(x) as t:\n    pass", "unsupported_operand"),
        ("def f():\n    nonlocal q\n    q = 1\nf()", "undefined_name"),
        ("class A:\n    pass\nA() + 1", "unsupported_operand"),
        ("super().__init__()", "undefined_name"),
        ("class A:\n    def f(self):\n        super().g()\nA().f()", "not_supported"),
        ("class A:\n    def __iter__(self):\n        return self\nlist(A())", "too_deep"),
        ("class A:\n    def __new__(cls):\n        return 1\nA()", "not_supported"),
        ("class A:\n    __match_args__ = ('n',)\nA()", "not_supported"),
        ("class A:\n    def f(self):\n        return super().g()\nA.f(1)", "unsupported_operand"),
        ("class A:\n    pass\nclass B(A):\n    pass\nclass C(A, B):\n    pass",
         "unsupported_operand"),
        ("from dataclasses import dataclass\n@dataclass(eq=False)\nclass A:\n    n: int",
         "not_supported"),
        ("class A:\n    n = 1\nmatch A():\n    case A(1):\n        pass", "not_supported"),
        ("from functools import cache\n@cache\ndef f(n):\n    return 1\nf([1])",
         "unsupported_operand"),
        ("f'{None:>5}'", "unsupported_operand"),
        ("f'{[1]:>5}'", "unsupported_operand"),
        ("from itertools import tee\ntee([1], 10**9)", "too_large"),
        ("t = [1]\ndel t[1]", "index"),
        ("t = {}\ndel t['a']", "index"),
        ("int('1x')", "arithmetic"),
        ("[2, nl.load(x)].sort()", "ambiguous_tensor_truth_value"),
        ("('a' * 200).replace('a', 'b' * 200)", "too_large"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_iterator_or_a_statement_is_told(body: str, code: str) -> None:
    refused(f"{body}\nnl.store(out, nl.load(x))", code, x=X)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("t = [1, 2]\nt[2]", "a list of 2 items has no item 2"),
        ("t = [1, 2]\nt[-3] = 1", "a list of 2 items has no item -3"),
        ("(1, 2)[5]", "a tuple of 2 items has no item 5"),
        (
            "class A:\n    def __eq__(self, o):\n        return 1\n{A()}",
            "a value of type A cannot be a key",
        ),
        ("class Bad(ValueError):\n    pass\nraise Bad(f'width {3}')", "raises Bad: width 3"),
        ("class A:\n    pass\nA() - [1]", "- does not work on A and list"),
    ],
)
def test_messages_name_the_kernels_own_values(body: str, words: str) -> None:
    with pytest.raises(KernelError) as caught:
        Kernel(f"{body}\nnl.store(out, nl.load(x))", x=X)
    assert words in caught.value.message


def test_the_mask_of_a_result_limits_where_it_is_assigned() -> None:
    body = """
        columns = nl.arange(8)[None, :]
        rows = nl.arange(4)[:, None]
        wide = nl.zeros((4, 12), dtype=nl.float32)
        for i in nl.affine_range(2):
            t = nl.load(x)
            wide[rows, 8 * i + columns] = nl.multiply(t, 3.0, mask=8 * i + columns < 12)
        nl.store(out, wide)
    """
    wanted = np.concatenate([X, X[:, :4]], 1) * np.float32(3)
    np.testing.assert_array_equal(Kernel(body, x=X, out=(4, 12)).run(), wanted)
    refused(body.replace("< 12)", "< 13)"), "tensor_access_out_of_bound", x=X, out=(4, 12))

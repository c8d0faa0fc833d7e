"""Programs whose `found` must be the same in Python and in the interpreter of kernels."""

PARTS = {
    "value_of_yield": """
def carrier(state):
    while True:
        state = yield state * 2
        found.append(("got", state))
g = carrier(3)
found.append(next(g))
found.append(g.send(5))
found.append(next(g, "x") if False else g.send(7))
def averages():
    total = count = 0
    value: int = yield
    while value is not None:
        total += value
        count += 1
        value = yield total / count
    return total
a = averages()
a.send(None)
found.append([a.send(n) for n in (4, 8)])
def outer():
    got = yield from inner()
    found.append(("inner gave", got))
    last = yield 10
    found.append(last)
def inner():
    x = yield 1
    y = yield x
    return (x, y)
o = outer()
found.append(next(o))
found.append(o.send("a"))
found.append(o.send("b"))
found.append(next(o, "end"))
def adds():
    total = 0
    while True:
        total += yield total
s = adds()
next(s)
found.append([s.send(n) for n in (1, 2, 3)])
""",
    "next_class": """
class Blocks:
    def __init__(self, width, step):
        self.at, self.width, self.step = 0, width, step
    def __iter__(self):
        return self
    def __next__(self):
        if self.at >= self.width:
            raise StopIteration
        start, self.at = self.at, self.at + self.step
        return start, min(self.step, self.width - start)
found.append(list(Blocks(10, 4)))
for start, size in Blocks(9, 4):
    found.append((start, size))
b = Blocks(6, 4)
found.append((next(b), next(b), next(b, None)))
class Walk:
    def __init__(self, items):
        self.items = items
    def __iter__(self):
        return Blocks(len(self.items), 1)
found.append([*Walk("abc")])
first, *rest = Walk("xyz")
found.append((first, rest, (1, 1) in Walk("abc"), dict(zip("ab", Blocks(3, 2)))))
""",
    "int_enum": """
from enum import IntEnum, Enum, auto
class Axis(IntEnum):
    BATCH = 0
    ROW = 1
    COL = 2
class Kind(Enum):
    A = auto()
    B = auto()
shape = (4, 5, 6)
found.append(
    (shape[Axis.COL], Axis.ROW + 1, 2 * Axis.COL, Axis.COL > Axis.ROW, Axis.ROW == 1, -Axis.COL)
)
found.append([a.name for a in Axis])
found.append([a.value for a in Axis] + [int(a) for a in Axis] + list(range(Axis.COL)))
found.append({Axis.ROW: "r", 5: "x"}[1])
found.append(Axis(2) is Axis.COL)
found.append(Axis["ROW"].name)
found.append(
    (
        isinstance(Axis.ROW, Axis),
        isinstance(Axis.ROW, int),
        isinstance(Kind.A, int),
        len(list(Axis)),
    )
)
table = {Kind.A: 1, Kind.B: 2}
found.append(
    (
        table[Kind.B],
        Kind.A in table,
        Kind.A == Kind.A,
        Kind.A != Kind.B,
        Kind.B.name,
        Kind.B.value,
    )
)
def which(a):
    match a:
        case Axis.ROW:
            return "row"
        case Axis.COL | Axis.BATCH:
            return "other"
found.append([which(a) for a in Axis])
found.append(f"{Axis.ROW:03d} {Axis.ROW.name} {Kind.A.name} {Axis.COL}")
found.append(max(Axis.ROW, Axis.COL) + Axis.ROW // 2 + (Axis.COL << 2) + 7 % Axis.COL)
""",
    "deque_counter": """
from collections import deque, Counter
recent = deque(maxlen=2)
for n in range(4):
    recent.append(n)
found.append((list(recent), recent[-1], len(recent), recent.maxlen))
q = deque([1, 2, 3])
q.appendleft(0)
found.append((q.popleft(), q.pop(), list(q)))
q.extend([7, 8])
q.rotate(1)
found.append(list(q))
q.extendleft([5, 6])
found.append((list(q), 7 in q, q.count(7), bool(deque())))
while q:
    found.append(q.popleft())
c = Counter("abracadabra")
c["z"] += 2
found.append((c["a"], c["q"], "q" in c, c.most_common(2), sum(c.values())))
c.update("aab")
found.append(sorted(c.items()))
d = Counter(x=2)
d.update({"x": 3, "y": 1})
found.append((d["x"], d["y"], list(d.elements())))
d.subtract({"x": 1})
found.append((d["x"], sorted((d + Counter(x=1)).items())))
""",
    "percent_and_format": """
n, s, f = 7, "abc", 2.5
found.append("t%d" % n + " %s_%03d" % (s, n) + " %5.2f|%-6s|%x|%%" % (f, s, 255))
found.append("%r %s" % (s, (1, 2)))
found.append("%(a)d %(b)s" % {"a": 1, "b": "x"})
found.append(
    "{} {}".format(n, s) + " {0}{1}{0}".format(n, s) + " {a:>5}|{b:.1f}".format(a=s, b=f)
)
found.append("{!r} {:04d} {{}}".format(s, n))
w = 6
found.append(f"{n:{w}d}|{f:.{n}f}|{s!r}|{n=}")
found.append(f"{s:>{w}}|{s:^9}|{n:,}|{n:<4}|{f:e}|{'x' if n else 'y'}")
found.append(s.upper().rjust(5, ".") + s.zfill(6) + s.title() + s.center(7))
found.append(
    (
        "a=b=c".partition("="),
        "a-b".rsplit("-", 1),
        " x ".lstrip(),
        "a\\nb".splitlines(),
        "abc"[::-1],
    )
)
found.append(
    [str(True), str(None), str([1, "a"]), str((1,)), repr("q"), str({"a": 1}), str(1.0)]
)
""",
    "dict_patterns": """
def pick(v):
    match v:
        case {"mem": "psum", "shape": (p, f), **rest}:
            return ("psum", p, f, rest)
        case {"mem": "sbuf"}:
            return "sbuf"
        case {}:
            return "any"
    return "no"
found.append(
    [
        pick({"mem": "psum", "shape": (1, 2), "x": 3}),
        pick({"mem": "sbuf", "y": 1}),
        pick({"q": 1}),
        pick([1]),
    ]
)
""",
    "break_leaves_generator": """
from contextlib import contextmanager
class Scope:
    def __init__(self, n):
        self.n = n
    def __enter__(self):
        found.append(("in", self.n))
        return self
    def __exit__(self, *what):
        found.append(("out", self.n))
def items():
    with Scope(1):
        for n in range(5):
            yield n
for n in items():
    found.append(n)
    if n == 1:
        break
found.append("after")
def first(want):
    for n in items():
        if n == want:
            return n
found.append(first(2))
g = items()
for n in g:
    break
found.append("still open")
for n in g:
    found.append(n)
    if n == 3:
        break
g.close()
found.append("closed")
@contextmanager
def section(n):
    found.append(("begin", n))
    try:
        yield n
    finally:
        found.append(("end", n))
with section(3) as s:
    found.append(s)
for i in (0, 1, 2):
    with section(i):
        if i == 1:
            break
def tidy():
    try:
        yield 1
        yield 2
    finally:
        found.append("tidied")
for t in tidy():
    break
found.append(list(tidy()))
""",
    "match_in_generator": """
def g(items):
    for i in items:
        match i:
            case int(n) if n > 2:
                yield n
            case (a, b):
                yield a
                yield b
            case _:
                yield None
found.append(list(g([1, 3, (4, 5)])))
""",
    "wraps_and_caches": """
import functools
from functools import wraps, lru_cache, cache, cached_property, partial, reduce
calls = []
def counted(fn):
    @wraps(fn)
    def inner(*args, **kwargs):
        calls.append(fn.__name__)
        return fn(*args, **kwargs)
    return inner
@counted
def add(a, b=2):
    return a + b
found.append((add(1), add(1, b=5), add.__name__, calls))
def repeated(times):
    def deco(fn):
        @functools.wraps(fn)
        def inner(*a):
            return [fn(*a) for _ in range(times)]
        return inner
    return deco
@repeated(times=2)
@counted
def sub(a, b):
    return a - b
found.append(sub(5, 3))
made = []
@lru_cache(maxsize=None)
def tile(n, kind="x"):
    made.append(n)
    return [n, kind]
found.append((tile(1) is tile(1), tile(2) is tile(1), tile(1, kind="y"), made))
@cache
def fib(n):
    made.append(n)
    return n if n < 2 else fib(n - 1) + fib(n - 2)
found.append((fib(10), len(made)))
class A:
    def __init__(self, n):
        self.n = n
    @cached_property
    def twice(self):
        made.append("twice")
        return 2 * self.n
a = A(4)
found.append((a.twice, a.twice, made[-2:]))
found.append((partial(add, b=3)(4), reduce(lambda a, b: a * b, [1, 2, 3, 4], 2)))
""",
    "abc_and_hierarchy": """
from abc import ABC, ABCMeta, abstractmethod
from typing import Generic, TypeVar, Protocol, cast
T = TypeVar("T")
class Op(ABC):
    registry = []
    count = 0
    @abstractmethod
    def apply(self, x): ...
    @property
    @abstractmethod
    def name(self): ...
    def __call__(self, x):
        type(self).count += 1
        self.__class__.registry.append(type(self).__name__)
        return self.apply(x)
class Add(Op):
    name = "add"
    def __init__(self, n):
        self.n = n
    def apply(self, x):
        return x + self.n
class Mul(Add):
    @property
    def name(self):
        return "mul"
    def apply(self, x):
        return super().apply(x) * self.n
class Box(Generic[T], metaclass=ABCMeta):
    def __init__(self, value):
        self.value = value
ops = [Add(2), Mul(3)]
found.append([(op.name, op(5)) for op in ops])
found.append((Op.registry, Op.count, Add.count, Mul.count, Box(3).value, cast(int, 4)))
Op.count = 9
found.append(
    (
        Op.count,
        Add.count,
        issubclass(Mul, Op),
        type(ops[0]) is Add,
        type(3) is int,
        type("a") == str,
    )
)
class Base:
    kinds = {}
class Chain:
    def __init__(self):
        self.parts = []
    def add(self, part):
        self.parts.append(part)
        return self
found.append(Chain().add(1).add(2).parts)
""",
    "operators": """
class V:
    def __init__(self, n):
        self.n = n
    def __matmul__(self, o):
        return V(self.n * o.n)
    def __pow__(self, k):
        return V(self.n**k)
    def __neg__(self):
        return V(-self.n)
    def __or__(self, o):
        return V(self.n | o.n)
    def __rshift__(self, f):
        return f(self.n)
    def __invert__(self):
        return V(~self.n)
    def __and__(self, o):
        return V(self.n & o.n)
    def __abs__(self):
        return abs(self.n)
    def __int__(self):
        return self.n
    def __index__(self):
        return self.n
    def __repr__(self):
        return f"V({self.n})"
    def __getattr__(self, name):
        return name + "?"
    def __hash__(self):
        return hash(self.n)
    def __eq__(self, o):
        return self.n == o.n
found.append(
    ((V(2) @ V(3)).n, (V(2) ** 3).n, (-V(2)).n, (V(1) | V(2)).n, V(2) >> (lambda n: n + 1))
)
found.append(
    (
        (~V(1)).n,
        (V(3) & V(6)).n,
        abs(V(-4)),
        int(V(5)),
        [10, 20, 30][V(1)],
        str(V(3)),
        f"{V(4)}",
        V(1).q,
    )
)
found.append([V(1)] == [V(1)])
found.append(V(1) in [V(2), V(1)])
found.append({V(1): 2}[V(1)])
""",
    "dataclasses": """
from dataclasses import dataclass, field, asdict, astuple, replace, fields
@dataclass(frozen=True)
class Cfg:
    m: int = 128
    n: int = 512
    name: str = field(default="x")
    tags: list = field(default_factory=list)
    @property
    def area(self):
        return self.m * self.n
    @classmethod
    def of(cls, k, **kw):
        return cls(k, **kw)
    @staticmethod
    def up(a, b):
        return -(-a // b)
    def __post_init__(self):
        assert self.m > 0, f"m={self.m}"
c = Cfg.of(64, n=2)
found.append(
    (c.area, c.up(5, 2), replace(c, m=3).m, asdict(c), astuple(c), [f.name for f in fields(c)])
)
@dataclass(frozen=True)
class Key:
    a: int
    b: str
d = {Key(1, "x"): 10, Key(2, "y"): 20}
found.append(
    (d[Key(2, "y")], Key(1, "x") in d, Key(3, "z") in d, len({Key(1, "x"), Key(1, "x")}))
)
@dataclass(order=True, slots=True)
class Prio:
    cost: float
    name: str = ""
found.append([p.name for p in sorted([Prio(2, "b"), Prio(1, "c"), Prio(1, "a")])])
found.append(
    (Prio(1, "a") < Prio(2), min(Prio(3), Prio(2)).cost, repr(Prio(1, "q")), str(Key(1, "x")))
)
from typing import NamedTuple
class Sz(NamedTuple):
    m: int
    n: int = 4
    def area(self):
        return self.m * self.n
s = Sz(3)
a, b = s
found.append(
    (
        s.area(),
        a,
        b,
        s[1],
        s + (1,),
        {s: 1}[Sz(3, 4)],
        s == (3, 4),
        len(s),
        s._asdict(),
        sorted([Sz(2, 1), Sz(1, 9)])[0].n,
    )
)
""",
    "itertools_more": """
import itertools, operator, functools, math, copy
from itertools import *
found.append(list(chain.from_iterable([[1], [2, 3]])))
found.append(list(permutations("abc", 2))[:3] + list(combinations_with_replacement("ab", 2)))
found.append(
    list(starmap(pow, [(2, 3), (3, 2)]))
    + list(takewhile(lambda n: n < 3, count()))
    + list(dropwhile(lambda n: n < 2, range(4)))
)
found.append(
    [(k, list(g)) for k, g in groupby([1, 1, 2, 3, 3])]
    + [(k, len(list(g))) for k, g in groupby("aAbB", key=lambda c: c.lower())]
)
found.append(
    list(accumulate([1, 2, 3], operator.mul))
    + list(accumulate([1, 2], initial=10))
    + list(accumulate([3, 1, 2], max))
)
found.append(list(compress("abc", [1, 0, 1])) + list(filterfalse(lambda n: n % 2, range(4))))
a, b = tee(iter([1, 2, 3]))
found.append((list(a), list(b)))
found.append(
    (
        operator.mul(2, 3),
        operator.truediv(1, 2),
        operator.mod(5, 3),
        operator.neg(2),
        operator.attrgetter("start")(slice(1, 2)),
        operator.itemgetter(0, 2)("abc"),
    )
)
w = [1, [2]]
y, z = copy.copy(w), copy.deepcopy(w)
w[1].append(3)
found.append((y, z))
found.append(
    (
        math.prod([2, 3]),
        math.isqrt(17),
        math.gcd(4, 6),
        math.hypot(3, 4),
        math.log2(8),
        math.inf > 1,
    )
)
""",
    "small_builtins": """
found.append(
    (
        hex(255),
        bin(5),
        oct(8),
        ord("a"),
        chr(98),
        repr("x"),
        format(3, "03d"),
        int("ff", 16),
        int("0x10", 0),
    )
)
found.append(
    (
        sum([[1], [2]], []),
        max([1, 5, 2], key=lambda n: -n),
        min("b", "a"),
        sorted("bca", reverse=True),
        sorted([(2, "a"), (1, "b")]),
    )
)
found.append(
    (
        isinstance(1, (int, float)),
        issubclass(bool, int),
        callable(len),
        abs(-1.5),
        round(2.567, 2),
        divmod(7, 2),
    )
)
d = {"a": 1} | {"b": 2}
d |= {"c": 3}
found.append(
    (
        d,
        dict.fromkeys("ab", 0),
        {k: v for k, v in d.items() if v > 1},
        d.popitem(),
        list(reversed([1, 2])),
        d.keys() & {"a"},
    )
)
found.append(
    (
        [i for i in range(6) if i % 2 if i > 1],
        [a if a > 1 else -a for a in range(3)],
        {n % 3 for n in range(7)},
        [(i, j) for i in range(3) for j in range(i)],
    )
)
items = [(1, "b"), (0, "a")]
items.sort(key=lambda p: p[1])
found.append(items)
f = lambda a, b=2, *c, k=3, **o: (a, b, c, k, o)
found.append((f(1), f(1, 4, 5, k=6, z=7), f(*[1, 2], **{"k": 9})))
fns = [lambda x, i=i: x + i for i in range(3)]
found.append([g(10) for g in fns])
late = [lambda: i for i in range(3)]
found.append([g() for g in late])
if (n := len("abc")) > 2 and (m := n * 2):
    found.append((n, m))
head, *mid, tail = range(5)
(p, q), r = (1, 2), 3
found.append((head, mid, tail, p, q, r, [*range(2), *"ab"], {**{"a": 1}, "b": 2}))
def gen_scope():
    x = 1
    def inc():
        nonlocal x
        x += 1
        return x
    return inc
inc = gen_scope()
found.append((inc(), inc()))
found.append(vars_ := [k for k in ("a", "b")])
found.append("yes" if 1 < 2 <= 2 != 3 else "no")
found.append(set([3, 1]) ^ {1, 2} == {2, 3})
found.append(frozenset([1, 2]) == {1, 2})
found.append(
    (
        any(n > 2 for n in range(4)),
        all([]),
        list(map(lambda a, b: a + b, [1, 2], [3, 4])),
        list(zip(*[(1, 2), (3, 4)])),
    )
)
""",
    "try_except": """
cache = {}
def get(k):
    try:
        return cache[k]
    except KeyError:
        cache[k] = k * 2
        return cache[k]
found.append((get(2), get(2)))
it = iter([1])
next(it)
try:
    next(it)
except StopIteration:
    found.append("stop")
class Bad(ValueError):
    pass
def check(n):
    if n < 0:
        raise Bad(f"negative {n}")
    return n
try:
    check(-1)
except ValueError as error:
    found.append(str(error))
else:
    found.append("not here")
finally:
    found.append("finally")
try:
    [1][5]
except (KeyError, IndexError):
    found.append("index")
""",
    "with_more": """
from contextlib import ExitStack, nullcontext, suppress
with nullcontext(5) as n:
    found.append(n)
class S:
    def __init__(self, n):
        self.n = n
    def __enter__(self):
        found.append(self.n)
        return self
    def __exit__(self, *a):
        found.append(-self.n)
with ExitStack() as stack:
    for i in (1, 2):
        stack.enter_context(S(i))
    stack.callback(found.append, "cb")
with S(5) as a, S(6) as b:
    found.append(a.n + b.n)
""",
    "types_as_keys": """
from dataclasses import dataclass
class A:
    pass
class B(A):
    pass
def f():
    return 1
t = {A: 1, B: 2, f: 3, int: 4, None: 5, (1, "a"): 6, len: 7}
found.append((t[A], t[B], t[f], t[int], t[None], t[(1, "a")], t[len], A in t, str in t))
handlers = {"a": lambda x: x + 1, "b": f}
found.append((handlers["a"](1), handlers["b"]()))
names = {type(x).__name__ for x in (1, "a", 2.0)}
found.append(sorted(names))
""",
    "what_only_the_next_item_needs": """
from collections import deque
from functools import lru_cache
from itertools import cycle, tee
def g():
    for i in (1, 2, 3):
        found.append(("computed", i))
        yield i
first, second = tee(g())
found.append((next(first), next(first), next(second)))
found.append(next(cycle(g())))
class Up:
    n = 0
    def __iter__(self):
        return self
    def __next__(self):
        self.n += 1
        if self.n > 6:
            raise StopIteration
        return self.n
up = Up()
found.append((3 in up, next(up), 9 in up, 9 not in Up()))
d = deque([1, 2], maxlen=2)
d += [3, 4]
found.append((list(d), d == deque([3, 4]), d == [3, 4], [3, 4] == d, d != [3, 4]))
@lru_cache(maxsize=2)
def f(n):
    found.append(n)
    return n
found.append([f(n) for n in (1, 2, 1, 3, 1, 2)])
@lru_cache(maxsize=0)
def h(n):
    found.append(n)
    return n
found.append([h(n) for n in (1, 1)])
""",
}
"""By what they are about."""

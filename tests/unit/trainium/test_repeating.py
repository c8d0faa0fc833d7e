"""Iterations that are recorded without being interpreted are those that the interpreter gives."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from typing import Any

import pytest
from nki_world import TRN1, Kernel, numbers

from tilewright.targets.trainium import repeating
from tilewright.targets.trainium.errors import KernelError
from tilewright.targets.trainium.execution import Limits
from tilewright.targets.trainium.language.repeated import evenness
from tilewright.targets.trainium.program import parse, trace_program
from tilewright.targets.trainium.repeating import Repetition
from tilewright.targets.trainium.trace import Access, Loop, Trace

X = numbers(8, 200)
HEAD = """
    a = nl.load(x)
    b = nl.ndarray((8, 200), dtype=nl.float32, buffer=nl.sbuf)
    b[...] = nl.copy(a)
    blocks = nl.zeros((4, nl.par_dim(8), 100), dtype=nl.float32)
"""
REPEATED = {
    "columns": """
        for w in nl.affine_range(100):
            t = nl.multiply(a[:, w : w + 3], 2.0)
            b[:, w : w + 1] = nisa.tensor_reduce(nl.add, t, axis=[1], keepdims=True)
    """,
    "down": """
        for w in nl.affine_range(90):
            b[:, 190 - 2 * w : 192 - 2 * w] = nl.add(a[:, 2 * w : 2 * w + 2], 1.0)
    """,
    "blocks": """
        for n in nl.sequential_range(4):
            for w in nl.affine_range(100):
                blocks[n, :, w] = nl.exp(a[:, w : w + 1])
        for n in nl.affine_range(4):
            b[:, 50 * n : 50 * n + 50] = nl.copy(blocks[n, :, 0:50])
    """,
    "used afterwards": """
        for w in nl.static_range(100):
            t = nl.exp(a[:, w : w + 1])
            b[:, w : w + 1] = nl.copy(t)
        b[:, w + 20 : w + 21] = nl.copy(t)
    """,
    "fresh tiles": """
        for w in nl.static_range(40):
            t = nl.exp(a[:, w : w + 4])
            s = nl.add(t, nl.multiply(t, 3.0))
            b[:, w * 4 : w * 4 + 4] = nl.copy(s)
    """,
    "first sums": """
        block = nl.zeros((8, 100), nl.float32, buffer=nl.psum)
        for w in nl.affine_range(100):
            t = nl.multiply(a[:, w : w + 3], 2.0)
            block[:, w : w + 1] += nisa.tensor_reduce(nl.add, t, axis=[1], keepdims=True)
        b[:, 0:100] = nl.copy(block)
    """,
}
COMPLETE = {
    "a sum where something was written": """
        block = nl.zeros((8, 100), nl.float32, buffer=nl.psum)
        for n in nl.affine_range(1):
            block[:, 60:61] = nl.copy(a[:, 0:1])
        for w in nl.affine_range(100):
            block[:, w : w + 1] += nl.exp(a[:, w : w + 1])
        b[:, 0:100] = nl.copy(block)
    """,
    "two sums in one tile": """
        block = nl.zeros((8, 200), nl.float32, buffer=nl.psum)
        for w in nl.affine_range(100):
            block[:, w : w + 1] += nl.exp(a[:, w : w + 1])
            block[:, w + 60 : w + 61] += nl.exp(a[:, w : w + 1])
        b[...] = nl.copy(block)
    """,
    "sums that overlap": """
        block = nl.zeros((8, 200), nl.float32, buffer=nl.psum)
        for w in nl.affine_range(100):
            block[:, w : w + 2] += nl.exp(a[:, w : w + 2])
        b[...] = nl.copy(block)
    """,
    "products in place": """
        for w in nl.affine_range(100):
            b[:, w : w + 1] *= nl.exp(a[:, w : w + 1])
    """,
    "read and written": """
        for w in nl.sequential_range(100):
            b[:, w + 1 : w + 2] = nl.add(b[:, w : w + 1], 1.0)
    """,
    "a choice": """
        for w in nl.affine_range(100):
            b[:, w : w + 1] = nl.add(a[:, w : w + 1], 1.0) if w == 50 else nl.exp(a[:, w : w + 1])
    """,
    "items of a list": """
        tiles = [a[:, 0:1]] * 50 + [a[:, 0:9]] + [a[:, 0:1]] * 49
        for w in nl.static_range(100):
            c = nl.exp(tiles[w])
            b[:, w : w + 1] = nl.copy(c[:, 0:1])
    """,
    "a square": """
        for w in nl.affine_range(40):
            b[:, w : w + 1] = nl.copy(a[:, (w - 0) * (w - 1) // 10 : (w - 0) * (w - 1) // 10 + 1])
    """,
    "transfers": """
        for w in nl.affine_range(40):
            b[:, w : w + 1] = nl.load(x[:, w : w + 1])
    """,
    "gaps": """
        for w in nl.affine_range(40):
            b[:, 3 * w : 3 * w + 1] = nl.copy(a[:, 3 * w : 3 * w + 1])
    """,
    "few iterations": """
        for w in nl.affine_range(11):
            b[:, w : w + 1] = nl.copy(a[:, w : w + 1])
    """,
    "sums over the iterations of an outer loop": """
        import numpy as np
        for n in nl.affine_range(2):
            for w in nl.affine_range(40):
                t = nl.exp(a[:, w : w + 1])
                b[:, w : w + 1] = nl.loop_reduce(t, op=np.add, loop_indices=[n])
    """,
    "growing regions": """
        for w in nl.affine_range(40):
            t = nl.exp(a[:, 0 : w + 1])
    """,
    "a loop inside": """
        for w in nl.affine_range(40):
            for v in nl.affine_range(2):
                b[:, 2 * w + v : 2 * w + v + 1] = nl.copy(a[:, w + v : w + v + 1])
    """,
    "a function of the kernel": """
        found = []
        def note(t):
            found.append(t)
            return nl.copy(t) if len(found) == 20 else t
        for w in nl.affine_range(40):
            b[:, w : w + 1] = nl.add(note(a[:, w : w + 1]), 1.0)
    """,
}
NKI_2 = {
    "columns": """
        for w in range(100):
            t = nl.ndarray((8, 3), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_scalar(t, a[:, w : w + 3], nl.multiply, 2.0)
            nisa.tensor_reduce(b[:, w : w + 1], nl.add, t, axis=1)
    """,
    "loops inside": """
        for n in nl.affine_range(14):
            for c in range(2):
                for y in nl.static_range(3):
                    t = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf, name=f"t{y}")
                    top = max(0, 1 - y - c)
                    nisa.dma_copy(t[:, top:4], x[:, 9 * n + c + y + top : 9 * n + c + y + 4])
                    nisa.tensor_copy(b[:, 12 * n + 4 * y : 12 * n + 4 * y + 4], t)
            nisa.dma_copy(x2[n, :, 0:4], both[0][:, n : n + 4])
    """,
    "products in a tile of the iteration": """
        for n in range(20):
            p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
            for k in range(3):
                nisa.nc_matmul(p, a[:, 9 * n : 9 * n + 8], a[:, k : k + 8])
            nisa.tensor_copy(b[:, 8 * n : 8 * n + 8], p)
    """,
    "lists and conditions": """
        for n in range(13):
            tiles = []
            for c in range(4):
                t = nl.ndarray((8, 5), dtype=nl.float32, buffer=nl.sbuf)
                if c % 2 == 0 and not c > 2:
                    nisa.dma_copy(t, x[:, 15 * n + c : 15 * n + c + 5])
                else:
                    nisa.memset(t, value=float(c) if c > 1 else 0.5)
                tiles.append(t)
            one, last = 1, 3
            nisa.tensor_tensor(b[:, 5 * n : 5 * n + 5], tiles[-last], tiles[last], nl.add)
    """,
    "a loop inside that is repeated": """
        for n in range(15):
            for w in range(40):
                nisa.tensor_copy(b[:, n + w : n + w + 1], a[:, 2 * n + w : 2 * n + w + 1])
    """,
    "a list from outside": """
        for n in range(15):
            nisa.tensor_copy(both[1][:, n : n + 2], both[0][:, 190 - n : 192 - n])
    """,
    "products and transposes at the same places": """
        for n in range(14):
            p = nl.ndarray((8, 99), dtype=nl.float32, buffer=nl.psum)
            for k in range(3):
                nisa.nc_transpose(p[:, 9 * k : 9 * k + 8], a[:, n : n + 8])
                nisa.nc_matmul(p[:, 9 * k : 9 * k + 9], a[:, n : n + 8], a[:, k : k + 9])
            nisa.nc_transpose(b[:, 8 * n : 8 * n + 8], a[:, 0:8], engine=nisa.engine.vector)
    """,
    "sizes and patterns": """
        for n in range(14):
            size = nl.num_programs((0,))
            nisa.tensor_copy(b[:, nl.ds(3, 2)], a[:, nl.ds(start=n, size=2)])
            nisa.tensor_copy(b[:, 0:4], both[0].ap([[200, 8], [1, 4]], offset=190 - 2 * n))
    """,
}
_HAT = "max({0}, 9) - max(2 * {0} - 19, 9)"
"""A number that is 0 for 0, 1 and 19, but not for numbers between."""
COMPLETE_NKI_2 = {
    "the tile of the iteration before": """
        t = a[:, 0:1]
        for w in range(100):
            s = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.tensor_tensor(s, t, a[:, w : w + 1], nl.add)
            t = s
        nisa.tensor_copy(b[:, 0:1], t)
    """,
    "products in a tile from outside": """
        p = nl.ndarray((8, 200), dtype=nl.float32, buffer=nl.psum)
        nisa.nc_matmul(p[:, 90:99], a[:, 0:8], a[:, 0:9])
        for n in range(20):
            nisa.nc_matmul(p[:, 9 * n : 9 * n + 9], a[:, 0:8], a[:, n : n + 9])
        nisa.tensor_copy(b[0:8, :], p)
    """,
    "a condition on the variable": """
        for n in range(20):
            if n == 11:
                nisa.memset(b[:, n : n + 1], value=2.0)
            else:
                nisa.memset(b[:, n : n + 1], value=1.0)
    """,
    "the number as a condition": """
        for n in range(20):
            if n - 11:
                nisa.memset(b[:, n : n + 1], value=1.0)
    """,
    "a loop from the number": f"""
        for n in range(20):
            for c in range(n, n + 1):
                k = {_HAT.format("c")}
                nisa.memset(b[:, k : k + 1], value=1.0)
    """,
    "a name that a loop inside may not assign": f"""
        u = 0
        for n in range(21):
            for c in range(0):
                u = 3
            k = {_HAT.format("u")}
            nisa.memset(b[:, k : k + 1], value=1.0)
            u = n
    """,
    "a name that changes in a loop inside": """
        for n in range(20):
            k = 0
            for c in range(2):
                nisa.memset(b[:, k : k + 1], value=2.0)
                k = n
    """,
    "a name that one branch assigns": f"""
        u = 0
        for n in range(21):
            if a.shape[0] == 8:
                nisa.memset(b[:, 0:1], value=1.0)
            else:
                u = 3
            k = {_HAT.format("u")}
            nisa.memset(b[:, k : k + 1], value=1.0)
            u = n
    """,
    "an item of a list by the variable": """
        tiles = [a] * 15 + [b] * 2 + [a] * 3
        for n in range(20):
            nisa.tensor_copy(b[:, n : n + 1], tiles[n][:, 0:1])
    """,
    "a list of the iterations before": """
        tiles = [a]
        for n in range(20):
            tiles.append(b if len(tiles) == 14 else a)
            nisa.tensor_copy(b[:, n : n + 1], tiles[-1][:, 0:1])
    """,
    "part of a list by the variable": """
        tiles = [a] * 15 + [b] * 2 + [a] * 3
        for n in range(20):
            nisa.tensor_copy(b[:, n : n + 1], tiles[0:20][n][:, 0:1])
    """,
    "part of a list of the iteration by the variable": """
        for n in range(20):
            tiles = []
            t = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
            s = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
            for c in range(20):
                if c == 13:
                    tiles.append(s)
                else:
                    tiles.append(t)
            nisa.memset(tiles[0:20][n], value=1.0)
    """,
    "a maximum of the variable": f"""
        for n in range(20):
            k = {_HAT.format("n")}
            nisa.memset(b[:, k : k + 1], value=1.0)
    """,
    "a function of that name": """
        found = []
        def max(p, q):
            found.append(p)
            return 50 if len(found) == 15 else 5
        for n in range(20):
            k = max(1, 2)
            nisa.memset(b[:, k : k + 1], value=1.0)
    """,
    "an operator of the kernel": """
        class Far:
            def __init__(self):
                self.count = 0
            def __floordiv__(self, other):
                self.count += 1
                return 50 if self.count == 14 else 5
        far = Far()
        for n in range(20):
            nisa.memset(b[:, far // 2 : far // 2 + 1], value=1.0)
    """,
    "an index of the other end": """
        for n in range(20):
            nisa.tensor_copy(b[:, n - 10], a[:, n - 10])
    """,
    "transposes into a tile of PSUM from outside": """
        p = nl.ndarray((8, 200), dtype=nl.float32, buffer=nl.psum)
        for n in range(20):
            nisa.nc_transpose(p[:, 8 * n : 8 * n + 8], a[:, 0:8], engine=nisa.engine.vector)
        nisa.nc_matmul(p[:, 80:88], a[:, 0:8], a[:, 0:8])
        nisa.tensor_copy(b[:, 0:8], p[:, 80:88])
    """,
    "products that overlap in one iteration": """
        for n in range(20):
            p = nl.ndarray((8, 200), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(p[:, 80:88], a[:, 0:8], a[:, 0:8])
            nisa.nc_matmul(p[:, 8 * n : 8 * n + 8], a[:, 0:8], a[:, 0:8])
            nisa.tensor_copy(b[:, 0:8], p[:, 80:88])
    """,
    "a flag that is false once": """
        for n in range(20):
            p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(p, a[:, 0:8], a[:, 0:8], accumulate=n - 5)
            nisa.tensor_copy(b[:, 0:8], p)
    """,
    "a flag by position that is false once": """
        for n in range(20):
            p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
            nisa.nc_matmul(p, a[:, 0:8], a[:, 0:8], False, False, n - 5)
            nisa.tensor_copy(b[:, 0:8], p)
    """,
    "a flag by a function's number": """
        for n in range(20):
            p = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)
            k = nl.spmd_dim(0)
            nisa.nc_matmul(p, a[:, 0:8], a[:, 0:8], accumulate=k + n - 5)
            nisa.tensor_copy(b[:, 0:8], p)
    """,
    "a cube of the variable and a function's number": """
        h = nl.ndarray((400, 8, 8), dtype=nl.float32, buffer=nl.hbm)
        for n in range(13):
            p = nl.program_id(0)
            nisa.dma_copy(h[(p + n) * (p + n - 1) * (p + 12 - n)], a[:, 0:8])
    """,
    "an offset by a function's number": """
        h = [nl.ndarray((8, 400), dtype=nl.float32, buffer=nl.sbuf)]
        nisa.memset(h[0], value=0.0)
        for n in range(13):
            p = nl.program_id(0)
            k = (p + n) * (p + n - 1) * (p + 12 - n)
            nisa.tensor_copy(b[:, 0:1], h[0].ap([[400, 8], [1, 1]], offset=k))
    """,
    "two indices that pass 0 in a pattern": """
        for n in range(20):
            v = both[0].ap([[200, 8], [1, 11], [1, 11]])
            nisa.tensor_copy(b[:, 0:1], v[:, n - 10, 10 - n])
    """,
    "two indices that pass 0 in a pattern from outside": """
        v = both[0].ap([[200, 8], [1, 11], [1, 11]])
        for n in range(20):
            nisa.tensor_copy(b[:, 0:1], v[:, n - 10, 10 - n])
    """,
    "two indices that pass 0 in a reshaped pattern": """
        v = both[0].ap([[200, 8], [1, 11], [1, 11]])
        for n in range(20):
            nisa.tensor_copy(b[:, 0:1], v.reshape((8, 11, 11))[:, n - 10, 10 - n])
    """,
    "two indices that pass 0 in a pattern that a function reshapes": """
        v = both[0].ap([[200, 8], [1, 11], [1, 11]])
        for n in range(20):
            nisa.tensor_copy(b[:, 0:1], nl.reshape(v, (8, 11, 11))[:, n - 10, 10 - n])
    """,
    "two indices that pass 0 in a grid of partitions": """
        q = nl.ndarray((40, 200), dtype=nl.float32, buffer=nl.sbuf)
        nisa.memset(q, value=1.0)
        v = q[nl.arange(14)[:, None] + nl.arange(14)[None, :], 0]
        for n in range(14):
            nisa.dma_copy(x2[0, 0:1, 0:1], v[n - 7, 7 - n])
    """,
    "an end of a slice with a step": """
        for n in range(14):
            nisa.memset(b[:, 5 : 20 * n - 104 : 190], value=1.0)
    """,
    "two indices that pass 0 in a list of patterns": """
        v = [both[0].ap([[200, 8], [1, 11], [1, 11]])]
        for n in range(20):
            nisa.tensor_copy(b[:, 0:1], v[0][:, n - 10, 10 - n])
    """,
}

REFUSED_NKI_2 = {
    "part of a broadcast tile": """
        v = a[:, 0:1].broadcast_to((8, 20))
        for n in range(20):
            nisa.tensor_copy(b[:, 0:2], v[:, n - 10 : n - 8])
    """,
    "part of a broadcast tile of the iteration": """
        for n in range(20):
            t = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf)
            nisa.memset(t, value=1.0)
            nisa.tensor_copy(b[:, 0:2], t.broadcast_to((8, 20))[:, n - 10 : n - 8])
    """,
    "a region that no instruction uses": """
        for n in range(20):
            u = a[:, n - 10 : n - 8].reshape((8, 2))
            nisa.memset(b[:, 0:1], value=0.0)
    """,
    "part of a broadcast tensor": """
        v = x[:, 0:1].broadcast_to((8, 20))
        for n in range(20):
            nisa.dma_copy(b[:, 0:2], v[:, n - 10 : n - 8])
    """,
    "a slice with a step": """
        v = a[:, 0:60]
        for n in range(20):
            nisa.memset(v[:, 5 : n - 10 : 50], value=0.0)
    """,
}
"""Kernels in which an iteration between the first ones and the last one breaks a rule."""


def _access(a: Access) -> tuple[object, ...]:
    return (
        a.tensor.id, a.start_partition, a.partitions, a.offset, a.pattern.dims, a.partition_step,
        a.lanes, a.pieces,
    )  # fmt: skip


def content(trace: Trace) -> list[object]:
    """Everything in a trace, comparable."""
    return [
        [(i.opcode, i.engine, i.line, [*map(_access, i.reads)], [*map(_access, i.writes)],
          dict(i.attributes), i.loop and i.loop.id, i.name, i.active, i.implicit)
         for i in trace.instructions],
        [(t.id, t.name, t.memory, t.dtype, t.shape, t.kind, t.line, t.column, t.first, t.last,
          t.loop and t.loop.id) for t in trace.tensors],
        [(p.id, p.kind, p.line, p.trips, list(p.starts), p.stop, p.variable, p.walked,
          p.parent and p.parent.id) for p in trace.loops],
        trace.outputs,
    ]  # fmt: skip


# The first iterations and the last one are linear, but others are not.
_ORDER = [w if w < 3 or w == 99 else w * 37 % 100 for w in range(100)]
_LEFT_OUT = {
    "elements of a list": f"{_ORDER}[w]",
    "elements of a tuple": f"{tuple(_ORDER)}[w]",
    "bits of the number": "operator.and_(w, 99)",
    "a maximum": "w + functools.reduce(max, [w, 50]) - functools.reduce(max, [2 * w - 99, 50])",
}
COMPLETE |= {
    name: f"""
        import functools, operator
        for w in nl.affine_range(100):
            k = {number}
            b[:, w : w + 1] = nl.copy(a[:, k : k + 1])
    """
    for name, number in _LEFT_OUT.items()
}
COMPLETE |= {
    "letters of a name": """
        letters = "0" * 50 + "1" * 48 + "0" * 2
        for w in nl.affine_range(100):
            t = nl.ndarray((8, 1), dtype=nl.float32, buffer=nl.sbuf, name="t" + letters[w])
            t[...] = nl.copy(a[:, w : w + 1])
            b[:, w : w + 1] = nl.copy(t)
    """,
    "rounded numbers": """
        for w in nl.affine_range(100):
            k = 1.0 + (w + 1e17 - 1e17) - (w + 4 + 1e17 - 1e17)
            b[:, w : w + 1] = nl.multiply(a[:, w : w + 1], k)
    """,
    "rounded numbers of a variable": """
        far = 1e17
        for w in nl.affine_range(100):
            k = 1 + (w + far - far) - (w + 4 + far - far)
            b[:, w : w + 1] = nl.multiply(a[:, w : w + 1], k)
    """,
    "a property": """
        class Counter:
            def __init__(self):
                self.calls = 0
            @property
            def factor(self):
                self.calls += 1
                return 7.0 if 10 < self.calls < 99 else 5.0
        counter = Counter()
        for w in nl.affine_range(100):
            b[:, w : w + 1] = nl.multiply(a[:, w : w + 1], counter.factor)
    """,
    "a function of another module": """
        import math
        for w in nl.affine_range(100):
            b[:, w : w + 1] = nl.multiply(a[:, w : w + 1], math.sqrt(4.0))
    """,
    "one of two tiles": """
        for w in nl.affine_range(100):
            c = (a, a[:, 50:150], a)[(w - 49) * 0]
            b[:, w : w + 1] = nl.copy(c[:, w : w + 1])
    """,
}


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of iterations of the loops that were completed."""
    found: list[int] = []
    complete = Repetition.complete

    def counted(self: Repetition, *args: Any) -> None:
        complete(self, *args)
        found.append(self.trips)

    monkeypatch.setattr(Repetition, "complete", counted)
    return found


def both(body: str, language: int, monkeypatch: pytest.MonkeyPatch) -> tuple[Trace, Trace]:
    """The trace of a kernel, and the one in which every iteration was interpreted."""
    head = HEAD if language == 1 else (
        "\n    both = [nl.ndarray((8, 200), dtype=nl.float32, buffer=nl.sbuf) for _ in 'ab']"
        "\n    a, b = both\n    x2 = nl.ndarray((14, 8, 8), dtype=nl.float32, buffer=nl.hbm)"
        "\n    nisa.dma_copy(a, x)\n    nisa.tensor_copy(b, a)\n"
    )  # fmt: skip
    store = "    nl.store(out, b)" if language == 1 else "    nisa.dma_copy(out, b)"
    lines = [line[4:] for line in body.rstrip().splitlines()]
    text = head + "\n".join(lines) + "\n" + store
    found = Kernel(text, x=X, out=(8, 200), language=language).trace
    with monkeypatch.context() as patch:
        patch.setattr("tilewright.targets.trainium.execution.FEWEST", 1 << 30)
        return found, Kernel(text, x=X, out=(8, 200), language=language).trace


@pytest.mark.parametrize("name", REPEATED)
def test_the_iterations_between_are_the_same(
    name: str, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    some, every = both(REPEATED[name], 1, monkeypatch)
    assert completed
    assert content(some) == content(every)


@pytest.mark.parametrize("name", COMPLETE)
def test_loops_that_may_differ_are_interpreted_completely(
    name: str, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    some, every = both(COMPLETE[name], 1, monkeypatch)
    assert not completed
    assert content(some) == content(every)


def _statement(chance: random.Random, tiles: list[str]) -> str:
    """An assignment to a region of a tile, or to one of the names `tiles`, which is added."""

    def place(reach: int, width: int) -> str:
        step = chance.choice([0, 1, 1, width, 2, -1])
        first = chance.randrange(8) + (40 if step < 0 else 0)
        text = f"{step} * w + {first}"
        return f"[:, {text} : {text} + {width}]" if reach else f"[:, nl.ds({text}, {width})]"

    width = chance.choice([1, 1, 2, 3])
    sources = [f"{tile}{place(chance.randrange(2), width)}" for tile in ("a", "a", "b", "z")]
    sources += [f"{tile}[:, 0:{width}]" for tile in tiles]
    one, two = chance.choice(sources[:2] + sources[4:]), chance.choice(sources)
    value = chance.choice([
        f"nl.exp({one})", f"nl.add({one}, {two})", f"nl.multiply({one}, 2.0)", f"nl.copy({two})",
        f"nisa.tensor_reduce(nl.add, {one}, axis=[1], keepdims=True)",
    ])  # fmt: skip
    sink = chance.choice([f"t{len(tiles)}", f"b{place(1, width)}", f"z{place(1, width)}"])
    if sink.startswith("t"):
        tiles.append(sink)
        return f"{sink} = {value}"
    return f"{sink} {chance.choice(['=', '+=', '+='])} {value}"


@pytest.mark.parametrize("seed", range(60))
def test_loops_of_all_forms_have_the_instructions_of_complete_ones(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    kind, outer = (chance.choice(["affine", "sequential", "static"]) for _ in range(2))
    tiles: list[str] = []
    lines = [
        f"z = nl.zeros((8, 160), nl.float32, buffer=nl.{chance.choice(['sbuf', 'psum'])})",
        *["for v in nl.affine_range(1): z[:, 20:30] = nl.copy(a[:, 0:10])"] * chance.randrange(2),
        f"for n in nl.{outer}_range({chance.randint(1, 2)}):",
        f"    for w in nl.{kind}_range({chance.choice([32, 40])}):",
        *[f"        {_statement(chance, tiles)}" for _ in range(chance.randint(1, 3))],
        "b[:, 0:160] = nl.copy(z)",
    ]
    body = "\n" + "\n".join(f"        {line}" for line in lines)

    def found() -> object:
        try:
            return [content(trace) for trace in both(body, 1, monkeypatch)]
        except KernelError as error:
            return str(error)

    some = found()
    if isinstance(some, list):
        assert some[0] == some[1]
        return
    monkeypatch.setattr("tilewright.targets.trainium.execution.FEWEST", 1 << 30)
    assert found() == some


@pytest.mark.parametrize("name", REFUSED_NKI_2)
def test_iterations_between_that_break_a_rule_are_refused(
    name: str, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KernelError) as caught:
        both(REFUSED_NKI_2[name], 2, monkeypatch)
    assert not completed
    assert caught.value.code in ("tensor_access_out_of_bound", "shape_mismatch")


@pytest.mark.parametrize("name", NKI_2)
def test_loops_of_nki_2_may_contain_loops_products_and_transfers(
    name: str, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    some, every = both(NKI_2[name], 2, monkeypatch)
    assert completed
    assert content(some) == content(every)


@pytest.mark.parametrize("name", COMPLETE_NKI_2)
def test_loops_of_nki_2_that_may_differ_are_interpreted_completely(
    name: str, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    some, every = both(COMPLETE_NKI_2[name], 2, monkeypatch)
    assert not completed
    assert content(some) == content(every)


class _Nested:
    """A random loop of NKI 2, with others inside, conditions, lists and products."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.made = 0
        trips = chance.choice([12, 13, 16])
        head = [
            "u, k = a[:, 0:4], 1",
            "total = nl.ndarray((8, 8), dtype=nl.float32, buffer=nl.psum)",
        ]
        if chance.random() < 0.2:
            head.append("nisa.nc_matmul(total, a[:, 0:8], a[:, 0:8])")
        self.lines = [*head, f"for n in nl.affine_range({trips}):", "    tiles = [b[:, 0:4]]"]
        if chance.random() < 0.7:
            self.lines[-1] = "    tiles = []"
            self.lines += ["    s = nl.ndarray((8, 4), dtype=nl.float32, buffer=nl.sbuf)",
                           "    tiles.append(s)"]  # fmt: skip
        self.block(1, ["n"])

    def number(self, names: list[str]) -> str:
        """A number, which usually is linear in the variables."""
        chance = self.chance
        parts = [f"{chance.choice([0, 1, 2, 3])} * {name}" for name in names]
        if chance.random() < 0.1:
            parts.append(chance.choice([f"n // {chance.choice([5, 20])}", "n % 7", "k"]))
        if chance.random() < 0.2 and len(names) > 1:
            parts.append(f"max(0, 2 - {names[-1]})")
        return " + ".join([*parts, str(chance.choice([0, 3, 7, -9]))])

    def tile(self, names: list[str]) -> str:
        """Four columns of a tile."""
        chance = self.chance
        if chance.random() < 0.2:
            return chance.choice(["u", "tiles[-1]", "tiles[0]"])
        first = self.number(names)
        return f"{chance.choice(['a', 'b', 'both[0]', 'both[1]'])}[:, nl.ds({first} + 20, 4)]"

    def block(self, depth: int, names: list[str]) -> None:
        for _ in range(self.chance.randint(1, 3)):
            self.statement(depth, names)

    def statement(self, depth: int, names: list[str]) -> None:
        chance, indent = self.chance, "    " * depth
        form = chance.randrange(9)
        if form == 0 and depth < 3:
            self.made += 1
            name = f"c{self.made}"
            trips = chance.choice(["2", "3", "3", "1 + len(both)", "0", "1 + n % 2"])
            self.lines.append(f"{indent}for {name} in range({trips}):")
            self.block(depth + 1, [*names, name])
        elif form == 1 and depth < 3:
            tests = [f"{names[-1]} == 1", "a.shape[1] > 100", "n == 8", "k > 3"]
            self.lines.append(f"{indent}if {chance.choice(tests)}:")
            self.block(depth + 1, names)
            self.lines.append(f"{indent}else:")
            self.block(depth + 1, names)
        elif form == 2:
            self.made += 1
            self.lines += [f"{indent}p{self.made} = nl.ndarray((8, 8), dtype=nl.float32, "
                           "buffer=nl.psum)",
                           f"{indent}nisa.nc_matmul(p{self.made}, a[:, 0:8], a[:, 8:16])",
                           f"{indent}nisa.tensor_copy(b[:, 8:16], p{self.made})"]  # fmt: skip
        elif form == 3 and chance.random() < 0.4:
            self.lines.append(f"{indent}nisa.nc_matmul(total, a[:, 0:8], a[:, 8:16])")
        elif form == 4 and chance.random() < 0.5:
            what = chance.choice([f"k = {self.number(names)}", f"u = {self.tile(names)}", "k = 2"])
            self.lines.append(indent + what)
        elif form == 5:
            self.made += 1
            self.lines += [f"{indent}t{self.made} = nl.ndarray((8, 4), dtype=nl.float32, "
                           "buffer=nl.sbuf)",
                           f"{indent}nisa.dma_copy(t{self.made}, x[:, nl.ds(20, 4)])",
                           f"{indent}tiles.append(t{self.made})"]  # fmt: skip
        elif form == 6:
            self.lines.append(f"{indent}nisa.dma_copy(x2[n % 14, :, 0:4], {self.tile(names)})")
        else:
            self.lines.append(f"{indent}nisa.tensor_copy({self.tile(names)}, {self.tile(names)})")


@pytest.mark.parametrize("seed", range(150))
def test_nested_loops_of_all_forms_have_the_instructions_of_complete_ones(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "\n" + "\n".join(f"        {line}" for line in _Nested(random.Random(seed)).lines)

    def found() -> object:
        try:
            return [content(trace) for trace in both(body, 2, monkeypatch)]
        except KernelError as error:
            return str(error)

    some = found()
    if isinstance(some, list):
        assert some[0] == some[1]
        return
    monkeypatch.setattr("tilewright.targets.trainium.execution.FEWEST", 1 << 30)
    assert found() == some


def test_the_loop_variable_selects_none_of_the_numbers_of_a_function() -> None:
    """Those of `nl.num_programs` may be in any order."""
    loop = ast.parse("for n in range(20): k = nl.num_programs(axes)[n]").body[0]
    assert isinstance(loop, ast.For)
    assert evenness(loop) is None


def test_a_last_iteration_elsewhere_makes_all_of_them_be_interpreted(
    completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    expects = Repetition.expects

    def only_leading(self: Repetition, other: Any, number: int) -> bool:
        return number < repeating.LEADING and expects(self, other, number)

    monkeypatch.setattr(Repetition, "expects", only_leading)
    monkeypatch.setattr(repeating, "SHARE", 0.0)
    some, every = both(REPEATED["columns"], 1, monkeypatch)
    assert not completed
    assert content(some) == content(every)


BETWEEN = [
    """
        for w in nl.affine_range(40):
            k = w if w in (0, 1, 39) else w + 100
            b[:, k : k + 1] = nl.exp(a[:, w : w + 1])
    """,
    """
        for w in nl.affine_range(40):
            if w in (0, 1, 39):
                b[:, w : w + 1] = nl.exp(a[:, w : w + 1])
            else:
                b[:, w : w + 1] = nl.negative(a[:, w : w + 1])
    """,
    """
        for n in nl.sequential_range(2):
            for w in nl.affine_range(40):
                k = w if w in (0, 1, 39) else 0
                b[:, w : w + 1] = nl.exp(a[:, k : k + 1])
    """,
]
"""Loops whose first two and last iterations do not show that the others differ."""


@pytest.mark.parametrize("body", BETWEEN)
@pytest.mark.parametrize("kind", ["affine", "static"])
def test_an_iteration_in_the_middle_shows_that_a_loop_was_wrongly_taken_for_even(
    body: str, kind: str, completed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def always(node: ast.For) -> Callable[[object], bool]:
        return lambda frame: True

    monkeypatch.setattr("tilewright.targets.trainium.language.flow.evenness", always)
    monkeypatch.setattr(repeating, "SHARE", 1.0)
    some, every = both(body.replace("affine", kind), 1, monkeypatch)
    assert not completed
    assert content(some) == content(every)


def test_the_iteration_in_the_middle_depends_on_the_text_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found: list[tuple[int, ...]] = []
    real = repeating.drawn

    def noted(seed: str, loop: Loop) -> list[int]:
        numbers = real(seed, loop)
        found.append(tuple(numbers))
        return numbers

    monkeypatch.setattr("tilewright.targets.trainium.execution.drawn", noted)
    for name in (*range(20), *range(20)):
        text = REPEATED["columns"].replace("t ", f"t{name} ").replace("add, t,", f"add, t{name},")
        both(text, 1, monkeypatch)
    assert found[:20] == found[20:]
    numbers = [number for drawn in found[:20] for number in drawn]
    assert 3 < len(set(numbers)) <= len(numbers) < 17
    assert all(repeating.LEADING <= number < 99 for number in numbers)


@pytest.mark.parametrize(
    "body",
    [
        # In the middle of the row, an iteration of n reads what the one before it wrote.
        """
        for n in nl.affine_range(2):
            for w in nl.affine_range(100):
                e[:, w : w + 1] = nl.copy(d[:, w : w + 1])
            d[:, 60:61] = nl.copy(a[:, 0:1])
        """,
        # An iteration reads what another one wrote 40 iterations before.
        """
        for w in nl.affine_range(100):
            d[:, w + 40 : w + 41] = nl.copy(d[:, w : w + 1])
        """,
        # The column was written by the loop over w in the iteration of n before.
        """
        for n in nl.affine_range(2):
            c[n, :, 0:1] = nl.copy(e[:, 50:51])
            for w in nl.affine_range(100):
                e[:, w : w + 1] = nl.copy(a[:, w : w + 1])
        """,
    ],
)
def test_values_carried_between_iterations_are_still_refused(body: str) -> None:
    more = """
        c = nl.zeros((2, nl.par_dim(8), 100), dtype=nl.float32)
        d = nl.zeros((8, 200), dtype=nl.float32)
        e = nl.zeros((8, 200), dtype=nl.float32)
    """
    lines = [line[4:] for line in (more + body).rstrip().splitlines()]
    text = HEAD + "\n".join(lines) + "\n    nl.store(out, b)"
    with pytest.raises(KernelError) as caught:
        Kernel(text, x=X, out=(8, 200))
    assert caught.value.code == "unexpected_output_dependencies"


def test_the_first_iteration_that_breaks_a_rule_is_named() -> None:
    text = HEAD + "\n    for w in nl.affine_range(210):\n        t = nl.exp(a[:, w : w + 1])\n"
    with pytest.raises(KernelError, match="index 200 of axis 1") as caught:
        Kernel(text + "    nl.store(out, b)", x=X, out=(8, 200))
    assert caught.value.code == "tensor_access_out_of_bound"


@pytest.mark.parametrize("limits", [Limits(instructions=150), Limits(steps=150)])
def test_what_is_not_interpreted_counts(limits: Limits, completed: list[int]) -> None:
    lines = [line[4:] for line in REPEATED["columns"].rstrip().splitlines()]
    kernel = Kernel(HEAD + "\n".join(lines) + "\n    nl.store(out, b)", x=X, out=(8, 200))
    assert completed
    completed.clear()
    with pytest.raises(KernelError, match="stopped after 150") as caught:
        trace_program(parse(kernel.source), kernel.call, TRN1, limits)
    assert caught.value.code == "too_long"
    assert not completed

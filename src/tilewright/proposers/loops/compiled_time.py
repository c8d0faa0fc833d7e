"""Estimates how long a kernel takes after a compiler has made vectors of its innermost loops.

The estimate adds the cycles of all iterations of all loops. An iteration takes as long as its
operations, or as long as its longest chain (`analysis/recurrences.py`), plus the time of accesses
to distant elements. Where nothing prevents it, a compiler runs several iterations in one vector.
The estimate only orders plans; their benefit is measured. Its constants were chosen by measurements
of the kernels in tests/fixtures/plain_c on a processor with vectors of 512 bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tilewright.proposers.loops.analysis.changes import element_types, reduction_of, set_by
from tilewright.proposers.loops.analysis.linear import linear
from tilewright.proposers.loops.analysis.recurrences import (
    CHEAP_CALLS,
    Types,
    carried_by,
    computed_by,
    longest_chain,
)
from tilewright.proposers.loops.c_types import BYTES
from tilewright.proposers.loops.functions import OF_ANY_ANGLE, SCALAR_OF_REDUCTION
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Select,
    Statement,
    Type,
    Var,
    statements,
)
from tilewright.proposers.loops.mathematical import MATHEMATICAL_TEXTS

_SCALARS_PER_CYCLE = 3.0
_FUNCTION, _VECTOR_FUNCTION, _ANY_ANGLE = 120.0, 20.0, 60.0
"""Costs of a function of math.h on a number and on a vector; a simple operation costs 1."""
_COMBINED = 10.0
"""Cost of a function that combines the lanes of a vector."""
_DIVISION, _VECTOR_DIVISION = 4.0, 10.0
_ACCESS, _CONVERSION, _CHOICE = 0.5, 2.0, 2.0
_ACROSS_LINES = 0.75
"""The additional cost of a vector that lies in two lines of a cache."""
_LINE_BYTES = 64
_NEAR = 16
"""Maximum distance of elements, in elements, that lie in the same line of a cache."""
_FAR = 3.0
"""Cycles of an access to another line than in the previous iteration."""
_ITERATION, _INNERMOST = 2.0, 1.0
"""Cycles of an iteration in addition to its statements."""
_BEGIN = 4.0
"""Cycles to begin and end a loop of vectors."""
_REGISTERS, _SPILL = 30, 2.0
_UNROLLED = 8
"""Loops with fewer iterations are written out by compilers."""
_MOST_INTERLEAVED = 4
"""Maximum distance of neighbouring elements that compilers still put into vectors."""
_ALIKE, _SHARE = 8, 3
"""From this number of copies of a statement, compilers make vectors of them, which gain this
fraction of their lanes."""


def compiled_time(kernel: Kernel, vector_bytes: int) -> float:
    """Estimated cycles of a call on a processor with vectors of this size."""
    declared = [s for s in statements(kernel.body) if isinstance(s, Declare)]
    types = Types(element_types(kernel), {s.name: s.type for s in declared if not s.sizes})
    return _time(kernel.body, None, types, vector_bytes)


def _time(body: Sequence[Statement], around: For | None, types: Types, size: int) -> float:
    """Cycles of statements, each loop as often as it runs."""
    own = [s for s in body if not isinstance(s, For)]
    inner = sum(_of_loop(s, types, size) for s in body if isinstance(s, For))
    return inner + _operations(own, around, types, 1, size)


def _of_loop(loop: For, types: Types, size: int) -> float:
    loop = _written_out(loop)
    if any(isinstance(s, For) for s in loop.body):
        return loop.trips * (_ITERATION + _time(loop.body, loop, types, size))
    types = replace(types, changing=frozenset(set_by(loop.body)))
    lanes = _lanes(loop, types, size)
    each = _operations(loop.body, loop, types, lanes, size)
    if lanes > 1:
        return -(-loop.trips // lanes) * (_INNERMOST + each) + _BEGIN
    return loop.trips * (_INNERMOST + max(each, longest_chain(loop, types)))


def _written_out(loop: For) -> For:
    """The loop with the iterations of short inner loops one after another."""
    body: list[Statement] = []
    for statement in loop.body:
        if isinstance(statement, For):
            inner = _written_out(statement)
            if inner.trips >= _UNROLLED or any(isinstance(s, For) for s in inner.body):
                return loop
            body += inner.body * inner.trips
        else:
            body.append(statement)
    return replace(loop, body=tuple(body))


def _lanes(loop: For, types: Types, size: int) -> int:
    """Number of iterations that a compiler runs in one vector, or 1."""
    used = [e for s in loop.body for e in computed_by(s) if e != Var(loop.variable)]
    if loop.step > 1 or any(_prevents(e, loop, types) for e in used):
        return 1
    if any(not _is_whole_sum(name, loop, types) for name in carried_by(loop.body)):
        return 1
    kinds = {types.of(e) for e in used if isinstance(e, (Element, Var, Cast))}
    if "vector" in kinds:
        return 1
    widest = max((BYTES.get(kind, 4) for kind in kinds), default=4)
    return max(1, min(size // (_bytes_of_products(loop, types) or widest), loop.trips))


def _prevents(expr: Expr, loop: For, types: Types) -> bool:
    """Whether an expression prevents a compiler from making vectors."""
    if isinstance(expr, Call):
        return not expr.function.startswith(CHEAP_CALLS)
    if isinstance(expr, Element):
        return types.stride(expr, loop) not in range(_MOST_INTERLEAVED + 1)
    return isinstance(expr, Load)


def _is_whole_sum(name: str, loop: For, types: Types) -> bool:
    """Whether a loop only reduces an integer, in any order, and reads it nowhere else."""
    if types.variables.get(name) in ("float", "double", "vector"):
        return False
    changes = [s for s in loop.body if isinstance(s, Assign) and s.target == Var(name)]
    reads = sum(e == Var(name) for s in loop.body for e in computed_by(s))
    return reads == 2 * len(changes) and all(reduction_of(name, s.value) for s in changes)


def _bytes_of_products(loop: For, types: Types) -> int:
    """The size of the factors if a loop only sums products for which processors have instructions:
    of unsigned and signed bytes, or of 16-bit numbers; otherwise 0."""
    kinds: set[Type] = set()
    for statement in loop.body:
        value = statement.value if isinstance(statement, Assign) else None
        product = value.right if isinstance(value, Binary) and value.operator == "+" else None
        if not isinstance(product, Binary) or product.operator != "*":
            return 0
        kinds |= {types.of(product.left), types.of(product.right)}
    return 1 if kinds == {"uint8_t", "int8_t"} else 2 if kinds == {"int16_t"} else 0


def _operations(
    body: Sequence[Statement], loop: For | None, types: Types, lanes: int, size: int
) -> float:
    """Cycles in which a processor can start the operations of statements."""
    vectors, scalars, waiting = 0.0, 0.0, 0.0
    for expr in (e for s in body for e in computed_by(s)):
        is_vector = lanes > 1 or types.of(expr) == "vector"
        stride = 0
        if isinstance(expr, (Element, Load)) and loop is not None:
            stride = types.stride(expr, loop) or 0
        cost = _cost(expr, is_vector) * (max(1, stride) if lanes > 1 else 1)
        if isinstance(expr, Load) and loop is not None and _is_across_lines(expr, loop):
            cost += _ACROSS_LINES * size / _LINE_BYTES
        if isinstance(expr, Element) and stride > _NEAR:
            waiting += _FAR
        if is_vector:
            vectors += cost
        else:
            scalars += cost
    if lanes == 1 and loop is not None:
        scalars /= _gain_of_copies(body, types, size)
    held = sum(isinstance(s, Declare) and s.type == "vector" for s in body)
    spilled = max(0, held - _REGISTERS) * _SPILL
    return vectors + scalars / _SCALARS_PER_CYCLE + waiting + spilled


def _is_across_lines(load: Load, loop: For) -> bool:
    """Whether the vectors that a loop over vectors accesses are not at multiples of their size."""
    terms, place = linear(load.subscripts[-1])
    return Var(loop.variable) in terms and bool((loop.first + place) % loop.step)


def _cost(expr: Expr, is_vector: bool) -> float:
    """The cost of an operation, without its operands."""
    if isinstance(expr, (Element, Load)):
        return _CONVERSION if isinstance(expr, Load) and expr.converts else _ACCESS
    if isinstance(expr, Binary):
        division = _VECTOR_DIVISION if is_vector else _DIVISION
        return division if expr.operator in "/%" else 1.0
    if isinstance(expr, Select):
        return _CHOICE
    if isinstance(expr, Call):
        name = expr.function
        if name in SCALAR_OF_REDUCTION or "running" in name:
            return _COMBINED
        if name in OF_ANY_ANGLE.values():
            return _ANY_ANGLE
        if name in MATHEMATICAL_TEXTS:
            return _VECTOR_FUNCTION
        return 1.0 if name.startswith(("v_", *CHEAP_CALLS)) else _FUNCTION
    return 1.0 if isinstance(expr, (Cast, Negative)) else 0.0


def _gain_of_copies(body: Sequence[Statement], types: Types, size: int) -> int:
    """How much faster copies of a statement, each with its own variable, become in vectors."""
    alike = Counter(types.variables.get(name, "int") for name in carried_by(body))
    kind, count = max(alike.items(), key=lambda found: found[1], default=("int", 0))
    if kind == "vector" or count < _ALIKE:
        return 1
    return max(1, min(size // BYTES.get(kind, 4), count) // _SHARE)

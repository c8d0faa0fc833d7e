"""Processes the statements of a kernel in NKI 2; loops are kept and all sizes are numbers.

If the iterations of a loop differ in more than the accessed places, the loop is split into its
first, middle and last iterations if that is sufficient, otherwise into all iterations.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.proposers.nki.ir import (
    ITEM_BYTES,
    Alloc,
    Loop,
    Op,
    Region,
    Statement,
    Tensor,
    whole,
)
from tilewright.proposers.nki.linear import Linear, variable
from tilewright.proposers.nki.reading.expressions import evaluated
from tilewright.proposers.nki.reading.functions import Items, mathematical
from tilewright.proposers.nki.reading.signatures import DEFAULTS, SIGNATURES
from tilewright.proposers.nki.reading.syntax import RANGES, carried, defaults_of, is_range, stored
from tilewright.proposers.nki.reading.values import (
    ByRows,
    Fresh,
    Name,
    SplitError,
    UnsupportedError,
    integer,
    linear,
)
from tilewright.proposers.nki.reversing import with_reversed_source

FEW = 4
"""A loop with at most this number of iterations is written out if it must be split."""
MOST_SPLIT = 16
EDGES = ((0, 1), (1, 0), (1, 1))
"""Numbers of iterations at the beginning and at the end that are separated, tried in this order."""
MOST_CARRIED = 64
"""Maximum number of iterations of a loop that passes names on, such as a list that it extends."""
MOST_STATEMENTS = 2000
_CONTINUING = ("select_reduce", "range_select")
"""Instructions that may reduce their rows together with the contents of a column."""
DEEPEST_CALL = 20
MOST_STEPS = 1_000_000
"""Maximum number of evaluated expressions and assigned items; real kernels take some thousands."""


class _TooManyPartsError(UnsupportedError):
    """Iterations other than the first and the last one also differ."""

    def __init__(self) -> None:
        super().__init__("sizes differ between iterations in too many ways")


@dataclass
class Reader:
    """The state of the reader: values of names, tensors, and the statements read so far."""

    names: dict[str, Any] = field(default_factory=dict)
    outside: Mapping[str, Any] = field(default_factory=dict)
    """Names that functions can use in addition to their parameters."""
    tensors: dict[str, Tensor] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    trips: dict[str, int] = field(default_factory=dict)
    body: list[Statement] = field(default_factory=list)
    given: frozenset[str] = frozenset()
    """Names that the function being read uses but does not define."""
    count: int = 0
    depth: int = 0
    steps: int = 0
    around: list[str] = field(default_factory=list)
    """The variables of the loops whose bodies are being read."""
    draws: int = 0
    """Number of instructions with random numbers."""

    def step(self) -> None:
        """Count an expression or an item; `UnsupportedError` if there are too many."""
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise UnsupportedError("reading the kernel takes too long")

    def run(self, statements: Sequence[ast.stmt]) -> Any:
        """Process statements, and return the value of a `return` among them."""
        for statement in statements:
            try:
                found = self._statement(statement)
            except UnsupportedError as error:
                error.line = error.line or statement.lineno
                raise
            if found is not None:
                return found
        return None

    def _statement(self, statement: ast.stmt) -> Any:
        match statement:
            case ast.Return(value=ast.expr() as value):
                return evaluated(self, value)
            case ast.Expr(value=ast.Constant()) | ast.Assert() | ast.Pass() | ast.Delete():
                return None
            case ast.FunctionDef(name=name):
                self.names[name] = statement
            case ast.Expr(
                value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[item]
                )
            ) if isinstance(self.names.get(name), Items):
                self._append(name, evaluated(self, item))
            case ast.Expr(value=value):
                evaluated(self, value)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, evaluated(self, value), value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, evaluated(self, value), value)
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                combined = ast.BinOp(ast.Name(name), op, value, lineno=statement.lineno)
                ast.fix_missing_locations(combined)
                self.names[name] = evaluated(self, combined)
            case ast.If(test=test, body=body, orelse=orelse):
                return self.run(body if evaluated(self, test) else orelse)
            case ast.For(target=target, iter=over, body=body, orelse=[]):
                if isinstance(target, ast.Name) and is_range(over):
                    self._loop(target.id, over, body)
                else:
                    return self._each(target, over, body)
            case _:
                text = ast.unparse(statement).split("\n")[0]
                raise UnsupportedError(f"`{text[:60]}` is not understood")
        return None

    def _append(self, name: str, item: Any) -> None:
        found = self.names[name]
        if name in self.given or any(
            found is other or (isinstance(other, tuple) and any(found is part for part in other))
            for known, other in self.names.items()
            if known != name
        ):
            raise UnsupportedError(f"{name} may refer to a list that also has another name")
        self.names[name] = Items((*found, self._placed(name, item)))

    def _each(self, target: ast.expr, over: ast.expr, body: list[ast.stmt]) -> Any:
        """A loop over known items: its iterations one after another."""
        items = evaluated(self, over)
        if not isinstance(items, (tuple, range)) or len(items) > MOST_SPLIT * FEW:
            raise UnsupportedError("a loop is not over a range or a short list")
        for item in items:
            self._assign(target, item, over)
            found = self.run(body)
            if found is not None:
                return found
        return None

    def _assign(self, target: ast.expr, value: Any, node: ast.expr) -> None:
        if isinstance(target, ast.Tuple):
            if not isinstance(value, tuple) or len(value) != len(target.elts):
                raise UnsupportedError("the number of values differs from the number of names")
            for part, item in zip(target.elts, value, strict=True):
                self._assign(part, item, node)
            return
        if not isinstance(target, ast.Name):
            raise UnsupportedError(f"`{ast.unparse(target)[:60]} = ...` is not understood")
        self.names[target.id] = self._placed(target.id, value)

    def _placed(self, name: str, value: Any) -> Any:
        """A value in which the created tensors have names."""
        self.step()
        if isinstance(value, Fresh):
            return self._alloc(name, value)
        if isinstance(value, tuple):
            placed = [self._placed(name, item) for item in value]
            changed = any(one is not other for one, other in zip(placed, value, strict=True))
            return type(value)(placed) if changed else value  # a list must stay the same object
        return value

    def _alloc(self, name: str, fresh: Fresh) -> Region:
        tensor = Tensor(
            self.unique(name),
            fresh.shape,
            fresh.dtype,
            fresh.memory,  # type: ignore[arg-type]
            fresh.values,
        )
        self.tensors[tensor.name] = tensor
        self.body.append(Alloc(tensor))
        return whole(tensor)

    def unique(self, name: str) -> str:
        """An unused name."""
        made, number = name, 1
        while made in self.used or made in ("nl", "nisa", "nki", "np"):
            number += 1
            made = f"{name}_{number}"
        self.used.add(made)
        return made

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any], line: int) -> Any:
        """The value of a call of NKI or of a function in the file."""
        self.count += 1
        if self.count > MOST_STATEMENTS:
            raise UnsupportedError("the kernel is too long")
        if isinstance(function, ast.FunctionDef):
            return self._inlined(function, args, kwargs)
        if not isinstance(function, Name):
            raise UnsupportedError("this call is not understood", line)
        if function.text.startswith("nisa."):
            return self._instruction(function.text[5:], args, kwargs)
        if function.text == "nl.ndarray":
            return self._ndarray(args, kwargs)
        if function.text == "nl.zeros":
            return self._zeros(args, kwargs)
        if function.text == "nl.ds":
            return ("ds", *args)
        if function.text in ("nl.par_dim", "par_dim"):
            return args[0]
        if function.text.startswith("math."):
            return mathematical(function.last, args)
        raise UnsupportedError(f"{function.text} is not understood", line)

    def _inlined(self, function: ast.FunctionDef, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The statements of a function in the file, inserted at its call."""
        parameters = [p.arg for p in (*function.args.args, *function.args.kwonlyargs)]
        given = {**dict(zip(parameters, args, strict=False)), **kwargs}
        inside = function.name in self.names and function.name not in self.outside
        names, self.names = self.names, dict(self.names if inside else self.outside)
        for parameter, default in defaults_of(function).items():
            self.names[parameter] = evaluated(self, default)
        self.names.update(given)
        before, self.given = self.given, frozenset(self.names)
        self.depth += 1
        if self.depth > DEEPEST_CALL or function.args.vararg or function.args.kwarg:
            raise UnsupportedError(f"the call of {function.name} is not understood")
        found = self.run(function.body)
        self.depth -= 1
        self.names, self.given = names, before
        return found

    def _ndarray(self, args: list[Any], kwargs: dict[str, Any]) -> Fresh:
        given = {**dict(zip(("shape", "dtype"), args, strict=False)), **kwargs}
        shape = tuple(integer(n, self.trips) for n in given["shape"])
        memory = given.get("buffer", Name("nl.sbuf")).last
        memory = "hbm" if memory == "private_hbm" else memory
        dtype = given["dtype"].last
        if memory not in ("hbm", "shared_hbm", "sbuf", "psum") or dtype not in ITEM_BYTES:
            raise UnsupportedError(f"a tensor of type {dtype} in {memory} is not supported")
        if len(shape) < 2 and memory in ("sbuf", "psum"):
            raise UnsupportedError("a tile has only one axis")
        return Fresh(shape, dtype, memory)

    def _zeros(self, args: list[Any], kwargs: dict[str, Any]) -> Region:
        """A tile of zeros. In PSUM, the first product overwrites its contents."""
        region = self._alloc("zeros", self._ndarray(args, kwargs))
        if self.tensors[region.tensor].memory == "psum":
            return region
        if not self.tensors[region.tensor].on_chip:
            raise UnsupportedError("zeros in HBM")
        self.body.append(Op("memset", (("dst", region), ("value", 0.0))))
        return region

    def _instruction(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        order = SIGNATURES.get(name)
        if order is None or len(args) > len(order):
            raise UnsupportedError(f"nisa.{name} is not understood")
        given = {**dict(zip(order, args, strict=False)), **kwargs}
        name, given = _transfer(name, given)
        if name == "topk":  # every instruction has a dst
            given = {"dst" if key == "val_dst" else key: value for key, value in given.items()}
            if not isinstance(given.get("n"), int):
                raise UnsupportedError("a number of largest elements that depends on a loop")
        if name == "dropout":
            given["draw"] = self._draw()
        command = given.get("reduce_cmd")
        if name in _CONTINUING and isinstance(command, Name) and command.last == "reduce":
            raise UnsupportedError("a reduction that continues from its column")
        arguments = []
        for key, value in given.items():
            if isinstance(value, Fresh):
                raise UnsupportedError("a tensor without a name")
            if key == "dtype" and name == "tensor_copy":  # the type of dst is used
                continue
            if value is None or (key in DEFAULTS and value == DEFAULTS[key]):
                continue
            arguments.append((key, value if isinstance(value, Region) else _setting(value)))
        op = with_reversed_source(Op(name, tuple(arguments)))
        if op is None:
            raise UnsupportedError("an index that counts down, other than in the source of a copy")
        if not op.writes or "mask" in given:
            raise UnsupportedError(f"nisa.{name} has no dst, or has a mask")
        self.body.append(op)

    def _draw(self) -> Linear:
        """A number that depends on all loops around an instruction, and differs between
        instructions, so that no rewrite lets two executions share their random numbers."""
        self.draws += 1
        found = Linear(self.draws)
        for name in self.around:
            found = found + variable(name)
        return found

    def _loop(self, name: str, over: ast.expr, body: list[ast.stmt]) -> None:
        start, step, trips, kind = self._range(over)
        if trips <= 0:
            return
        if trips == 1 or carried(body):
            if trips > MOST_CARRIED:
                raise UnsupportedError(
                    "a loop passes the values of variables from one iteration to the next"
                )
            self._unrolled(name, start, step, range(trips), body)
            return
        self._symbolic(name, start, step, (0, trips), kind, body)

    def _symbolic(
        self, name: str, start: Linear, step: int, part: tuple[int, int], kind: str,
        body: list[ast.stmt], splitting: bool = True,
    ) -> None:  # fmt: skip
        first, stop = part
        trips = stop - first
        if trips <= 1:
            self._unrolled(name, start, step, range(first, stop), body)
            return
        before, names, used = len(self.body), dict(self.names), set(self.used)
        loop = self.unique(name)
        self.trips[loop] = trips
        self.names[name] = start + first * step + variable(loop) * step
        self.around.append(loop)
        parted = False
        try:
            if self.run(body) is not None:
                raise UnsupportedError("a return within a loop")
        except SplitError as error:
            del self.body[before:], self.trips[loop]
            self.names, self.used = names, used
            if error.variable != loop:
                raise
            if not splitting:
                raise _TooManyPartsError from None
            parted = True
        finally:
            self.around.remove(loop)
        if parted:
            self._split(name, start, step, trips, kind, body)
            return
        inner = tuple(self.body[before:])
        self.body[before:] = [Loop(loop, trips, kind, inner)]
        self.names = names
        for changed in stored(body):
            self.names.pop(changed, None)

    def _split(
        self, name: str, start: Linear, step: int, trips: int, kind: str, body: list[ast.stmt]
    ) -> None:
        """A loop whose last or first iteration, or both, are separate; otherwise all iterations."""
        before, names, used = len(self.body), dict(self.names), set(self.used)
        for head, tail in EDGES if trips > FEW else ():
            rest = (head, trips - tail)
            try:
                self._unrolled(name, start, step, range(head), body)
                self._symbolic(name, start, step, rest, kind, body, splitting=False)
                self._unrolled(name, start, step, range(rest[1], trips), body)
            except _TooManyPartsError:
                del self.body[before:]
                self.names, self.used = dict(names), set(used)
            else:
                return
        if trips > MOST_SPLIT:
            raise _TooManyPartsError
        self._unrolled(name, start, step, range(trips), body)

    def _unrolled(
        self, name: str, start: Linear, step: int, values: Iterable[int], body: list[ast.stmt]
    ) -> None:
        for value in values:
            place = start + value * step
            self.names[name] = place if place.terms else place.constant
            if self.run(body) is not None:
                raise UnsupportedError("a return within a loop")

    def _range(self, over: ast.expr) -> tuple[Linear, int, int, str]:
        """Start, step, number of iterations and kind of a loop's range."""
        if not isinstance(over, ast.Call):
            raise UnsupportedError("a loop is not over a range")
        function = (
            Name(over.func.id) if isinstance(over.func, ast.Name) else evaluated(self, over.func)
        )
        kind = function.last
        if kind != "range" and kind not in RANGES:
            raise UnsupportedError("a loop is not over a range")
        args = [evaluated(self, a) for a in over.args]
        start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
        every = integer(step, self.trips)
        span = integer(linear(stop) - linear(start), self.trips)
        if every < 1:
            raise UnsupportedError("a loop counts down")
        kind = "sequential_range" if kind == "range" else kind
        return linear(start), every, math.ceil(span / every), kind


def _transfer(name: str, given: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Copies whose rows are given by a tile, or that add to their destination, are instructions of
    their own."""
    adds = name == "dma_compute"
    if adds:
        given = _sum(given)
    indirect = [key for key, value in given.items() if isinstance(value, ByRows)]
    if not indirect:
        return ("dma_add" if adds else name), given
    if not adds and (name != "dma_copy" or len(indirect) != 1 or given.keys() - {"dst", "src"}):
        raise UnsupportedError("an index that is read from a tile, other than in a copy")
    place: ByRows = given[indirect[0]]
    kind = "gather" if indirect[0] == "src" else "scatter"
    if adds and indirect != ["dst"]:
        raise UnsupportedError("a sum of rows that are read from tiles")
    more = {"adds": True} if adds else {}
    return kind, {**given, indirect[0]: place.table, **place.settings, **more}


def _sum(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a transfer that adds one tensor to its destination."""
    dst, sources, op = given.get("dst"), given.get("srcs"), given.get("reduce_op")
    scales = given.get("scales")
    if isinstance(op, tuple):  # older releases have them in the other order
        op, scales = scales, op
    sources = sources if isinstance(sources, tuple) else ()
    others = [source for source in sources if source != dst]
    plain = scales is None or all(scale == 1 for scale in scales)
    if len(others) != 1 or len(sources) != 2 or not isinstance(op, Name) or op.last != "add":
        raise UnsupportedError("a sum of tensors other than dst and one more")
    if not plain:
        raise UnsupportedError("a sum with scales")
    return {"dst": dst, "src": others[0]}


def _setting(value: Any) -> Any:
    if isinstance(value, Name):
        return value.text.replace("np.", "nl.")
    if isinstance(value, (list, tuple)):
        return tuple(_setting(item) for item in value)
    if isinstance(value, (int, float, bool, Linear)):
        return value
    raise UnsupportedError(f"an argument {value!r:.40} is not understood")

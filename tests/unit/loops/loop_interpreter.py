"""Runs kernels of the small form in float64, vectors as numpy arrays: what rewrites must keep."""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from typing import Any

import numpy as np

from tilewright.proposers.loops.analysis.changes import changed_by
from tilewright.proposers.loops.ir import (
    Assign,
    Binary,
    Call,
    Cast,
    Command,
    Declare,
    Element,
    Expr,
    For,
    Kernel,
    Load,
    Negative,
    Number,
    Select,
    Statement,
    Var,
)

_FUNCTIONS: dict[str, Any] = {
    "expf": np.exp, "v_exp": np.exp, "sqrtf": np.sqrt, "v_sqrt": np.sqrt,
    "fabsf": np.abs, "v_abs": np.abs, "fmaxf": np.maximum, "v_max": np.maximum,
    "fmax": np.maximum, "fmin": np.minimum,
    "fminf": np.minimum, "v_min": np.minimum, "v_sum": np.sum, "v_most": np.max,
    "v_least": np.min, "tanhf": np.tanh, "v_tanh": np.tanh, "logf": np.log, "v_log": np.log,
    "sinf": np.sin, "v_sin": np.sin, "cosf": np.cos, "v_cos": np.cos,
    "v_sin_of_any": np.sin, "v_cos_of_any": np.cos,
    "erff": np.vectorize(math.erf), "v_erf": np.vectorize(math.erf), "v_less": np.less,
    "v_at_most": np.less_equal, "v_equal": np.equal, "v_differ": np.not_equal,
    "v_and": np.logical_and, "v_or": np.logical_or, "v_not": np.logical_not, "v_select": np.where,
    "v_running_most": np.maximum.accumulate, "v_running_least": np.minimum.accumulate,
    "v_running": np.cumsum, "v_before": lambda a: np.concatenate([[0.0], a[:-1]]),
    "v_bits_minus": np.subtract, "v_bits_plus": np.add, "v_bits_running": np.cumsum,
    "v_bits_first": lambda a: a[0],
    **{
        f"v_{kind}_{name}": function
        for kind in ("wide", "double")
        for name, function in (
            ("plus", np.add), ("first", lambda a: a[0]),
            ("running", lambda a: np.concatenate([np.cumsum(a[: len(a) // 2]), a[len(a) // 2 :]])),
            ("ends", lambda a: np.full(len(a), a[len(a) // 2 - 1])),
        )
    },
    "v_ends": lambda a: np.full(len(a), a[-1]), "v_first": lambda a: a[0],
    "v_same": lambda a: a,
}  # fmt: skip


def _without_assignments(body: tuple[Statement, ...]) -> tuple[Statement, ...]:
    return tuple(
        replace(s, body=_without_assignments(s.body)) if isinstance(s, For) else s
        for s in body
        if not isinstance(s, Assign)
    )


class Interpreter:
    """Arrays by name; written in place. Reading what was never written gives not-a-number."""

    def __init__(self, kernel: Kernel, arrays: dict[str, np.ndarray]) -> None:
        self.kernel = kernel
        self.arrays = {p.name: np.full(p.sizes, np.nan) for p in kernel.scratch} | dict(arrays)
        self.values: dict[str, Any] = {}

    def run(self) -> dict[str, np.ndarray]:
        self._body(self.kernel.body)
        return self.arrays

    def _body(self, body: tuple[Statement, ...]) -> None:
        for statement in body:
            if isinstance(statement, For) and statement.threads > 1:
                self._shared(statement)
            elif isinstance(statement, For):
                for i in range(statement.first, statement.last, statement.step):
                    assert i + statement.step <= max(statement.last, i + 1) or statement.step == 1
                    self.values[statement.variable] = i
                    self._body(statement.body)
            elif isinstance(statement, Declare):
                if statement.sizes:
                    self.arrays[statement.name] = self._declared(statement.type, statement.sizes)
                elif statement.value is None:
                    unset = np.full(self.kernel.lanes, np.nan)
                    self.values[statement.name] = unset if statement.type == "vector" else np.nan
                else:
                    self._set(statement.name, statement.type, self._value(statement.value))
            elif isinstance(statement, Command):
                self._command(statement)
            else:
                self._assign(statement)

    def _shared(self, loop: For) -> None:
        """The last iteration first; none leaves the next, or what follows, a variable or array."""
        inside = changed_by(replace(loop, body=_without_assignments(loop.body)))
        values = {name: v for name, v in self.values.items() if name not in inside}
        arrays = dict(self.arrays)
        for i in reversed(range(loop.first, loop.last, loop.step)):
            self.values[loop.variable] = i
            self._body(loop.body)
            for name, value in values.items():
                assert self.values[name] is value, f"{name} is written by several threads"
            self.values, self.arrays = dict(values), dict(arrays)

    def _declared(self, kind: str, sizes: tuple[int, ...]) -> np.ndarray:
        return np.full(sizes, np.nan)

    def _command(self, command: Command) -> None:
        raise AssertionError(f"{command.name} is not known here")

    def _set(self, name: str, kind: str, value: Any) -> None:
        assert (np.ndim(value) == 1) == (kind == "vector"), (name, kind)
        self.values[name] = value

    def _assign(self, statement: Assign) -> None:
        target, value = statement.target, self._value(statement.value)
        if isinstance(target, Var):
            assert np.ndim(value) == np.ndim(self.values[target.name]), target.name
            self.values[target.name] = value
        elif isinstance(target, Load):
            assert np.ndim(value) == 1
            self._vector(target)[:] = value
        else:
            assert np.ndim(value) == 0
            self.arrays[target.array][self._place(target.subscripts)] = value

    def _vector(self, load: Load) -> np.ndarray:
        *outer, last = self._place(load.subscripts)
        row = self.arrays[load.array][tuple(outer)]
        assert 0 <= last <= len(row) - self.kernel.lanes, "a vector reaches over the end"
        return row[last : last + self.kernel.lanes]

    def _place(self, subscripts: tuple[Expr, ...]) -> tuple[int, ...]:
        found = tuple(int(self._value(s)) for s in subscripts)
        assert min(found) >= 0
        return found

    def _value(self, expr: Expr) -> Any:
        if isinstance(expr, Number):
            return float(expr.text.rstrip("f"))
        if isinstance(expr, Var):
            return self.values[expr.name]
        if isinstance(expr, Element):
            return self.arrays[expr.array][self._place(expr.subscripts)]
        if isinstance(expr, Load):
            return self._vector(expr).copy()
        if isinstance(expr, Negative):
            return -self._value(expr.value)
        if isinstance(expr, Call):
            arguments = [self._value(a) for a in expr.arguments]
            if expr.function in ("v_splat", "v_bits", "v_wide", "v_double"):
                assert np.ndim(arguments[0]) == 0
                return np.full(self.kernel.lanes, arguments[0])
            if expr.function == "v_across":
                first, rest, lane = arguments
                return np.concatenate([first, rest])[int(lane) : int(lane) + len(first)]
            if expr.function.startswith("v_"):
                assert all(np.ndim(a) == 1 for a in arguments), expr
            else:
                assert all(np.ndim(a) == 0 for a in arguments), expr
            return _FUNCTIONS[expr.function](*arguments)
        if isinstance(expr, Cast):
            value = self._value(expr.value)
            return float(value) if expr.type in ("float", "double") else int(value)
        if isinstance(expr, Select):
            return self._value(expr.value if self._value(expr.condition) else expr.other)
        assert isinstance(expr, Binary)
        if expr.operator in ("&&", "||"):
            decides = expr.operator == "||"
            first = bool(self._value(expr.left))
            return decides if first is decides else bool(self._value(expr.right))
        left, right = self._value(expr.left), self._value(expr.right)
        return {
            "+": np.add,
            "-": np.subtract,
            "*": np.multiply,
            "/": np.divide,
            "%": np.mod,
            ">>": lambda a, b: int(a) >> int(b),
            "&": lambda a, b: int(a) & int(b),
            "<": operator.lt,
            "<=": operator.le,
            ">": operator.gt,
            ">=": operator.ge,
            "==": operator.eq,
            "!=": operator.ne,
        }[expr.operator](left, right)

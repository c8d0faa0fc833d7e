"""Lifting and printing keep what a program does, on generated programs in many ways of writing.

A program is a tree of statements that is written down as C and carried out here, apart from the
rewriter: the commands it issues are known without lifting anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_model import trace

from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine

Values: TypeAlias = dict[str, int]
Call: TypeAlias = tuple[str, tuple[Any, ...]]
SIGNATURE = (
    "void kernel(const int8_t image[3][40][48], const int8_t W[200][64], int8_t out[120][64])"
)
CPU = [
    "out[0][0] = out[0][1] + 3;",
    "for (int e = 0; e < 8; e++) out[e][2] = out[e][2] > 0 ? out[e][2] : 0;",
]
TESTS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


@dataclass(frozen=True)
class Sum:
    """`const + sum of factor * variable`, possibly divided, with a remainder or a minimum."""

    terms: tuple[tuple[str, int], ...]
    const: int
    form: str = ""
    by: int = 1

    def value(self, values: Values) -> int:
        total = self.const + sum(values[v] * f for v, f in self.terms)
        match self.form:
            case "/" | ">>":
                return total // self.by
            case "%" | "&":
                return total % self.by
            case "min":
                return min(total, self.by)
        return total

    def text(self) -> str:
        parts = [v if f == 1 else f"{f} * {v}" if f % 2 else f"{v} * {f}" for v, f in self.terms]
        plain = " + ".join([*parts, str(self.const)] if self.const or not parts else parts)
        match self.form:
            case "/" | "%":
                return f"(({plain}) {self.form} {self.by})"
            case ">>":
                return f"(({plain}) >> {self.by.bit_length() - 1})"
            case "&":
                return f"(({plain}) & {self.by - 1})"
            case "min":
                return f"(({plain}) < {self.by} ? ({plain}) : {self.by})"
        return f"({plain})"


@dataclass(frozen=True)
class Issue:
    """A command whose operands are numbers, local addresses and elements of arrays."""

    name: str
    operands: tuple[tuple[str, tuple[Sum, ...], str], ...]
    as_local: bool

    def run(self, values: Values) -> Iterator[Call]:
        yield self.name, tuple(self._value(o, values) for o in self.operands)

    @staticmethod
    def _value(operand: tuple[str, tuple[Sum, ...], str], values: Values) -> Any:
        kind, sums, flag = operand
        given = tuple(s.value(values) for s in sums)
        if not kind:
            return given[0]
        if kind in ("SPAD", "ACC"):
            return kind, given[0], frozenset({flag} if flag else ())
        return kind, given

    def text(self, pad: str) -> list[str]:
        words, before = [], []
        for number, (kind, sums, flag) in enumerate(self.operands):
            word = sums[0].text() if not kind else f"{kind}({sums[0].text()})"
            if kind and kind not in ("SPAD", "ACC"):
                word = f"&{kind}" + "".join(f"[{s.text()}]" for s in sums)
            elif kind and self.as_local and number == 1:
                before.append(f"{pad}const uint32_t at = {word};")
                word = "at"
            words.append(f"{word} | {flag}" if flag else word)
        call = f"{pad}{self.name}({', '.join(words)});"
        return [f"{pad}{{", *before, call, f"{pad}}}"] if before else [call]


@dataclass(frozen=True)
class Ragged:
    """A loop over tiles whose last one may be smaller; the body may use `rows_`."""

    var: str
    size: int
    tile: int
    style: int
    body: tuple[Any, ...]

    def run(self, values: Values) -> Iterator[Call]:
        for value in range(0, self.size, self.tile):
            inner = {**values, self.var: value, "rows_": min(self.tile, self.size - value)}
            for stmt in self.body:
                yield from stmt.run(inner)

    def text(self, pad: str) -> list[str]:
        v, size, tile = self.var, self.size, self.tile
        head = [
            f"for (int {v} = 0; {v} < {size}; {v} += {tile})",
            f"for (int {v} = 0; {v} <= {size - 1}; {v} = {v} + {tile})",
            f"for (int {v} = 0; {size} > {v}; {v} += {tile})",
        ][self.style if self.style < 3 else 0]
        rows = f"{size} - {v} < {tile} ? {size} - {v} : {tile}"
        lines = [f"{pad}{head} {{", f"{pad}  const int rows_ = {rows};"]
        for stmt in self.body:
            lines += stmt.text(pad + "  ")
        return [*lines, f"{pad}}}"]


@dataclass(frozen=True)
class Guarded:
    """`if (a op b && c op d) .. else ..`."""

    parts: tuple[tuple[Sum, str, int], ...]
    body: tuple[Any, ...]
    orelse: tuple[Any, ...]

    def run(self, values: Values) -> Iterator[Call]:
        holds = all(TESTS[op](left.value(values), right) for left, op, right in self.parts)
        for stmt in self.body if holds else self.orelse:
            yield from stmt.run(values)

    def text(self, pad: str) -> list[str]:
        test = " && ".join(f"{left.text()} {op} {right}" for left, op, right in self.parts)
        lines = [f"{pad}if ({test}) {{"]
        for stmt in self.body:
            lines += stmt.text(pad + "  ")
        if self.orelse:
            lines.append(f"{pad}}} else {{")
            for stmt in self.orelse:
                lines += stmt.text(pad + "  ")
        return [*lines, f"{pad}}}"]


@dataclass(frozen=True)
class OnCore:
    """Element-wise work of the core: issues nothing, and must be in the printed kernel."""

    source: str

    def run(self, values: Values) -> Iterator[Call]:
        yield from ()

    def text(self, pad: str) -> list[str]:
        return [pad + self.source]


def sums(variables: tuple[str, ...]) -> st.SearchStrategy[Sum]:
    chosen = st.lists(st.sampled_from(variables), max_size=2, unique=True) if variables else None
    factors = st.sampled_from([1, 1, 2, 3, 16])
    terms = (
        chosen.flatmap(lambda names: st.tuples(*(st.tuples(st.just(n), factors) for n in names)))
        if chosen is not None
        else st.just(())
    )
    form = st.sampled_from([("", 1)] * 6 + [("/", 3), ("%", 5), (">>", 4), ("&", 8), ("min", 20)])
    return st.builds(lambda t, c, f: Sum(t, c, *f), terms, st.integers(0, 20), form)


def issues(variables: tuple[str, ...]) -> st.SearchStrategy[Issue]:
    one = sums(variables)
    extent = st.one_of(
        st.builds(lambda n: Sum((), n), st.integers(1, 16)),
        st.just(Sum((("rows_", 1),), 0)) if "rows_" in variables else st.just(Sum((), 16)),
    )
    number = extent.map(lambda s: ("", (s,), ""))
    spad = one.map(lambda s: ("SPAD", (s,), ""))
    acc = st.tuples(one, st.sampled_from(["", "ACCUMULATE"])).map(lambda p: ("ACC", (p[0],), p[1]))
    window = st.tuples(one, one, one).map(lambda p: ("image", p, ""))
    plane = st.tuples(one, one).map(lambda p: ("W", p, ""))
    stored = st.tuples(one, one).map(lambda p: ("out", p, ""))
    moves = st.tuples(st.one_of(window, plane), st.one_of(spad, acc), number, number)
    stores = st.tuples(stored, st.one_of(spad, acc), number, number)
    products = st.tuples(spad, acc, number, number, number, number)
    return st.one_of(
        st.builds(Issue, st.sampled_from(["mvin", "mvin2", "mvin3"]), moves, st.booleans()),
        st.builds(Issue, st.just("mvout"), stores, st.booleans()),
        st.builds(Issue, st.just("preload"), products, st.booleans()),
    )


def bodies(variables: tuple[str, ...], depth: int) -> st.SearchStrategy[tuple[Any, ...]]:
    choices: list[st.SearchStrategy[Any]] = [issues(variables), issues(variables)]
    if depth:
        var = "abcd"[depth]
        inner = (*variables, var, *(() if "rows_" in variables else ("rows_",)))
        loops = st.builds(
            Ragged,
            st.just(var),
            st.integers(1, 50),
            st.sampled_from([1, 7, 16]),
            st.integers(0, 2),
            st.deferred(lambda: bodies(inner, depth - 1)),
        )
        choices.append(loops)
        if variables:
            part = st.tuples(sums(variables), st.sampled_from(sorted(TESTS)), st.integers(0, 30))
            choices.append(
                st.builds(
                    Guarded,
                    st.lists(part, min_size=1, max_size=2).map(tuple),
                    bodies(variables, depth - 1),
                    st.one_of(st.just(()), bodies(variables, depth - 1)),
                )
            )
        choices.append(st.sampled_from(CPU).map(OnCore))
    return st.lists(st.one_of(choices), min_size=1, max_size=3).map(tuple)


def source_of(program: tuple[Any, ...]) -> str:
    lines = [line for stmt in program for line in stmt.text("  ")]
    return "\n".join([f"{SIGNATURE} {{", *lines, "  fence();", "}"]) + "\n"


@settings(
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(bodies((), 3))
def test_lift_and_print_keep_the_commands_of_any_program(
    machine: Machine, program: tuple[Any, ...]
) -> None:
    source = source_of(program)
    expected = [call for stmt in program for call in stmt.run({})]
    expected.append(("fence", ()))
    kernel = lift(source, machine)
    printed = emit(kernel)
    for version in (kernel, simplify(kernel), lift(printed, machine)):
        issued = [call for call in trace(version.body) if machine.is_command(call[0])]
        assert issued == expected, source
    left = [s for s in walk(kernel.body) if isinstance(s, Opaque)]
    assert all(any(s.text in text for text in CPU) for s in left), source
    assert emit(lift(printed, machine)) == printed

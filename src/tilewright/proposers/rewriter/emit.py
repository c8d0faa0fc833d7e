"""Converts loop IR to readable C and keeps comments.

A minimum or remainder in a command gets a name once, in the outermost block in which all its
variables exist. This is the author's name if the expression had one, otherwise a name after its
use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tilewright.proposers.rewriter.analysis.rounding import as_in_c
from tilewright.proposers.rewriter.analysis.words import Packed, Share, bases, packed, used, windows
from tilewright.proposers.rewriter.expr import (
    Atom,
    Expr,
    Minimum,
    Quotient,
    Remainder,
    Var,
)
from tilewright.proposers.rewriter.ir import (
    Array,
    Assign,
    Body,
    Command,
    Condition,
    Dram,
    Flag,
    Guard,
    Kernel,
    Local,
    Loop,
    Opaque,
    Operand,
    Stmt,
    Text,
    Words,
    expressions,
    walk,
)

_LINE = 64
"""Bytes to whose multiples the static arrays of a kernel are aligned."""


def emit(kernel: Kernel) -> str:
    """The whole file as C."""
    kernel = kernel.with_body(as_in_c(kernel.body))
    taken = {a.name for a in kernel.arrays}
    for stmt in walk(kernel.body):
        if isinstance(stmt, Loop):
            taken.add(stmt.var)
        elif isinstance(stmt, Opaque):
            taken |= stmt.names
    printer = _Printer(kernel.names, taken, kernel.words)
    here = [a for a in kernel.arrays if a.local and not a.outside]
    lines = [_declaration(a) for a in here if _mentions(kernel.body, a.name)]
    lines += printer.block(kernel.body, 1, frozenset(), {})
    return "\n".join([f"{kernel.before}{kernel.signature} {{", *lines, "}"]) + kernel.after


@dataclass
class _Printer:
    """Prints one function. `taken` are the names that are already used.

    `known` are the names of packed words, including those of enclosing blocks.
    """

    preferred: Mapping[Atom, str]
    taken: set[str]
    words: Words | None = None
    known: dict[Packed, str] = field(default_factory=dict)

    def _bases(self, body: Body, depth: int, scope: frozenset[str], text: _Text) -> list[str]:
        """Lines that pack each kind of block in a body, once its sizes are known."""
        if self.words is None:
            return []
        lines = []
        for base in bases(body, self.words):
            word = Packed(Share(base), 0)
            if word in self.known or not base.varying <= scope:
                continue
            local = base.memory if base.absent else f"{base.memory}(0)"
            sizes = f"{text.expr(base.columns)}, {text.expr(base.rows)}"
            self.known[word] = self._fresh(base.memory.lower())
            pad = "  " * depth
            value = f"{self.words.macro}({local}, {sizes})"
            lines.append(f"{pad}const uint64_t {self.known[word]} = {value};")
        return lines

    def _shared(self, body: Body, depth: int, text: _Text) -> list[str]:
        """Lines that name the common part of several words in a block."""
        if self.words is None:
            return []
        starts = windows(body, self.words)
        uses = Counter(starts[word] for _, word in used(body, self.words))
        lines = []
        for start, count in uses.items():
            if count > 1 and start not in self.known:
                value = text.packed(start, self.known)
                self.known[start] = self._fresh("word")
                lines.append(f"{'  ' * depth}const uint64_t {self.known[start]} = {value};")
        for word, start in starts.items():
            if start in self.known:
                self.known.setdefault(word, f"{self.known[start]} + {word.rows - start.rows}")
        return lines

    def block(
        self, body: Body, depth: int, scope: frozenset[str], names: Mapping[Atom, str]
    ) -> list[str]:
        """Lines of a block: first the locals it defines, then its statements."""
        pad = "  " * depth
        known = dict(names)
        inner = _Printer(self.preferred, set(self.taken), self.words, dict(self.known))
        lines = []
        for atom in _nameable(body):
            if atom not in known and Expr(0, ((atom, 1),)).names() <= scope:
                value = _Text(known).atom(atom)
                known[atom] = inner._name(atom)
                lines.append(f"{pad}const int {known[atom]} = {value};")
        lines += inner._bases(body, depth, scope, _Text(known))
        lines += inner._shared(body, depth, _Text(known))
        for stmt in body:
            lines.extend(inner._statement(stmt, depth, scope, known))
        return lines

    def _name(self, atom: Atom) -> str:
        fallback = "slot" if isinstance(atom, Remainder) else "count"
        return self._fresh(self.preferred.get(atom, fallback).rstrip("0123456789") or fallback)

    def _fresh(self, base: str) -> str:
        name, number = base, 2
        while name in self.taken:
            name, number = f"{base}{number}", number + 1
        self.taken.add(name)
        return name

    def _statement(
        self, stmt: Stmt, depth: int, scope: frozenset[str], names: Mapping[Atom, str]
    ) -> list[str]:
        pad = "  " * depth
        text = _Text(names)
        lines = [f"{pad}// {note}" for note in stmt.notes]
        match stmt:
            case Command(name, operands, _, trailing):
                given = None
                if self.words is not None and (given := packed(stmt, self.words)) is not None:
                    name = self.words.forms[name].name
                printed = (
                    text.packed(o, self.known) if isinstance(o, Packed) else text.operand(o)
                    for o in given or operands
                )
                call = f"{name}({', '.join(printed)});"
                lines.append(pad + call + (f"  // {trailing}" if trailing else ""))
            case Loop(var, lower, upper, step, body, _, hint):
                if hint:
                    lines.append(f"{pad}#pragma GCC unroll {hint}")
                advance = f"{var}++" if step == 1 else f"{var} += {step}"
                lines.append(
                    f"{pad}for (int {var} = {text.expr(lower)}; "
                    f"{var} < {text.expr(upper)}; {advance}) {{"
                )
                lines.extend(self.block(body, depth + 1, scope | {var}, names))
                lines.append(f"{pad}}}")
            case Guard(condition, body, orelse):
                lines.append(f"{pad}if ({text.condition(condition)}) {{")
                lines.extend(self.block(body, depth + 1, scope, names))
                if orelse:
                    lines.append(f"{pad}}} else {{")
                    lines.extend(self.block(orelse, depth + 1, scope, names))
                lines.append(f"{pad}}}")
            case Assign(target, terms, constant):
                lines.append(f"{pad}{text.element(target)} = {text.sum(terms, constant)};")
            case Opaque(source):
                lines.append(pad + source)
        return lines


@dataclass(frozen=True, slots=True)
class _Text:
    """Prints expressions. Atoms in `names` are printed as their names."""

    names: Mapping[Atom, str]

    def operand(self, operand: Operand) -> str:
        match operand:
            case Expr():
                return self.expr(operand)
            case Local(space, row, flags):
                return " | ".join([f"{space}({self.expr(row)})", *(self.flag(f) for f in flags)])
            case Dram(array, index):
                return f"&{self.element(operand)}" if index else array
            case Text(text):
                return text

    def packed(self, word: Packed, known: Mapping[Packed, str]) -> str:
        """A packed word, by its name or from its base."""
        if word in known:
            return known[word]
        rows = Expr(word.rows, word.share.terms)
        result = known[Packed(Share(word.share.base), 0)]
        result += f" + {self.expr(rows)}" if rows != Expr(0) else ""
        return " | ".join([result, *(self.flag(f) for f in word.share.flags)])

    def element(self, dram: Dram) -> str:
        return dram.array + "".join(f"[{self.expr(e)}]" for e in dram.index)

    def sum(self, terms: tuple[tuple[float, Dram], ...], constant: float) -> str:
        """A linear combination; factors of one are left out."""
        result = ""
        for factor, dram in terms:
            scaled = "" if abs(factor) == 1 else f"{_number(abs(factor))} * "
            sign = "-" if factor < 0 else "+"
            part = scaled + self.element(dram)
            result += f" {sign} {part}" if result else (f"-{part}" if sign == "-" else part)
        if constant or not result:
            sign = " - " if constant < 0 else " + "
            result += f"{sign if result else ''}{_number(abs(constant) if result else constant)}"
        return result

    def flag(self, flag: Flag) -> str:
        if not flag.when:
            return flag.name
        return f"({self.condition(flag.when)} ? {flag.name} : 0)"

    def condition(self, condition: Condition) -> str:
        return " && ".join(f"{self.expr(c.left)} {c.op} {self.expr(c.right)}" for c in condition)

    def expr(self, expr: Expr) -> str:
        parts = [(c, self._factor(a, abs(c) != 1)) for a, c in expr.terms]
        parts.sort(key=lambda p: p[0] < 0)
        if expr.const or not parts:
            first = not parts or parts[0][0] < 0
            parts.insert(0 if first else len(parts), (expr.const, ""))
        result = ""
        for coefficient, factor in parts:
            size = abs(coefficient)
            term = f"{size}" if not factor else factor if size == 1 else f"{size} * {factor}"
            sign = "-" if coefficient < 0 else "+"
            result += f" {sign} {term}" if result else (f"-{term}" if sign == "-" else term)
        return result

    def _factor(self, atom: Atom, multiplied: bool) -> str:
        text = self.names.get(atom) or self.atom(atom)
        plain = isinstance(atom, Var) or atom in self.names
        tight = isinstance(atom, Quotient | Remainder) and not multiplied
        return text if plain or tight else f"({text})"

    def atom(self, atom: Atom) -> str:
        match atom:
            case Var(name):
                return name
            case Quotient(of, by):
                return f"{self._operand(of)} / {by}"
            case Remainder(of, by):
                return f"{self._operand(of)} % {by}"
            case Minimum(left, right):
                if left.is_const:
                    left, right = right, left
                first, second = self.expr(left), self.expr(right)
                return f"{first} < {second} ? {first} : {second}"

    def _operand(self, expr: Expr) -> str:
        single = len(expr.terms) == 1 and expr.const == 0 and expr.terms[0][1] == 1
        return self.expr(expr) if single or expr.is_const else f"({self.expr(expr)})"


def _declaration(array: Array) -> str:
    sizes = "".join(f"[{size}]" for size in array.shape)
    if array.static:  # moves of unevenly spaced rows take longer
        return f"  static {array.element} {array.name}{sizes} __attribute__((aligned({_LINE})));"
    return f"  {array.element} {array.name}{sizes};"


def _mentions(body: Body, name: str) -> bool:
    for stmt in walk(body):
        match stmt:
            case Command(_, operands):
                drams = [o for o in operands if isinstance(o, Dram)]
            case Assign(target, terms):
                drams = [target, *(dram for _, dram in terms)]
            case Opaque(_, names):
                drams = [Dram(n, ()) for n in names]
            case _:
                continue
        if any(dram.array == name for dram in drams):
            return True
    return False


def _number(value: float) -> str:
    """A factor in C: an integer for integers, otherwise a float literal."""
    return str(int(value)) if value == int(value) else f"{value!r}f"


def _nameable(body: Body) -> Iterator[Atom]:
    """Minimums and remainders that are used anywhere inside, inner ones first."""
    for stmt in walk(body):
        for expr in _used(stmt):
            for atom in expr.atoms():
                if isinstance(atom, Minimum | Remainder):
                    yield atom


def _used(stmt: Stmt) -> Iterator[Expr]:
    if isinstance(stmt, Command):
        for operand in stmt.operands:
            yield from expressions(operand)
    elif isinstance(stmt, Loop):
        yield from (stmt.lower, stmt.upper)
    elif isinstance(stmt, Assign):
        for dram in (stmt.target, *(dram for _, dram in stmt.terms)):
            yield from dram.index
    elif isinstance(stmt, Guard):
        for compare in stmt.condition:
            yield from (compare.left, compare.right)

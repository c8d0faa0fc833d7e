"""Random Gemmini programs: two to four products and element-wise loops, one after the other.

Every stage has loops, tiles and an order of its own, and every array a layout of its own. None is
a product or a convolution alone.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

BYTES = {"int8_t": 1, "int32_t": 4}


@dataclass(frozen=True)
class Matrix:
    """A matrix in an argument array of some layout."""

    name: str
    element: str
    rows: int
    columns: int
    layout: str
    padding: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        match self.layout:
            case "panels":
                return (self.columns // 16, self.rows, 16)
            case "tiles":
                return (self.rows // 16, self.columns // 16, 16, 16)
            case "between":
                return (self.rows, 3, self.columns)
        return (self.rows, self.columns + self.padding)

    @property
    def stride(self) -> int:
        """Bytes between two rows of a block of 16 columns."""
        columns = {"panels": 16, "tiles": 16, "between": 3 * self.columns}
        return BYTES[self.element] * columns.get(self.layout, self.columns + self.padding)

    def at(self, row: str, column: str) -> str:
        """The address of an element."""
        match self.layout:
            case "panels":
                index = f"[{column} / 16][{row}][{column} % 16]"
            case "tiles":
                index = f"[{row} / 16][{column} / 16][{row} % 16][{column} % 16]"
            case "between":
                index = f"[{row}][1][{column}]"
            case _:
                index = f"[{row}][{column}]"
        return f"&{self.name}{index}"

    def declared(self, *, const: bool) -> str:
        """The parameter."""
        sizes = "".join(f"[{size}]" for size in self.shape)
        return f"{'const ' * const}{self.element} {self.name}{sizes}"


@dataclass
class Program:
    """Its arrays, those that it only reads, and its C.

    `own` are results that are arrays of the kernel's own, and what declares each of them: the
    "file", or the kernel's function as "static" or "automatic".
    """

    rng: random.Random
    arrays: list[Matrix] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)
    body: list[str] = field(default_factory=list)
    own: dict[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[Matrix]:
        """The arrays that the kernel is given."""
        return [a for a in self.arrays if a.name not in self.own]

    @property
    def source(self) -> str:
        arguments = ", ".join(a.declared(const=a.name in self.inputs) for a in self.arguments)
        own = {a.declared(const=False): self.own[a.name] for a in self.arrays if a.name in self.own}
        before = "".join(f"static {one};\n" for one, place in own.items() if place == "file")
        declared = [
            f"{'static ' * (place == 'static')}{one};"
            for one, place in own.items()
            if place != "file"
        ]
        lines = ["config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);", *self.body]
        lines = [*declared, *lines]
        return f"{before}void kernel({arguments}) {{\n  " + "\n  ".join(lines) + "\n}\n"

    def matrix(self, element: str, rows: int, columns: int, *, given: bool = False) -> Matrix:
        """A new array; one that is `given` is an input."""
        rng = self.rng
        name = f"{'in' if given else 'out'}{len(self.arrays)}"
        layout = rng.choice(("rows", "rows", "panels", "tiles", "between"))
        made = Matrix(name, element, rows, columns, layout, rng.choice((0, 16, 32)))
        self.arrays.append(made)
        if given:
            self.inputs.add(name)
        return made


MOST_ARRAYS = 8
"""What a kernel may be given in registers."""


def random_program(seed: int) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    while True:
        program = _program(rng)
        if len(program.arrays) <= MOST_ARRAYS:
            return program


def with_own_arrays(program: Program) -> Program:
    """The same with results that only later stages read as arrays of the kernel's own."""
    results = [a for a in program.arrays if a.name not in program.inputs]
    places = ("file", "static", "automatic")
    program.own = {a.name: program.rng.choice(places) for a in results[:-1]}
    return program


def _program(rng: random.Random) -> Program:
    program = Program(rng)
    rows = rng.choice((16, 32, 48))
    known = [program.matrix("int8_t", rows, rng.choice((16, 32, 48)), given=True)]
    for _ in range(rng.randint(2, 4)):
        sums = [m for m in known if m.element == "int32_t"]
        if rng.random() < (0.6 if sums else 0.2):
            known.append(_element_wise(program, rows, sums))
        else:
            known.append(_product(program, [m for m in known if m.element == "int8_t"]))
        program.body.append("fence();")
    return program


def _element_wise(program: Program, rows: int, sums: Sequence[Matrix]) -> Matrix:
    """The sum of two matrices of 32 bits, scaled, perhaps without what is below 0."""
    rng = program.rng
    first = sums[-1] if sums else program.matrix("int32_t", rows, 32, given=True)
    fitting = [m for m in sums[:-1] if m.columns == first.columns]
    second = fitting[-1] if fitting and rng.random() < 0.5 else None
    second = second or program.matrix("int32_t", rows, first.columns, given=True)
    return _stage(program, rows, first.columns, [first, second], ())


def _product(program: Program, lefts: Sequence[Matrix]) -> Matrix:
    """One or two products, perhaps with a matrix added."""
    rng = program.rng
    left, columns = lefts[-1], rng.choice((16, 32, 64))
    factors = [(left, program.matrix("int8_t", left.columns, columns, given=True))]
    if rng.random() < 0.5:
        given = program.matrix("int8_t", left.rows, rng.choice((16, 32, 48)), given=True)
        other = rng.choice((*lefts[:-1], given))
        factors.append((other, program.matrix("int8_t", other.columns, columns, given=True)))
    added = []
    if rng.random() < 0.5:
        added = [program.matrix("int32_t", left.rows, columns, given=True)]
    return _stage(program, left.rows, columns, added, factors)


def _stage(
    program: Program,
    rows: int,
    columns: int,
    added: Sequence[Matrix],
    factors: Sequence[tuple[Matrix, Matrix]],
    widths: Sequence[int] = (8, 16),
) -> Matrix:
    """Loops that store a matrix: the sum of added ones and of products, in tiles of one of the
    widths."""
    rng = program.rng
    unscaled = rng.random() < 0.4
    result = program.matrix("int32_t" if unscaled else "int8_t", rows, columns)
    tall, wide = rng.choice((8, 16)), rng.choice(widths)
    loops = [_loop(rng, "i", rows, tall), _loop(rng, "j", columns, wide)]
    rng.shuffle(loops)
    scale = "1.0f" if unscaled else rng.choice(("1.0f", "0.25f", "0.03125f"))
    activation = "NO_ACTIVATION" if unscaled else rng.choice(("NO_ACTIVATION", "RELU"))
    turn = rng.choice(("0", f"(i / {tall} + j / {wide}) % 2 * 64", f"(j / {wide} & 1) * 512"))
    lines = [
        f"config_st({result.stride}, {scale}, {activation});",
        *loops,
        "{",
        f"  const uint32_t sums = ACC({turn});",
        *_added(added, wide, tall),
    ]
    for number, (left, right) in enumerate(factors):
        lines += _terms(rng, left, right, wide, tall, begun=bool(added) or number > 0)
    flags = " | FULL" if unscaled else ""
    lines += [f"  mvout({result.at('i', 'j')}, sums{flags}, {wide}, {tall});", "}"]
    program.body += lines
    return result


def _added(added: Sequence[Matrix], wide: int, tall: int) -> list[str]:
    """Loads of matrices into the sums."""
    lines = []
    for number, matrix in enumerate(added):
        flag = " | ACCUMULATE" if number else ""
        lines += [
            f"  config_ld({matrix.stride}, 1.0f, 16, 2);",
            f"  mvin3({matrix.at('i', 'j')}, sums{flag}, {wide}, {tall});",
        ]
    return lines


def _terms(
    rng: random.Random, left: Matrix, right: Matrix, wide: int, tall: int, *, begun: bool
) -> list[str]:
    """The loop over the depth of a product."""
    space = rng.choice((0, 256))
    loop = f"for (int k = 0; k < {left.columns}; k += 16)"
    if begun:
        loop = _loop(rng, "k", left.columns, 16)
    flag = "sums | ACCUMULATE" if begun else "k ? sums | ACCUMULATE : sums"
    return [
        f"  config_ld({left.stride}, 1.0f, 16, 0);",
        f"  config_ld({right.stride}, 1.0f, 16, 1);",
        f"  {loop} {{",
        f"    mvin({left.at('i', 'k')}, SPAD({space}), 16, {tall});",
        f"    mvin2({right.at('k', 'j')}, SPAD({space} + 64), {wide}, 16);",
        f"    preload(SPAD({space} + 64), {flag}, {wide}, 16, {wide}, {tall});",
        f"    compute_preloaded(SPAD({space}), NONE, 16, {tall}, {wide}, {tall});",
        "  }",
    ]


def _loop(rng: random.Random, name: str, count: int, step: int) -> str:
    if rng.random() < 0.3:
        return f"for (int {name} = {count - step}; {name} >= 0; {name} -= {step})"
    return f"for (int {name} = 0; {name} < {count}; {name} += {step})"


def chained_program(seed: int, tiles: int = 3) -> Program:
    """Two products, of which the second one multiplies the results of the first one; these lie in
    an array of the kernel's own. No matrix has more rows than this number of tiles."""
    rng = random.Random(f"chained {seed}")
    while True:
        program = Program(rng)
        rows, depth, between = (16 * rng.randint(1, tiles) for _ in range(3))
        left = program.matrix("int8_t", rows, depth, given=True)
        for columns in (between, rng.choice((16, 32, 64))):
            right = program.matrix("int8_t", left.columns, columns, given=True)
            added = []
            if rng.random() < 0.5:
                added = [program.matrix("int32_t", rows, columns, given=True)]
            left = _stage(program, rows, columns, added, [(left, right)], (16,))
            program.body.append("fence();")
        results = [a for a in program.arrays if a.name not in program.inputs]
        program.own = {results[0].name: rng.choice(("file", "static", "automatic"))}
        plain = all(
            one.layout == "rows" or (one.layout == "between" and one not in results)
            or (one.layout == "tiles" and one.columns == 16 and one is right)
            for one in program.arrays
        )  # fmt: skip
        if results[0].element == "int8_t" and plain:
            return program

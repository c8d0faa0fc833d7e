"""Random kernels in plain C, and running kernels that this machine's compiler built."""

from __future__ import annotations

import ctypes
import random
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

HEAD = """\
#include <math.h>
#include <stdint.h>
#define ROWS 12
#define COLS 8
#define TWICE(a) ((a) + (a))
enum { ALL = ROWS * COLS };
static const float HALF = 0.5f;
static float sign_of(float v) {
  if (v > 0.0f) return 1.0f;
  if (v < 0.0f) return -1.0f;
  return 0.0f;
}
static int32_t mixed(int8_t a, int b) { int32_t s = a; s += b * 3; return s; }
static void add_row(const float *row, float *to, int n) {
  for (int t = 0; t < n; t++) to[t] += row[t] * HALF;
}
"""
SIGNATURE = (
    "(const float X[ROWS][COLS], const float *P, const int8_t *A, float Y[ROWS][COLS], "
    "float *Q, int32_t H[16])"
)
PLAIN = SIGNATURE.replace("ROWS", "12").replace("COLS", "8")
"""The arguments of each random kernel."""


class Program:
    """Writes one random kernel."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.fresh = 0

    def text(self) -> str:
        """A whole source."""
        nests = [self.nest() for _ in range(self.rng.randint(1, 3))]
        return f"{HEAD}void kernel{SIGNATURE} {{\n  int i, j;\n{''.join(nests)}}}\n"

    def nest(self) -> str:
        """Two loops, over rows and columns, with pointers and counters that may move along."""
        self.fresh += 1
        walk, count = f"p{self.fresh}", f"n{self.fresh}"
        start = self.rng.choice(["P", "P + 0", "&P[0]"])
        body = "".join(self.statement(walk, count) for _ in range(self.rng.randint(1, 4)))
        moves = self.rng.choice([f"    {walk}++; {count}++;\n", f"    {walk} += 1; ++{count};\n"])
        after = self.rng.choice(["", f"  H[{self.rng.randrange(16)}] += {count};\n"])
        return (
            f"  const float *{walk} = {start}; int {count} = 0; float sum{self.fresh} = 0.0f;\n"
            f"  int total{self.fresh} = {self.rng.randint(-3, 3)};\n"
            f"  {self.head('i', 12)} {{\n  {self.head('j', 8)} {{\n{body}{moves}  }}\n"
            f"  Q[i] = sum{self.fresh}; H[i % 16] ^= total{self.fresh};\n  }}\n{after}"
        )

    def head(self, name: str, size: int) -> str:
        """The head of a loop over all of 0 to size - 1."""
        kind = self.rng.choice(["", "int ", "long ", "int32_t "])
        up = [
            f"{name} = 0; {name} < {size}; {name}++",
            f"{name} = 0; {name} <= {size - 1}; ++{name}",
            f"{name} = 0; {name} != {size}; {name} += 1",
            f"{name} = 0; {size} > {name}; {name}++",
        ]
        down = [
            f"{name} = {size - 1}; {name} >= 0; {name}--",
            f"{name} = {size - 1}; {name} > -1; {name} -= 1",
        ]
        return f"for ({kind}{self.rng.choice(up + down)})"  # fmt: skip

    def number(self, walk: str, count: str) -> str:
        """A float."""
        n = self.fresh
        return self.rng.choice(
            [
                "X[i][j]", f"*{walk}", f"{walk}[0]", "P[i * COLS + j]", f"P[{count}]", "HALF",
                "-1.702f*X[i][j]", "(float)A[i * 8 + j]", "sign_of(X[i][j] - 0.1f)", f"sum{n}",
                "(j > 0 ? X[i][j - 1] : X[i][j])", "fmaxf(X[i][j], 0.25f)", "TWICE(X[11 - i][j])",
                "fabsf(-X[i][7 - j])", "(float)(i + 2 * j)", "Y[i][j]", f"*(P + {count})",
            ]
        )  # fmt: skip

    def whole(self, count: str) -> str:
        """A whole number."""
        return self.rng.choice(
            ["A[i * COLS + j]", "mixed(A[j], i)", f"{count}", "(int32_t)A[j] * (int32_t)A[i]",
             "i - j", "(A[j] >> 1)", "(A[j] & 7)", "~A[i]", "(A[i] > A[j])", "!A[j]", "j % 3"]
        )  # fmt: skip

    def condition(self, walk: str, count: str) -> str:
        """A condition."""
        a, b = self.number(walk, count), self.number(walk, count)
        return self.rng.choice(
            [f"{a} < {b}", f"{a} >= {b} && i != 3", f"!({a} > {b})", f"A[j] || {a} > {b}", "i == j",
             f"{self.whole(count)} > 2"]
        )  # fmt: skip

    def statement(self, walk: str, count: str) -> str:
        """One statement of the inner loop."""
        n, a, b = self.fresh, self.number(walk, count), self.number(walk, count)
        self_made = f"v{self.rng.randrange(1000)}"
        return self.rng.choice(
            [
                f"    Y[i][j] = {a} + {b};\n", f"    Y[i][j] -= {a} * {b};\n",
                f"    {{ const float {self_made} = {a}; Y[i][j] += {self_made} * {self_made}; }}\n",
                f"    sum{n} += {a};\n", f"    total{n} += {self.whole(count)};\n",
                f"    if ({self.condition(walk, count)}) Y[i][j] = {a}; else Y[i][j] = {b};\n",
                f"    if ({self.condition(walk, count)}) {{ sum{n} += {a}; total{n}--; }}\n",
                f"    if ({self.condition(walk, count)}) {{ Y[i][j] = {a}; H[j] += 1; }} "
                f"else if ({self.condition(walk, count)}) H[i] -= 2; else {{ sum{n} = {b}; }}\n",
                f"    H[{self.whole(count)} & 15]++;\n",
                f"    H[(unsigned)A[j] % 16u] += {self.whole(count)};\n",
                f"    Y[i][j] = {self.condition(walk, count)} ? {a} : {b};\n",
                f"    if (j == 0) total{n} ^= 5;\n",
                f"    if (A[j] < 0) sum{n} = -sum{n};\n", "    H[j] = i;\n",
            ]
        )  # fmt: skip


STOPS = ("/* budget */", "int left = 3000;"), ("/* stop */", "if (left-- == 0) return;")
"""Comments in random loops, and statements that end a loop that C repeats very often."""


def random_loops(rng: random.Random) -> str:
    """Two loops with variables and bounds of any integer type, of which the inner one may vary."""
    kinds = ["int", "int", "int8_t", "uint8_t", "short", "unsigned", "size_t", "long"]
    outer, inner, local = (rng.choice(kinds) for _ in range(3))
    start = rng.choice(["0", "i", "i - 3", "i + 2", "-2", "i * 9", "2u"])
    limit = rng.choice(["i", "i - 2", "i + 4", "20", "20u", "n", "30 - i"])
    head = rng.choice(
        [f"j = {start}; j {sign} {limit}; j++" for sign in ("<", "<=", "!=")]
        + [f"j = {limit}; j {sign} {start}; j--" for sign in (">", ">=")]
        + [f"j = {start}; j + 2 < {limit}; j += 2"]
    )
    value = rng.choice(["j", "i + j", "j * 7", "i - 4"])
    return (
        "#include <stdint.h>\n#include <stddef.h>\nvoid kernel(int32_t H[64]) {\n"
        f"  /* budget */ const {rng.choice(kinds)} n = {rng.choice([-1, 7, 12])};\n"
        f"  for ({outer} i = {rng.choice([0, 2, -3])}; i < {rng.choice([5, 20])}; i++)\n"
        f"  for ({inner} {head}) {{\n    /* stop */ {local} m = {value}; H[m & 63] += i + 1;\n"
        f"    if (j < {rng.choice(['3', '9u', 'n'])}) H[1] -= 5;\n  }}\n}}\n"
    )


def built(sources: Mapping[str, str], folder: Path) -> ctypes.CDLL:
    """A library of kernels, each under its name; sums are not contracted.

    Kernels after the same text are compiled as one file, because a compiler takes longer to start
    and to read its headers than to compile a kernel.
    """
    files: dict[str, str] = {}
    for name, source in sources.items():
        before, _, kernel = source.partition("void kernel(")
        last = before.strip().rpartition("\n")[2]
        ended = last == "" or last.endswith(("}", ";")) or last.startswith("#")
        joined = ended and kernel.count("\n}") == 1 and "void kernel(" not in kernel
        key = before if joined else name
        named = source.replace("void kernel(", f"void {name}(")
        files[key] = files[key] + named[len(before) :] if key in files else named
    objects = []
    for number, text in enumerate(files.values()):
        file = folder / f"kernels_{number}.c"
        file.write_text(text)
        objects.append(str(file))
    library = folder / "kernels.so"
    flags = ["-O1", "-w", "-ffp-contract=off", "-fwrapv", "-shared", "-fPIC"]
    done = subprocess.run(
        ["gcc", *flags, *objects, "-o", str(library), "-lm"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(library))


def results(library: ctypes.CDLL, name: str, arrays: Sequence[np.ndarray]) -> list[bytes]:
    """What all arrays hold after a call on copies of them."""
    copies = [array.copy() for array in arrays]
    library[name](*(array.ctypes.data_as(ctypes.c_void_p) for array in copies))
    return [copy.tobytes() for copy in copies]


def random_arrays(seed: int) -> list[np.ndarray]:
    """Values for the arguments of a random kernel."""
    rng = np.random.default_rng(seed)
    floats = [rng.standard_normal(96).astype(np.float32) for _ in range(4)]
    a = rng.integers(-128, 128, 96).astype(np.int8)
    return [floats[0], floats[1], a, floats[2], floats[3], rng.integers(-9, 9, 16).astype(np.int32)]

"""What a kernel computes is found whatever its schedule, and the naive nest computes the same."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import pytest
from byte_model import same
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernel_model import gemm, randomly_rewritten

from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Loop, Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.reading import read

UNSEEN = Path(__file__).parents[2] / "golden" / "rewriter" / "unseen"


NAMED = frozenset(("left_over", "macros", "pixels_gathered", "pointers_and_while"))
"""Kernels whose operands keep names of the target, which the model does not know."""


@pytest.mark.parametrize("name", sorted({p.stem for p in UNSEEN.glob("*.c")} - NAMED))
def test_kernels_in_styles_of_their_own(machine: Machine, name: str) -> None:
    source = (UNSEEN / f"{name}.c").read_text()
    naive = raised(source, machine)
    assert not any(isinstance(s, Opaque) for s in walk(naive.body))
    assert same(lift(source, machine), naive)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_of_a_schedule_is_left(machine: Machine, seed: int) -> None:
    source = gemm(96, 128, 80)
    expected = raised(source, machine)
    kernel, done = randomly_rewritten(read(source, machine), machine, random.Random(seed), tries=20)
    assert done
    assert emit(raised(emit(kernel), machine)) == emit(expected)


def test_the_generated_start_is_its_own_naive_nest(machine: Machine) -> None:
    source = gemm(100, 72, 40)
    loops = [[s.var for s in walk(k.body) if isinstance(s, Loop)]
             for k in (lift(source, machine), raised(source, machine))]  # fmt: skip
    assert len(loops[0]) == len(loops[1]) == 4
    assert same(lift(source, machine), raised(source, machine))


@dataclass(frozen=True)
class Layer:
    """`out[m][n] = (sat8 of) left[m][k] * right[k][n] (+ bias[n]) (+ other[m][n])`."""

    n: int
    tile: tuple[int, int]
    order: str
    bias: bool
    added: bool
    down: bool


layers = st.builds(
    Layer,
    n=st.sampled_from([16, 24, 48, 72]),
    tile=st.sampled_from([(16, 16), (8, 16), (16, 8), (12, 16)]),
    order=st.sampled_from(["ij", "ji"]),
    bias=st.booleans(),
    added=st.booleans(),
    down=st.booleans(),
)


def program(m: int, k: int, chain: list[Layer]) -> str:
    """Layers one after the other, each the left operand of the next; then twice the last one."""
    arguments, body, left = [f"const int8_t X[{m}][{k}]"], [], "X"
    for number, layer in enumerate(chain):
        n, (rows, columns) = layer.n, layer.tile
        arguments.append(f"const int8_t W{number}[{k}][{n}]")
        if layer.bias:
            arguments.append(f"const int32_t b{number}[{n}]")
        if layer.added:
            arguments.append(f"const int32_t R{number}[{m}][{n}]")
        arguments.append(f"int8_t Y{number}[{m}][{n}]")
        bias = f"&b{number}[j]" if layer.bias else "0"
        added = f"&R{number}[i][j]" if layer.added else "0"
        loops = {
            "i": f"for (int i = 0; i < {m}; i += {rows})",
            "j": f"for (int j = 0; j < {n}; j += {columns})",
        }
        if layer.down:
            loops["i"] = f"for (int i = {(m - 1) // rows * rows}; i >= 0; i -= {rows})"
        body += [
            f"config_ld({k}, 1.0f, 16, 0); config_ld({n}, 1.0f, 16, 1); config_st({n});",
            f"{loops[layer.order[0]]} {loops[layer.order[1]]} {{",
            f"  int r = {m} - i < {rows} ? {m} - i : {rows};",
            f"  int c = {n} - j < {columns} ? {n} - j : {columns};",
            "  config_ld(0, 1.0f, 16, 2);",
            f"  mvin3({bias}, 1u << 31, c, r);",
            f"  if ({int(layer.added)}) {{ config_ld({4 * n}, 1.0f, 16, 2);",
            f"    mvin3({added}, ACC(0) | ACCUMULATE, c, r); }}",
            f"  for (int k = 0; k < {k}; k += 16) {{",
            f"    int d = {k} - k < 16 ? {k} - k : 16;",
            f"    mvin(&{left}[i][k], 64, d, r); mvin2(&W{number}[k][j], SPAD(0), c, d);",
            "    preload(SPAD(0), 0xc0000000, c, d, c, r);",
            "    compute_preloaded(SPAD(64), ~0u, d, r, c, r);",
            "  }",
            f"  mvout(&Y{number}[i][j], ACC(0), c, r);",
            "}",
            "fence();",
        ]
        left, k = f"Y{number}", n
    arguments.append(f"int8_t Z[{m}][{k}]")
    lines = "\n  ".join(["config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);", *body])
    return f"void kernel({', '.join(arguments)}) {{\n  {lines}\n}}\n"


@settings(
    max_examples=12,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.reuse, Phase.generate),
)
@given(
    m=st.sampled_from([8, 16, 20, 40]),
    k=st.sampled_from([16, 24, 40]),
    chain=st.lists(layers, min_size=2, max_size=4),
    seed=st.integers(0, 99),
)
def test_random_chains_of_products(
    machine: Machine, m: int, k: int, chain: list[Layer], seed: int
) -> None:
    source = program(m, k, chain)
    naive = raised(source, machine)
    plain = source.replace("1u << 31", "ACC(0)").replace("0xc0000000", "ACC(0) | ACCUMULATE")
    plain = plain.replace(", 64, d", ", SPAD(64), d").replace("~0u", "NONE")
    assert same(lift(plain, machine), naive, seed)
    assert sum(isinstance(s, Loop) for s in naive.body) <= 4 * len(chain)


def two_products(loops: str, rows: int, *operands: str) -> str:
    """A sum of two products whose operands are not evenly apart from one another."""
    one, first, other, second, result = operands
    return f"""
void kernel(const int8_t X[96][16], const int8_t U[16][64], const int8_t H[96][48],
            const int8_t V[64][16][64], const int32_t D[4][64], int8_t C[96][64]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(64, 1.0f, 16, 1);
  config_ld(0, 1.0f, 16, 2);
  config_st(64);
  {loops} {{
    mvin3(&D[0][0], ACC(0), 16, {rows});
    config_ld(16, 1.0f, 16, 0);
    mvin({one}, SPAD(0), 16, {rows});
    mvin2({first}, SPAD(64), 16, 16);
    preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, {rows});
    compute_preloaded(SPAD(0), NONE, 16, {rows}, 16, {rows});
    config_ld(48, 1.0f, 16, 0);
    mvin({other}, SPAD(128), 16, {rows});
    mvin2({second}, SPAD(192), 16, 16);
    preload(SPAD(192), ACC(0) | ACCUMULATE, 16, 16, 16, {rows});
    compute_preloaded(SPAD(128), NONE, 16, {rows}, 16, {rows});
    mvout({result}, ACC(0), 16, {rows});
  }}
  fence();
}}
"""


TWO_PRODUCTS = {
    "rows of different lengths": two_products(
        "for (int i = 0; i < 32; i += 16)", 16,
        "&X[i][0]", "&U[0][16]", "&H[i][32]", "&V[0][0][16]", "&C[i][16]",
    ),
    "one second operand is another one for each row": two_products(
        "for (int i = 0; i < 32; i++)", 1,
        "&X[i][0]", "&U[0][16]", "&H[i][32]", "&V[i][0][16]", "&C[i][16]",
    ),
    "one first operand is another one for each block of columns": two_products(
        "for (int j = 0; j < 64; j += 16)", 16,
        "&X[0][0]", "&U[0][j]", "&H[j][16]", "&V[0][0][j]", "&C[0][j]",
    ),
    "two distances between rows of one array": two_products(
        "for (int i = 0; i < 32; i += 16)", 16,
        "&X[i][0]", "&U[0][16]", "&X[i][0]", "&U[0][32]", "&C[i][16]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", TWO_PRODUCTS)
def test_sums_of_products_of_several_arrays(machine: Machine, case: str) -> None:
    source = TWO_PRODUCTS[case]
    naive = raised(source, machine)
    assert not any(isinstance(s, Opaque) for s in walk(naive.body))
    assert same(lift(source, machine), naive)


REFUSED = {
    "int x = A[0][0]; if (x) fence();": "line 2: the core branches on",
    "C[0][0] = 1;": "line 2: the core writes an array element",
    "strange();": "line 2: strange is called, but this file does not define it",
    "for (;;) {}": "the kernel runs for more than",
    "mvin(&A[0][0], SPAD(0), 16, 16);": "line 2: mvin has no local address, or no command",
    "config_ld(64, 1.0f, 16, 0); config_st(64); mvin(&A[0][0], SPAD(0), 16, 16); "
    "mvout(&C[0][0], SPAD(0), 16, 16);": "line 2: mvout copies rows of SPAD",
    "fence();": "the kernel stores no result",
}


@pytest.mark.parametrize(("body", "reason"), REFUSED.items())
def test_what_is_not_raised_is_said_with_its_line(machine: Machine, body: str, reason: str) -> None:
    head = "void kernel(const int8_t A[64][64], const int8_t B[64][64], int8_t C[64][64]) {\n"
    with pytest.raises(NotRaised) as refusal:
        raised(f"{head}{body}\n}}\n", machine)
    assert str(refusal.value).startswith(reason)


def test_a_result_that_is_computed_from_itself_is_refused(machine: Machine) -> None:
    source = gemm(32, 32, 32).replace("const int8_t A[32][32]", "int8_t A[32][32]")
    source = source.replace("mvout(&C[i][j]", "mvout(&A[i][j]")
    with pytest.raises(NotRaised, match="stores to memory that it loaded"):
        raised(source, machine)


def test_an_array_of_unknown_elements_is_refused(machine: Machine) -> None:
    source = gemm(32, 32, 32).replace("int8_t C[32][32]", "cell C[32][32]")
    with pytest.raises(NotRaised, match="array C has the unknown element type cell"):
        raised(f"typedef struct {{ int8_t v; }} cell;\n{source}", machine)


def product(
    m: int, n: int, k: int, transposed: str, *, tile: int = 16, end: str = "fence();"
) -> str:
    """`C = A * B` where A, B or none of them lies transposed in memory, in blocks of a size."""
    a, b = ((k, m) if "a" in transposed else (m, k)), ((n, k) if "b" in transposed else (k, n))
    first = "&A[k][i], SPAD(0), r, d" if "a" in transposed else "&A[i][k], SPAD(0), d, r"
    second = "&B[j][k], SPAD(64), d, c" if "b" in transposed else "&B[k][j], SPAD(64), c, d"
    turned = f"{int('a' in transposed)}, {int('b' in transposed)}"
    return f"""
void kernel(const int8_t A[{a[0]}][{a[1]}], const int8_t B[{b[0]}][{b[1]}], int8_t C[{m}][{n}]) {{
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, {turned});
  config_ld({a[1]}, 1.0f, 16, 0);
  config_ld({b[1]}, 1.0f, 16, 1);
  config_st({n});
  for (int i = 0; i < {m}; i += {tile})
    for (int j = 0; j < {n}; j += {tile}) {{
      int r = {m} - i < {tile} ? {m} - i : {tile};
      int c = {n} - j < {tile} ? {n} - j : {tile};
      mvin3(0, ACC(0), c, r);
      for (int k = 0; k < {k}; k += {tile}) {{
        int d = {k} - k < {tile} ? {k} - k : {tile};
        mvin({first});
        mvin2({second});
        preload(SPAD(64), ACC(0) | ACCUMULATE, c, d, c, r);
        compute_preloaded(SPAD(0), NONE, d, r, c, r);
      }}
      mvout(&C[i][j], ACC(0), c, r);
    }}
  {end}
}}
"""


@pytest.mark.parametrize("shape", [(32, 80, 48), (40, 72, 24), (20, 8, 36), (8, 24, 16)])
@pytest.mark.parametrize("transposed", ["", "a", "b"])
@pytest.mark.parametrize("tile", [16, 12])
def test_transposed_operands_are_raised(
    machine: Machine, shape: tuple[int, int, int], transposed: str, tile: int
) -> None:
    source = product(*shape, transposed, tile=tile)
    naive = raised(source, machine)
    assert same(lift(source, machine), naive)
    if tile == 16:
        assert emit(naive).count("mvout(") == 1


def test_rows_that_lie_apart_in_a_transposed_operand_are_not_moved_together(
    machine: Machine,
) -> None:
    source = product(48, 16, 16, "a").replace("i += 16", "i += 1").replace("48 - i < 16", "1 < 0")
    source = source.replace("? 48 - i : 16", "? 0 : 1").replace("&A[k][i]", "&A[k][2 * i]")
    source = source.replace("A[16][48]", "A[16][96]").replace("config_ld(48,", "config_ld(96,")
    assert same(lift(source, machine), raised(source, machine))


def test_a_kernel_without_a_fence_is_raised_to_one_that_ends_with_it(machine: Machine) -> None:
    text = emit(raised(product(32, 32, 32, "", end=""), machine))
    assert text.rstrip().endswith("fence();\n}")


def test_what_was_kept_transposed_is_not_used_as_it_lies(machine: Machine) -> None:
    again = (
        "preload(NONE, ACC(0) | ACCUMULATE, c, d, c, r);"
        "compute_accumulated(SPAD(0), NONE, d, r, c, r);"
    )
    plain = "config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);"
    source = product(16, 16, 16, "b").replace("      }\n", f"  {plain} {again}\n      }}\n", 1)
    with pytest.raises(NotRaised, match="under another setting than the one"):
        raised(source, machine)


def test_a_kernel_is_executed_once_to_be_read_and_raised(machine: Machine) -> None:
    folder = Path(__file__).parents[2] / "fixtures" / "foreign_folders" / "rocc_ws_outer"
    source = "// read and raised\n" + (folder / "kernel.c").read_text()
    lift.cache_clear()
    executed.cache_clear()
    read(source, machine)
    raised(source, machine)
    assert lift.cache_info().misses == executed.cache_info().misses == 1

"""Arrays of the kernel's own: in the file or the function, filled once or again and again."""

from __future__ import annotations

import random

import pytest
from byte_model import same
from kernel_model import randomly_rewritten

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.ir import Kernel, Opaque, walk
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.raising.execute import NotRaised, executed
from tilewright.proposers.rewriter.raising.raised import raised
from tilewright.proposers.rewriter.raising.schedule import scheduled
from tilewright.proposers.rewriter.reading import read

OWN = "static int8_t T[32][48];"


def layers(
    own: str = OWN, *, inside: bool = False, between: str = "", after: str = "", rows: str = "0"
) -> str:
    """`Y = (X * W) * U`: a strip of the first product's rows goes to T and comes back."""
    return f"""
{"" if inside else own}
void kernel(const int8_t X[64][32], const int8_t W[32][48], const int8_t U[48][16],
            int8_t Y[64][16]) {{
  {own if inside else ""}
  config_ex(WEIGHT_STATIONARY, NO_ACTIVATION, 1, 0, 0);
  config_ld(0, 1.0f, 16, 2);
  for (int s = 0; s < 64; s += 32) {{
    config_ld(32, 1.0f, 16, 0);
    config_ld(48, 1.0f, 16, 1);
    config_st(48);
    for (int i = {rows}; i < 32; i += 16)
      for (int j = 0; j < 48; j += 16) {{
        mvin3(0, ACC(0), 16, 16);
        for (int k = 0; k < 32; k += 16) {{
          mvin(&X[s + i][k], SPAD(0), 16, 16);
          mvin2(&W[k][j], SPAD(64), 16, 16);
          preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
          compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
        }}
        mvout(&T[i][j], ACC(0), 16, 16);
      }}
    fence();
    {between}
    config_ld(48, 1.0f, 16, 0);
    config_ld(16, 1.0f, 16, 1);
    config_st(16);
    for (int i = 0; i < 32; i += 16) {{
      mvin3(0, ACC(0), 16, 16);
      for (int k = 0; k < 48; k += 16) {{
        mvin(&T[i][k], SPAD(0), 16, 16);
        mvin2(&U[k][0], SPAD(64), 16, 16);
        preload(SPAD(64), ACC(0) | ACCUMULATE, 16, 16, 16, 16);
        compute_preloaded(SPAD(0), NONE, 16, 16, 16, 16);
      }}
      mvout(&Y[s + i][0], ACC(0), 16, 16);
    }}
    fence();
    {after}
  }}
}}
"""


STYLES = {
    "file": layers(),
    "external": layers("int8_t T[32][48];"),
    "static": layers(inside=True),
    "automatic": layers(OWN.removeprefix("static "), inside=True),
    "aligned": layers("static int8_t T[32][48] __attribute__((aligned(4 * sizeof(long))));"),
}


def opaque(kernel: Kernel) -> list[Opaque]:
    return [s for s in walk(kernel.body) if isinstance(s, Opaque)]


@pytest.mark.parametrize("style", STYLES)
def test_own_arrays_are_read_and_raised(machine: Machine, style: str) -> None:
    kernel, naive = lift(STYLES[style], machine), raised(STYLES[style], machine)
    assert not opaque(kernel)
    assert same(kernel, naive, calls=2)
    again = lift(emit(kernel), machine)
    assert again.arrays == kernel.arrays
    assert not opaque(lift(emit(naive), machine))
    assert same(kernel, lift(emit(naive), machine), calls=2)


def test_what_is_filled_again_gets_rows_of_its_own(machine: Machine) -> None:
    text = emit(raised(STYLES["file"], machine))
    assert "  static int8_t T_all[64][48] __attribute__((aligned(64)));" in text
    assert text.count("fence();") == 2  # not one for every strip
    once = STYLES["file"].replace("s < 64", "s < 32")
    assert "T_all" not in emit(raised(once, machine))


@pytest.mark.parametrize("seed", range(8))
def test_rewritten_kernels_compute_the_same_in_every_call(machine: Machine, seed: int) -> None:
    source = list(STYLES.values())[seed % len(STYLES)]
    rng = random.Random(seed)
    kernel, done = randomly_rewritten(read(source, machine), machine, rng, tries=14)
    assert done
    assert same(lift(source, machine), kernel, seed, calls=2), done


def test_loops_found_in_the_commands_use_own_arrays(machine: Machine) -> None:
    for source in STYLES.values():
        assert same(lift(source, machine), scheduled(source, machine), calls=2)


REFUSED = {
    "the core reads": (
        layers(between="int x = T[0][0]; if (x > 3) fence();"),
        "the core branches on the value of an array element",
    ),
    "the core writes": (layers(between="T[0][0] = 3;"), "also the core uses the array T"),
    "the core copies": (
        layers(between="struct t { int8_t v; }; struct t *p = (struct t *)T, *q = p + 1; *p = *q;"),
        "also the core uses the array T",
    ),
    "rows of an earlier call": (layers(rows="16"), "loads rows of T to which it has not stored"),
    "rows of an earlier filling": (
        layers(rows="s / 2"),
        "loads rows of T to which it has not stored",
    ),
    "rows past the array": (
        layers("static int8_t T[16][48], S[16][48];"), "accesses memory after the end of T"
    ),
    "filled too often": (
        layers("static int8_t T[65536][48];"), "fills the array T too many times"
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_not_raised_is_refused(machine: Machine, what: str) -> None:
    source, reason = REFUSED[what]
    separated = what in ("the core writes", "the core copies")  # raised with a loop for this code
    with pytest.raises(NotRaised, match=reason):
        (executed if separated else raised)(source, machine)


@pytest.mark.parametrize("what", ["the core reads", "the core writes"])
def test_commands_alone_do_not_stand_for_the_core(machine: Machine, what: str) -> None:
    with pytest.raises(NotRaised, match="also the core uses the array T"):
        scheduled(REFUSED[what][0], machine)


CORE = layers(between="for (int e = 0; e < 32; e++) T[e][e] = T[e][e] ^ 3;")


def test_code_of_the_core_keeps_its_place_and_its_fences(machine: Machine) -> None:
    kernel = read(CORE, machine)
    assert [s.names & {"T"} for s in opaque(kernel)] == [{"T"}]
    with pytest.raises(NotApplicable):
        Step.parse("fences").apply(kernel, machine)
    with pytest.raises(NotApplicable):
        Step.parse("dead-code").apply(kernel, machine)


def test_functions_that_stay_calls_may_use_the_arrays_of_the_file(machine: Machine) -> None:
    function = "static void mix(void) { for (int e = 0; e < 32; e++) T[e][e] ^= 3; }"
    kernel = read(layers(f"{OWN}\n{function}", between="mix();"), machine)
    assert [s.names & {"T"} for s in opaque(kernel)] == [{"T"}]


def test_arrays_that_text_uses_are_still_arrays(machine: Machine) -> None:
    kernel = lift(layers(inside=True, between="strange(T);"), machine)
    assert [s.text for s in opaque(kernel)] == ["strange(T);"]
    assert emit(kernel).count("static int8_t T[32][48]") == 1


@pytest.mark.parametrize("inside", [False, True])
def test_static_pointers_may_point_to_earlier_arrays(machine: Machine, *, inside: bool) -> None:
    pointers = f"{OWN} static int8_t *p = &T[0][0], *q = &T[1][0];"
    source = layers(pointers, inside=inside).replace("&T[i][j]", "p + 48 * i + j")
    text = emit(raised(source, machine))
    assert text == emit(raised(layers(inside=inside), machine)).replace(OWN, pointers)


TWICE = """
static int8_t T[16][16];
void kernel(const int8_t X[16][16], int8_t Y[16][16]) {
  config_ld(16, 1.0f, 16, 0); config_st(16);
  { static int8_t T[16][16]; mvin(&X[0][0], SPAD(0), 16, 16); mvout(&T[0][0], SPAD(0), 16, 16); }
  fence();
  { static int8_t T[16][16]; mvin(&T[0][0], SPAD(0), 16, 16); mvout(&Y[0][0], SPAD(0), 16, 16); }
  fence();
}
"""


def test_arrays_of_one_name_are_not_taken_for_one(machine: Machine) -> None:
    for source in (TWICE, TWICE.partition(";")[2]):
        assert opaque(lift(source, machine))
        named = [a.name for a in scheduled(source, machine).arrays if a.local]
        assert len(set(named)) == 2

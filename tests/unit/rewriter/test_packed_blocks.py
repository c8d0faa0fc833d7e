"""Blocks packed into words: printed, read again and executed, they are the same commands."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from kernel_model import gemm, randomly_rewritten, trace

from tilewright.proposers.rewriter.analysis.buffers import NotApplicable
from tilewright.proposers.rewriter.analysis.ranges import simplify
from tilewright.proposers.rewriter.emit import emit
from tilewright.proposers.rewriter.estimate.cost import estimate
from tilewright.proposers.rewriter.lifting.kernel import lift
from tilewright.proposers.rewriter.machine import Machine
from tilewright.proposers.rewriter.planning.steps import Step
from tilewright.proposers.rewriter.raising.execute import executed

PACK = Step("pack")
SIZES = 0xFFFFFFFF


def issued(source: str, machine: Machine) -> list[tuple[object, ...]]:
    """The commands a kernel's C issues, with local addresses as the accelerator reads them."""
    run = executed(source, machine)
    found = []
    for number, _, *operands in run.events:
        name = run.commands[number]
        local = machine.local_operands(name)
        cut = (v & SIZES if at in local else v for at, v in enumerate(operands))
        found.append((name, *cut))
    return found


@pytest.mark.parametrize("seed", range(12))
def test_packed_blocks_are_the_same_commands(machine: Machine, seed: int) -> None:
    rng = random.Random(seed)
    shape = rng.choice([(32, 64, 32), (48, 64, 64), (64, 128, 16)])
    plain, _ = randomly_rewritten(simplify(lift(gemm(*shape), machine)), machine, rng, 4)
    plain = replace(plain, words=None)  # the random rewrites may have packed them
    packed = PACK.apply(plain, machine)
    again = lift(emit(packed), machine)
    assert again.words is machine.words
    assert list(trace(again.body)) == list(trace(plain.body))
    assert issued(emit(packed), machine) == issued(emit(plain), machine)


def test_rows_beyond_one_addition_get_a_word_of_their_own(machine: Machine) -> None:
    source = """void kernel(const int8_t A[64][64]) {
  config_ld(64, 1.0f, 16, 0);
  for (int i = 0; i < 64; i += 16) {
    mvin(&A[i][0], SPAD(i + 100), 64, 16);
    mvin(&A[i][0], SPAD(i + 2000), 64, 16);
    mvin(&A[i][0], SPAD(i + 2200), 64, 16);
    mvin(&A[i][0], SPAD(i + 2264), 64, 16);
  }
}
"""
    packed = emit(PACK.apply(lift(source, machine), machine))
    assert "uint64_t word = spad + i + 100;" in packed
    assert "word + 1900" in packed
    assert "uint64_t word2 = spad + i + 2200;" in packed
    assert "word2 + 64" in packed


PARTIAL = """void kernel(const int8_t A[40][72]) {
  config_ld(72, 1.0f, 16, 0);
  for (int i = 0; i < 40; i += 16) {
    const int rows = 40 - i < 16 ? 40 - i : 16;
    for (int j = 0; j < 72; j += 16) {
      const int cols = 72 - j < 16 ? 72 - j : 16;
      mvin(&A[i][j], SPAD(i + 48 * j), cols, rows);
      mvin(&A[i][0], SPAD(i + 1024), 64, rows);
    }
  }
}
"""


def test_blocks_of_varying_sizes_are_packed_where_their_sizes_are_known(machine: Machine) -> None:
    plain = lift(PARTIAL, machine)
    packed = emit(PACK.apply(plain, machine))
    lines = [line.strip() for line in packed.splitlines()]
    inner = lines.index("for (int j = 0; j < 72; j += 16) {")
    rows = lines.index("const uint64_t spad = BLOCK(SPAD(0), 64, rows);")
    both = lines.index("const uint64_t spad2 = BLOCK(SPAD(0), cols, rows);")
    assert rows < inner < both
    assert "mvin_block(&A[i][0], spad + i + 1024);" in lines
    assert list(trace(lift(packed, machine).body)) == list(trace(plain.body))
    assert issued(packed, machine) == issued(PARTIAL, machine)


def test_words_whose_sizes_vary_in_a_loop_are_expected_to_take_longer(machine: Machine) -> None:
    partial = PACK.apply(lift(PARTIAL, machine), machine)
    whole = PACK.apply(lift(PARTIAL.replace("72", "80"), machine), machine)
    assert estimate(partial, machine).core > estimate(whole, machine).core


def test_words_that_somebody_wrote_are_read(machine: Machine) -> None:
    source = """void kernel(const int8_t A[64][64]) {
  const uint64_t at = BLOCK(ACC(16) | FULL, 16, 4), none = BLOCK(NONE, 16, 16);
  for (int i = 0; i < 4; i++) {
    uint64_t b = BLOCK(SPAD(64), 16, 16) + 16 * i;
    preload_blocks(b - 16, at + 4 * i | (i > 0 ? ACCUMULATE : 0));
    compute_preloaded_blocks(b + 1024, none);
  }
}
"""
    (first, *_) = trace(lift(source, machine).body)
    assert first == (
        "preload",
        (("SPAD", 48, frozenset()), ("ACC", 16, frozenset({"FULL"})), 16, 16, 16, 4),
    )


@pytest.mark.parametrize(
    "call",
    ["preload_blocks(b, b, b)", "preload_blocks(16, b)", "preload_blocks(b * 2, b)"],
)
def test_what_is_no_packed_block_stays_text(machine: Machine, call: str) -> None:
    source = f"void kernel(void) {{ const uint64_t b = BLOCK(SPAD(0), 16, 16); {call}; }}"
    assert call in emit(lift(source, machine))


def test_packing_twice_and_without_blocks_is_refused(machine: Machine) -> None:
    kernel = PACK.apply(lift(gemm(32, 32, 32), machine), machine)
    with pytest.raises(NotApplicable, match="already packed"):
        PACK.apply(kernel, machine)
    with pytest.raises(NotApplicable, match="no command takes a packed block"):
        PACK.apply(lift("void kernel(void) { fence(); }", machine), machine)


def test_the_core_is_expected_to_have_less_to_do(machine: Machine) -> None:
    kernel = simplify(lift(gemm(64, 64, 64), machine))
    packed = PACK.apply(kernel, machine)
    assert estimate(packed, machine).core < estimate(kernel, machine).core
    assert estimate(packed, machine).array == estimate(kernel, machine).array


def test_a_file_that_uses_the_name_itself_is_left_alone(machine: Machine) -> None:
    source = "#define BLOCK 16\n" + gemm(32, 32, 32)
    with pytest.raises(NotApplicable, match="names that are needed for packed blocks"):
        PACK.apply(lift(source, machine), machine)

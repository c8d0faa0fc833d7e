"""The branches that the core mispredicts are counted at their addresses."""

from __future__ import annotations

import random
import struct

from target.sim import assembler as asm
from target.sim.assembler import A0, CODE
from tilewright.targets.gemmini.sim import Region, SimConfig, run_kernel

IN = 0x9000_0000
TURNS = 256
BODY: list[int | bytes] = [
    asm.addi(6, 0, TURNS),
    asm.ld(7, A0, 0),  # the loop
    asm.addi(A0, A0, 8),
    asm.addi(6, 6, -1),
    asm.b_type(0, 7, 0, 8),  # skips the next one where the word is 0
    asm.addi(8, 8, 1),
    asm.b_type(1, 6, 0, -20),
    asm.RETURN,
]
BRANCH, LOOP = CODE + 4 * 4, CODE + 4 * 6


def mispredicted(config: SimConfig, words: list[int]) -> dict[int, int]:
    regions = [Region(IN, struct.pack(f"<{len(words)}Q", *words), False, "in")]
    result = run_kernel(config, asm.link(BODY), regions, max_instructions=10_000)
    assert result.status == "ok", result.fault
    found = {h.pc: h.cycles for h in result.hotspots if h.cause == "mispredictions"}
    assert sum(found.values()) == result.breakdown["mispredictions"]
    return found


def test_a_branch_that_depends_on_data_is_mispredicted_where_the_data_are_random(
    config: SimConfig,
) -> None:
    draw = random.Random(3)
    found = mispredicted(config, [draw.randrange(2) for _ in range(TURNS)])
    assert TURNS // 4 < found[BRANCH] < TURNS * 3 // 4
    assert found.get(LOOP, 0) < TURNS // 4


def test_a_branch_that_is_always_the_same_is_predicted(config: SimConfig) -> None:
    for word in (0, 1):
        assert sum(mispredicted(config, [word] * TURNS).values()) < 20

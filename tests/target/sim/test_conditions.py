"""Conditions that depend on the contents of arguments are recorded with their results."""

from __future__ import annotations

import struct

import pytest

from target.sim import assembler as asm
from target.sim.assembler import A0, CODE, RA, RETURN
from tilewright.parts.machine_code.flow import joins
from tilewright.parts.machine_code.riscv import read_words
from tilewright.targets.gemmini.sim import Condition, Region, SimConfig, run_kernel

IN, OUT = 0x9000_0000, 0x9100_0000
SP, A1 = 2, 11
LOAD = asm.ld(5, A0, 0)
NOP = asm.addi(0, 0, 0)
LOAD_FLOAT, LOAD_ONE = asm.fld(0, A0, 0), asm.fld(1, A0, 8)


def bne(register: int, instructions: int) -> int:
    """A branch over so many instructions if the register is not 0."""
    return asm.b_type(1, register, 0, 4 * (instructions + 1))


def simulated(
    config: SimConfig, code: list[int], first: int = 0, later: tuple[int, ...] = (), second: int = 0
) -> dict[int, Condition]:
    """The conditions and numbers that depend on data, by their positions.

    In the first call, the argument in a0 holds the words `first` and `second`.
    """
    words = [*code, RETURN]
    contents = [struct.pack("<QQ", word, second) for word in (first, *later)]
    result = run_kernel(
        config,
        asm.link(words),
        [Region(IN, contents[0], False, "in"), Region(OUT, bytes(64), True, "out")],
        later=[(content, bytes(64)) for content in contents[1:]],
        timing=False,
        max_instructions=10_000,
        joins=joins(read_words(asm.code_bytes(words), CODE, {})),
    )
    assert result.status == "ok", result.fault
    return {(one.pc - CODE) // 4: one for one in result.conditions}


def recorded(
    config: SimConfig, code: list[int], first: int = 0, later: tuple[int, ...] = ()
) -> dict[int, str]:
    """The results of each condition on data, by its position: "0", "1", "01" or "jump"."""
    return {
        place: "jump" if one.is_jump else "0" * one.was_false + "1" * one.was_true
        for place, one in simulated(config, code, first, later).items()
        if not one.is_number
    }


def taken_unless_0(register: int) -> list[int]:
    """A branch that is taken if the register is not 0, to code that is reached anyway."""
    return [bne(register, 1), NOP]


SET_ON_ONE_WAY = [LOAD, asm.addi(6, 0, 0), bne(5, 1), asm.addi(6, 0, 1)]
"""x6 is set to 0, and to 1 if the word is 0."""
SPILLED = [asm.sd(6, SP, -8), asm.addi(6, 0, 0), asm.ld(7, SP, -8), *taken_unless_0(7)]
ENTER = [asm.addi(SP, SP, -16), asm.sd(RA, SP, 0)]
LEAVE = [asm.ld(RA, SP, 0), asm.addi(SP, SP, 16), RETURN]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ([LOAD, *taken_unless_0(5)], {1: "0"}),
        # the length of a loop
        ([asm.addi(6, 0, 3), asm.addi(6, 6, -1), asm.b_type(1, 6, 0, -4)], {}),
        # computed from the word
        ([LOAD, asm.addi(6, 5, 7), asm.r_type(0x33, 0, 0, 7, 6, 6), *taken_unless_0(7)], {3: "1"}),
        # overwritten
        ([LOAD, asm.addi(5, 0, 7), *taken_unless_0(5)], {}),
        # comparisons whose results are values: sltiu, slt, feq.d, and the sign of a number
        ([LOAD, asm.i_type(0x13, 3, 6, 5, 1)], {1: "1"}),
        ([LOAD, asm.r_type(0x33, 2, 0, 6, 5, 0)], {1: "0"}),
        ([LOAD_FLOAT, LOAD_ONE, asm.r_type(0x53, 2, 0x51, 6, 0, 1)], {2: "1"}),
        ([LOAD, asm.i_type(0x13, 5, 6, 5, 63)], {1: "0"}),
        ([LOAD, asm.i_type(0x1B, 5, 6, 5, 31)], {1: "0"}),
        ([LOAD, asm.i_type(0x13, 5, 6, 5, 62)], {}),
        # whether a number is NaN
        ([LOAD_FLOAT, asm.r_type(0x53, 2, 0x51, 6, 0, 0), *taken_unless_0(6)], {}),
        # in memory: of the word, of a number, and of the word before a number was written over it
        ([LOAD, asm.addi(6, 5, 0), *SPILLED], {5: "0"}),
        ([asm.addi(6, 0, 3), *SPILLED], {}),
        ([LOAD, asm.sd(5, SP, -8), asm.addi(6, 0, 3), *SPILLED], {}),
        # in an output
        ([asm.addi(6, 0, 3), asm.sd(6, A1, 8), asm.ld(7, A1, 8), *taken_unless_0(7)], {3: "1"}),
        # set on one way of a branch; the way on which nothing is set shows nothing
        ([*SET_ON_ONE_WAY, *taken_unless_0(6)], {2: "0", 4: "1"}),
        ([*SET_ON_ONE_WAY, *SPILLED], {2: "0", 7: "1"}),
        # on the way itself, it is a number
        ([LOAD, bne(5, 3), asm.addi(6, 0, 1), *taken_unless_0(6), NOP], {1: "0"}),
        # an iteration of a loop whose length is data
        (
            [
                *(asm.addi(6, 0, 0), LOAD, asm.addi(6, 6, 1), asm.addi(5, 5, -1)),
                *(*taken_unless_0(6), asm.b_type(1, 5, 0, -16)),
            ],
            {4: "1", 6: "01"},
        ),
        # stored where the word says: then any memory depends on it
        (
            [
                *(LOAD, asm.r_type(0x33, 0, 0, 7, 5, SP), asm.sd(0, 7, -16)),
                *(asm.addi(6, 0, 3), *SPILLED),
            ],
            {7: "1"},
        ),
        # a jump to an address that depends on the word
        (
            [
                *(asm.u_type(0x17, 7, 0), LOAD, asm.r_type(0x33, 0, 0, 7, 5, 7)),
                asm.i_type(0x67, 0, 0, 7, 16),
            ],
            {3: "jump"},
        ),
        # flags that an addition of the words raised, and a rounding mode that the word chose
        (
            [
                *(LOAD_FLOAT, LOAD_ONE, asm.r_type(0x53, 7, 1, 2, 0, 1)),
                *(asm.i_type(0x73, 2, 6, 0, 1), *taken_unless_0(6)),
            ],
            {4: "0"},
        ),
        (
            [
                *(LOAD, asm.i_type(0x73, 1, 0, 5, 2), asm.r_type(0x53, 7, 1, 2, 3, 3)),
                asm.r_type(0x53, 2, 0x51, 6, 2, 3),
            ],
            {3: "1"},
        ),
        ([asm.r_type(0x53, 7, 1, 2, 3, 3), asm.r_type(0x53, 2, 0x51, 6, 2, 3)], {}),
    ],
)
def test_what_depends_on_data(config: SimConfig, code: list[int], found: dict[int, str]) -> None:
    first = 3 if "01" in found.values() else 0
    assert recorded(config, code, first) == found


def test_what_a_function_is_called_with_on_one_way_depends_on_data(config: SimConfig) -> None:
    """Another call, on the other way, may give it another number."""
    inner = [asm.addi(7, 0, 1), *taken_unless_0(6), *taken_unless_0(7), RETURN]
    code = [*ENTER, LOAD, bne(5, 4), asm.addi(6, 0, 1), NOP, *taken_unless_0(6), *LEAVE]
    code[5] = asm.j_type(RA, 4 * (len(code) - 5))
    assert recorded(config, [*code, *inner]) == {3: "0", len(code) + 1: "1"}


def test_what_a_function_writes_on_one_way_depends_on_data_after_it(config: SimConfig) -> None:
    inner = [asm.addi(6, 0, 1), RETURN]
    on_the_way = [NOP, *taken_unless_0(6)]
    code = [*ENTER, LOAD, asm.addi(6, 0, 0), bne(5, 3), *on_the_way, *taken_unless_0(6), *LEAVE]
    code[5] = asm.j_type(RA, 4 * (len(code) - 5))
    assert recorded(config, [*code, *inner]) == {4: "0", 8: "1"}


def test_results_of_all_calls_are_recorded_together(config: SimConfig) -> None:
    code = [LOAD, *taken_unless_0(5)]
    assert recorded(config, code, 3, (4, 5)) == {1: "1"}
    assert recorded(config, code, 3, (0, 5)) == {1: "01"}


def test_what_an_earlier_call_stored_under_a_condition_depends_on_data(config: SimConfig) -> None:
    """The second call reads the stack before it writes to it."""
    code = [asm.ld(7, SP, -8), *taken_unless_0(7), *SET_ON_ONE_WAY, asm.sd(6, SP, -8)]
    assert recorded(config, code, 0, (0,)) == {1: "01", 5: "0"}
    assert recorded(config, code, 0) == {5: "0"}


def test_branches_whose_ways_meet_at_the_end_of_their_function_end_there(
    config: SimConfig,
) -> None:
    inner = [asm.addi(6, 0, 0), bne(5, 2), asm.addi(6, 0, 1), RETURN, RETURN]
    after = [asm.addi(7, 0, 1), *taken_unless_0(7), *taken_unless_0(6)]
    code = [*ENTER, LOAD, NOP, *after, *LEAVE]
    code[3] = asm.j_type(RA, 4 * (len(code) - 3))
    assert recorded(config, [*code, *inner]) == {7: "1", len(code) + 1: "0"}


COUNT_DOWN = [LOAD, asm.i_type(0x13, 7, 6, 5, 0), asm.addi(5, 5, -1), asm.b_type(1, 5, 0, -8)]
"""Computes 0 from x5 in each iteration, and as many iterations as the word says."""


def test_sequences_of_what_is_read_and_computed_are_told_for_each_call(config: SimConfig) -> None:
    found = simulated(config, [LOAD, asm.i_type(0x13, 7, 6, 5, 4), asm.addi(7, 0, 1)], 3, (2, 3, 6))
    assert list(found) == [1]
    one = found[1]
    assert one.is_number
    (three, two, again, six), results = one.operands, one.results
    assert three == again
    assert len({three, two, six}) == 3
    assert results[0] == results[1] == results[2] != results[3]


def test_values_in_another_order_are_another_sequence(config: SimConfig) -> None:
    low_bits = [
        LOAD,
        asm.i_type(0x13, 7, 6, 5, 1),
        asm.ld(5, A0, 8),
        asm.addi(5, 5, -1),
        asm.i_type(0x13, 7, 6, 5, 1),
    ]
    repeated = [asm.addi(7, 0, 2), LOAD, asm.i_type(0x13, 7, 6, 5, 3), asm.addi(5, 5, 1)]
    assert len(simulated(config, low_bits, 2, (4,))[1].results) == 2
    code = [*repeated, asm.addi(7, 7, -1), asm.b_type(1, 7, 0, -12)]
    first, second = simulated(config, code, 0, (1,))[2].results
    assert first != second
    assert first[1] == second[1] == 0


def test_the_only_value_of_a_sequence_is_told_however_often_it_occurs(config: SimConfig) -> None:
    found = simulated(config, COUNT_DOWN, 3, (5, 1))
    every, only = zip(*found[1].results, strict=True)
    assert len(set(every)) == 3
    assert len(set(only)) == 1
    assert 0 not in only
    assert found[1].operands[0][1] == 0


def test_flags_that_data_raised_are_a_number_whose_origin_differs(config: SimConfig) -> None:
    code = [LOAD_FLOAT, LOAD_ONE, asm.r_type(0x53, 7, 1, 2, 0, 1), asm.i_type(0x73, 2, 6, 0, 1)]
    one = simulated(config, code, 0, (0,))[3]
    assert len(set(one.operands)) == 2
    assert len(set(one.results)) == 1


def test_operands_in_registers_of_floats_are_recorded(config: SimConfig) -> None:
    code = [LOAD_FLOAT, asm.r_type(0x53, 2, 0x51, 6, 0, 1)]
    one = simulated(config, code, 1 << 62, (1 << 61,))[1]
    assert len(set(one.operands)) == 2
    assert len(set(one.results)) == 1


def test_results_of_sums_of_two_numbers_that_are_data_are_not_recorded(config: SimConfig) -> None:
    difference = asm.r_type(0x33, 0, 0x20, 7, 5, 6)
    code = [LOAD, asm.ld(6, A0, 8), difference, asm.r_type(0x33, 0, 0, 7, 5, A0)]
    add = asm.r_type(0x53, 7, 1, 2, 0, 1)
    floats = [LOAD_FLOAT, LOAD_ONE, add, asm.r_type(0x53, 7, 1, 2, 0, 3)]
    for found in (simulated(config, code), simulated(config, floats)):
        assert list(found) == [2, 3]
        assert found[2].results == ((0, 0),)
        assert found[3].results != ((0, 0),)


def test_the_instructions_that_computed_an_operand_are_told(config: SimConfig) -> None:
    in_memory = [asm.sd(6, SP, -8), asm.ld(7, SP, -8)]
    code = [LOAD, asm.i_type(0x13, 7, 6, 5, 1), *in_memory, asm.r_type(0x33, 7, 0, 8, 5, 7)]
    found = simulated(config, code, 2, (4, 3))
    assert found[1].producers == [[], [], []]
    assert found[4].producers == [[], [CODE + 4], []]
    of_words, of_bits, _ = zip(*found[4].values, strict=True)
    assert set(of_words) == {(0, 0)}
    assert of_bits[0] == of_bits[1] != of_bits[2]


def test_what_differed_in_two_calls_is_not_recorded_further(config: SimConfig) -> None:
    code = [LOAD, asm.addi(6, 5, 1), asm.i_type(0x13, 7, 7, 5, 1)]
    found = simulated(config, code, 2, (4, 6, 8))
    assert len(found[1].results) == 2
    assert len(found[2].results) == 4


def test_whether_the_core_reads_data_itself_is_told(config: SimConfig) -> None:
    def reads(code: list[int]) -> bool:
        regions = [Region(IN, bytes(16), False, "in"), Region(OUT, bytes(16), True, "out")]
        return run_kernel(config, asm.link([*code, RETURN]), regions, timing=False).cpu_read_data

    assert reads([LOAD])
    assert not reads([asm.sd(5, SP, -8), asm.ld(6, SP, -8), asm.sd(5, A1, 0)])


def test_what_each_call_changes_and_the_next_one_reads_is_told(config: SimConfig) -> None:
    """Below the stack pointer, the code counts its calls, or keeps a number of the first one."""
    load, store = asm.ld(6, SP, -8), asm.sd(6, SP, -8)
    changed = simulated(config, [load, asm.addi(6, 6, 1), store], 0, (0, 0, 0))
    assert [place for place, one in changed.items() if one.is_kept] == [0]
    set_once = [load, bne(6, 2), asm.addi(6, 0, 1), store]
    assert not any(one.is_kept for one in simulated(config, set_once, 0, (0, 0, 0)).values())
    written_before = [asm.ld(6, A0, 0), store, load]
    assert not any(one.is_kept for one in simulated(config, written_before, 1, (2, 3)).values())


def test_places_that_a_word_may_choose_are_numbers_that_depend_on_it(config: SimConfig) -> None:
    """The word chooses where 1 is written; a place between is read afterwards."""
    add = asm.r_type(0x33, 0, 0, 5, 5, SP)
    clear = [asm.sd(0, SP, -8 * place) for place in range(1, 5)]
    code = [*clear, LOAD, add, asm.addi(6, 0, 1), asm.sd(6, 5, -32)]
    between, outside = asm.ld(7, SP, -24), asm.ld(7, SP, -8)
    found = simulated(config, [*code, between, outside], 0, (16, 0, 16))
    assert [len(found[len(code)].results), len(code) + 1 in found] == [3, False]
    assert len(set(found[len(code)].results[1:])) == 1
